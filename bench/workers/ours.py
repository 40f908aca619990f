"""kokoro-live itself, by its port `Speak`, without a socket. Shell.

Given: `flags`, settings that are preferred to the environment and the user's file, and `trouble`,
one of `troubles` if something is to go wrong. Whoever is told then that the speech has failed asks
again, once, as a client would.
"""

from __future__ import annotations

import trio

from bench.workers import troubles
from bench.workers.protocol import Ask, Channel, Meter, given
from engine import config, process, service
from engine.errors import EngineError
from engine.request import Done, Frame, Notice, SpeechRequest


async def main() -> None:
    """Loads the engine and answers requests; the loop that reads them has a thread of its own."""
    channel = Channel()
    told = given()
    settings = config.load(told["flags"]).settings
    process.set_up_logging(settings)
    if trouble := told.get("trouble"):
        troubles.cause(trouble)
    engine = await service.load(settings)

    async def speak(ask: Ask, meter: Meter) -> None:
        meter.says += engine.fallbacks
        async with engine(SpeechRequest(text=ask.text)) as events:
            async for event in events:
                if isinstance(event, Frame):
                    meter.hear(event.pcm)
                elif isinstance(event, Notice):
                    meter.says.append(event.message)
                elif isinstance(event, Done):
                    meter.cached = event.cached

    async def speak_in_trouble(ask: Ask, meter: Meter) -> None:
        troubles.arm()
        try:
            await speak(ask, meter)
        except EngineError as error:
            meter.says.append(error.message)
            await speak(ask, meter)

    channel.ready("onnxruntime", "numpy", "misaki", "spacy", "trio")
    asked = speak_in_trouble if trouble else speak
    await trio.to_thread.run_sync(
        channel.serve, lambda ask, meter: trio.from_thread.run(asked, ask, meter)
    )


if __name__ == "__main__":
    trio.run(main)
