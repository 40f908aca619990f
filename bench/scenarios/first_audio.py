"""Request to first frame, to first frame with sound, and RTF, by length of the text.

In this process, warm, without any cache of audio. The lengths take turns in every round, so that
a machine whose speed drifts is unfair to none of them. RTF is compute / audio, over all segments.
"""

from __future__ import annotations

import random
import statistics

import trio

from engine import config, service
from engine.request import Done, Event, Frame, SegmentDone, Speak, SpeechRequest

TEXTS = {
    "2 words": "Good morning.",
    "1 sentence": "The quick brown fox jumps over the lazy dog by the river.",
    "1 long sentence": (
        "When the rain had stopped at last and the first light came over the hills beyond the town, "
        "the old man took his coat and his stick, closed the door behind him without a sound, and "
        "walked down to the harbour where the boats lay waiting for the tide to turn."
    ),
    "4 sentences": (
        "It was late in the evening. Nobody had seen the cat since noon. The garden was empty, and "
        "the street was quiet. Then something moved behind the shed."
    ),
}


async def run(rounds: int) -> list[dict[str, object]]:
    """One row per length: medians over the rounds."""
    engine = await service.load(config.load().settings)
    order = random.Random(1)
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in TEXTS}
    for _ in range(rounds):
        names = list(TEXTS)
        order.shuffle(names)
        for name in names:
            runs[name].append(await _speak(engine, TEXTS[name]))
    return [
        {"text": name, "chars": len(TEXTS[name])}
        | {key: round(statistics.median(run[key] for run in done), 3) for key in done[0]}
        for name, done in runs.items()
    ]


async def _speak(speak: Speak, text: str) -> dict[str, float]:
    began_s = trio.current_time()
    first_s: float | None = None
    compute_ms = 0.0
    last: Event | None = None
    async with speak(SpeechRequest(text=text)) as events:
        async for event in events:
            if isinstance(event, Frame) and first_s is None:
                first_s = trio.current_time()
            if isinstance(event, SegmentDone):
                compute_ms += event.compute_ms
            last = event
    assert isinstance(last, Done)
    assert first_s is not None
    assert last.ttfa_ms is not None
    return {
        "first_frame_ms": (first_s - began_s) * 1000,
        "first_sound_ms": last.ttfa_ms,
        "audio_s": last.audio_ms / 1000,
        "rtf": compute_ms / last.audio_ms,
    }
