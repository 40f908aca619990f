"""A worker with a beep for an engine: `python -m tests.bench.fake_worker JSON`. Tests only.

Given: `amplitude`; `cut`, samples that trimming takes away; `cached`, what it says of itself;
`fails`, a sentence to end with instead of answering; `answers`, after how many it ends.
"""

from __future__ import annotations

import numpy as np

from bench.workers.protocol import Ask, Channel, Meter, given


def main() -> None:
    channel = Channel()
    told = given()
    print("libraries print what they like")

    def speak(ask: Ask, meter: Meter) -> None:
        if told.get("fails"):
            raise SystemExit(told["fails"])
        told["answers"] = told.get("answers", 99) - 1
        if told["answers"] < 0:
            raise SystemExit("it has answered enough")
        time = np.arange(2400 * len(ask.text.split()))
        noise = np.random.default_rng(1).standard_normal(len(time))
        beep = (told["amplitude"] * (np.sin(time / 8) + 0.1 * noise)).astype(np.float32)
        if ask.trim:
            beep = beep[told.get("cut", 0) :]
        meter.hear(np.zeros(240, np.float32))
        for piece in np.array_split(beep, 4):
            meter.hear(piece)
        meter.cached = told.get("cached", False)

    channel.ready("numpy")
    channel.serve(speak)


if __name__ == "__main__":
    main()
