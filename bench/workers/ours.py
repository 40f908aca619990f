"""kokoro-live itself, by its port `Speak`, without a socket. Shell.

Given: `flags`, settings that are preferred to the environment and the user's file.
"""

from __future__ import annotations

import trio

from bench.workers.protocol import Ask, Channel, Meter, given
from engine import config, process, service
from engine.request import Done, Frame, SpeechRequest


async def main() -> None:
    """Loads the engine and answers requests; the loop that reads them has a thread of its own."""
    channel = Channel()
    settings = config.load(given()["flags"]).settings
    process.set_up_logging(settings)
    engine = await service.load(settings)

    async def speak(ask: Ask, meter: Meter) -> None:
        async with engine(SpeechRequest(text=ask.text)) as events:
            async for event in events:
                if isinstance(event, Frame):
                    meter.hear(event.pcm)
                elif isinstance(event, Done):
                    meter.cached = event.cached

    channel.ready("onnxruntime", "numpy", "misaki", "spacy", "trio")
    await trio.to_thread.run_sync(
        channel.serve, lambda ask, meter: trio.from_thread.run(speak, ask, meter)
    )


if __name__ == "__main__":
    trio.run(main)
