"""kokoro-pi's float graph with its own engine, which cuts and speaks as its server does. Shell.

It runs in an environment of its own. Given: `models`, the folder with its manifest, `voice`,
`threads`, and `variant`: `float`, or `upstream` for the graph before the rewrites, which speaks a
text whole. With `source`, a float32 model, and `voices`, an npz archive, it makes that folder
instead of speaking: kokoro-pi's rewrites on those weights.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from kokoro_pi import config, paths, server

from bench.workers.protocol import Ask, Channel, Meter, given


def main() -> None:
    """Loads the engine and answers requests."""
    channel = Channel()
    told = given()
    engine = server.Engine(
        Path(told["models"]), told["variant"], told["threads"], told["voice"], verify=False
    )
    clause = next(option.default for option in config.SERVE if option.name == "stream_limit")

    def speak(ask: Ask, meter: Meter) -> None:
        limit = clause if told["variant"] == "float" else len(ask.text)
        for piece in server.split_for_streaming(ask.text, limit):
            meter.hear(server.to_bytes(engine.synthesise(piece, trim=ask.trim), "s16le"))

    channel.ready("kokoro-pi", "kokoro-onnx", "onnxruntime", "numpy")
    channel.serve(speak)


def build() -> None:
    """Makes the folder of models; the manifest comes last."""
    import onnx
    from kokoro_pi import graph

    told = given()
    library = paths.prebuilt_library()
    if library is None:
        raise SystemExit("The installed kokoro-pi has no operator library for this machine.")
    models = Path(told["models"])
    models.mkdir(parents=True, exist_ok=True)
    fused, counts = graph.optimise(onnx.load(told["source"]))
    onnx.save(fused, models / "kokoro-fused.onnx")
    shutil.copyfile(library, models / paths.LIBRARY)
    shutil.copyfile(told["voices"], models / "voices-v1.0.bin")
    variants = {
        "float": {"model": "kokoro-fused.onnx", "custom_ops": [paths.LIBRARY], "backend": ""},
        "upstream": {"model": told["source"], "backend": ""},
    }
    manifest = {"variants": variants, "rewrites": counts}
    (models / "models.json").write_text(json.dumps(manifest))


if __name__ == "__main__":
    build() if "source" in given() else main()
