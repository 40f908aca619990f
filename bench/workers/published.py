"""kokoro-onnx as published: `Kokoro.create_stream` with its defaults. Shell.

Given: `model`, `voices` (an npz archive), `voice` and `threads`. The session is made here only
because kokoro-onnx has no way to set the number of threads.
"""

from __future__ import annotations

import asyncio

import onnxruntime as ort
from kokoro_onnx import Kokoro

from bench.workers.protocol import Ask, Channel, Meter, given


def main() -> None:
    """Loads the engine and answers requests."""
    channel = Channel()
    told = given()
    options = ort.SessionOptions()
    options.intra_op_num_threads = told["threads"]
    session = ort.InferenceSession(told["model"], options, providers=["CPUExecutionProvider"])
    kokoro = Kokoro.from_session(session, told["voices"])

    async def speak(ask: Ask, meter: Meter) -> None:
        async for audio, _ in kokoro.create_stream(ask.text, told["voice"], trim=ask.trim):
            meter.hear(audio)

    channel.ready("kokoro-onnx", "onnxruntime", "numpy")
    with asyncio.Runner() as runner:
        channel.serve(lambda ask, meter: runner.run(speak(ask, meter)))


if __name__ == "__main__":
    main()
