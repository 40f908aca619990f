"""Reads a stream to its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from engine.audio import from_pcm
from engine.request import Event, Frame, Speak, SpeechRequest

E = TypeVar("E", bound=Event)


@dataclass(slots=True)
class Heard:
    """All events of a stream, in order."""

    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[E]) -> list[E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def pcm(self) -> bytes:
        """All samples, as bytes."""
        return b"".join(frame.pcm for frame in self.of(Frame))

    @property
    def audio(self) -> NDArray[np.float32]:
        """All samples, float32 [n] in -1…1."""
        return from_pcm(self.pcm)


async def hear(speak: Speak, request: SpeechRequest) -> Heard:
    """Speaks and listens to the end."""
    heard = Heard()
    async with speak(request) as events:
        async for event in events:
            heard.events.append(event)
    return heard
