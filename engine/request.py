"""The one port of kokoro-live: a request in, a stream of events out. Core.

`SpeakLive` is implemented three times: by the engine in the same process, by the WebSocket client,
and by the fake voice of the tests. The WebSocket server takes one and never asks which it is; the
HTTP layer, the player and the benchmarks take a `Speak`, which is as much of it as they need.
`tests/test_speak_contract.py` holds all three to the same rules:

1. The first event is `Opened`, the last is `Done`; nothing follows `Done`.
2. Frames are numbered 0, 1, 2 … and `sample` of a frame is the number of samples before it.
   The first frame has `first`, the last has `last`; a `last` frame may be empty.
3. A `SegmentStart` comes before the first frame of its segment, which has `segment_first`; a
   `SegmentDone` comes after the last; `Marks`, if asked for, before the first one with sound. A
   frame never holds samples of two segments, so the last frame of a segment may be short; every
   other frame has the full length.
4. Segments are spans of the original text, in order and not overlapping.
5. A request that cannot be spoken raises an `EngineError`: on entry if it can be known then,
   else from the iterator. Leaving the context ends the work within one unit of inference.
6. Text that comes in pieces (`LiveRequest`) is spoken as if it had come at once, wherever it was
   cut: except that a flush ends a sentence, that what has waited for `max_buffer_delay_ms` is
   spoken up to its last whole word, and that segments are shorter while the listener has little to
   hear. Offsets count from the beginning of the first piece. After
   `end` comes what comes after the text of any other request.

The structs here are also the bodies of the wire messages (`wsproto_api.messages` adds a tag and
the stream's number), so a field has the same name everywhere.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Literal, Protocol

import msgspec

from .errors import InvalidRequest
from .samples import pcm_samples

MIN_SPEED = 0.25
MAX_SPEED = 4.0
MAX_PAUSE_SCALE = 5.0
MAX_VOICE_CHARS = 200
MAX_BUFFER_DELAY_MS = 60_000

#: whether somebody listens while it is made, or wants the whole when it is done
Priority = Literal["live", "batch"]

#: what is between two segments, from the weakest to the strongest; `none` is between two words
Boundary = Literal["none", "comma", "clause", "sentence", "paragraph"]


def refuse_speed(speed: float) -> None:
    """Raises `InvalidRequest` for a speed that nobody can speak at."""
    if not MIN_SPEED <= speed <= MAX_SPEED:
        raise InvalidRequest(
            f"The speed is {speed:g}; it must be from {MIN_SPEED:g} to {MAX_SPEED:g}.",
            param="speed",
        )


class Pronunciation(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How a word is to be said: by its `phonemes`, or by other words (`say`); one of the two.

    `engine.text.lexicon` checks and applies them.

    Attributes:
        word: a word or a phrase, as it is written: "kubectl", "AT&T", "New York".
        phonemes: in the model's alphabet, with or without slashes around them.
        say: words that are read instead: "cube control".
        case: whether capitals must agree; None: only if `word` has any.
        lang: a language tag; None is all languages, and "en" every English.
    """

    word: str
    phonemes: str | None = None
    say: str | None = None
    case: Literal["ignore", "exact"] | None = None
    lang: str | None = None


class TextOptions(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How what is written becomes what is spoken.

    Attributes:
        normalize: numbers, money, dates, units, symbols and the like become words.
        markdown: `on` reads everything that CommonMark calls markup as markup; `auto` only what
            hardly occurs in plain text; `off` nothing.
        emoji: `drop` them, or speak their `name`.
        code: blocks of code are skipped, announced by the words "code block", or read.
        urls: `short` speaks the host and what follows it shortly, `full` everything, `skip` nothing.
        pause_scale: factor of the pauses between segments, 0-5.
        lexicon: pronunciations that go before the user's own file.
    """

    normalize: bool = True
    markdown: Literal["auto", "on", "off"] = "auto"
    emoji: Literal["drop", "name"] = "drop"
    code: Literal["skip", "announce", "read"] = "skip"
    urls: Literal["short", "full", "skip"] = "short"
    pause_scale: float = 1.0
    lexicon: tuple[Pronunciation, ...] = ()


class Delivery(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """How to say something, whatever it is.

    Attributes:
        voice: a voice name such as `af_heart`; None is the configured default.
        lang: a language tag such as `en-us`; None is the voice's own language.
        speed: 0.25–4.0, 1 is the model's natural pace; None is the voice's default.
        key: a name the caller gives the stream; carried back, never interpreted.
        marks: whether to tell where the words are (`Marks`).
        phonemes: whether to tell the phonemes of each segment, and in `Marks` where they are.
        priority: `batch` if nobody listens while it is made; it gets the time that `live` leaves.
        options: how what is written becomes what is spoken.
    """

    voice: str | None = None
    lang: str | None = None
    speed: float | None = None
    key: str | None = None
    marks: bool = False
    phonemes: bool = False
    priority: Priority = "live"
    options: TextOptions = TextOptions()


class SpeechRequest(Delivery, kw_only=True, frozen=True):
    """What to say and how.

    Attributes:
        text: the original text; spans of segments are offsets into it, in code points.
    """

    text: str


class LiveRequest(Delivery, kw_only=True, frozen=True):
    """How to say a text that comes in pieces, by `Stream.append`.

    Attributes:
        max_buffer_delay_ms: 0-60,000. Text that has waited for so long for the rest of its
            sentence is spoken up to its last whole word; later, if the listener still has enough
            to hear.
    """

    max_buffer_delay_ms: int = 3_000


class Event(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """Base of what a stream yields."""


class Opened(Event, kw_only=True, frozen=True):
    """The request was accepted; voice, language and speed are resolved."""

    voice: str
    lang: str
    speed: float
    key: str | None = None


class SegmentStart(Event, kw_only=True, frozen=True):
    """A segment begins at `sample`; it speaks characters `char_start`…`char_end` of the text.

    Attributes:
        predicted_samples: how long it will be at most, with the silence it begins with; None if
            that is not known.
        pause: what is between it and the segment before; None if nothing was spoken before, or
            that is not known.
        cached: all of its audio is there already, and comes at once.
    """

    index: int
    text: str
    char_start: int
    char_end: int
    sample: int
    phonemes: str | None = None
    predicted_samples: int | None = None
    pause: Boundary | None = None
    cached: bool = False


class WordMark(msgspec.Struct, kw_only=True, frozen=True):
    """A word: characters of the original text, samples of the stream."""

    char_start: int
    char_end: int
    sample: int
    samples: int


class Marks(Event, kw_only=True, frozen=True):
    """Where the words of a segment are; comes before its first sound if `marks` was asked for.

    Attributes:
        words: in order.
        phonemes: for every phoneme of the `SegmentStart`, the sample of the stream it begins at;
            none if they were not asked for.
    """

    index: int
    words: tuple[WordMark, ...]
    phonemes: tuple[int, ...] = ()


class Frame(Event, kw_only=True, frozen=True):
    """A numbered piece of PCM (s16le, mono, 24 kHz).

    Attributes:
        seq: 0, 1, 2 … in the stream.
        sample: offset of the first sample from the start of the stream.
        discontinuity: something before this frame was skipped.
    """

    seq: int
    sample: int
    pcm: bytes
    first: bool = False
    last: bool = False
    discontinuity: bool = False
    segment_first: bool = False

    @property
    def samples(self) -> int:
        """Samples in this frame; 0 is legal for a last frame."""
        return pcm_samples(self.pcm)


class SegmentDone(Event, kw_only=True, frozen=True):
    """All frames of a segment were sent.

    Attributes:
        samples: its length.
        compute_ms: how long inference took.
        predicted_ms_left: about how much of the stream is to come, by the pace so far; None while
            the text is not complete.
    """

    index: int
    samples: int
    compute_ms: float
    predicted_ms_left: float | None = None


class Flushed(Event, kw_only=True, frozen=True):
    """All that was appended before a flush was sent.

    Attributes:
        flush_id: as in the flush.
    """

    flush_id: str | None = None


class Notice(Event, kw_only=True, frozen=True):
    """Something the listener should know though speech goes on (a warning on the wire).

    Attributes:
        char_start: first character of the original text that it is about, if it is about some.
        char_end: one past the last.
    """

    code: str
    message: str
    char_start: int | None = None
    char_end: int | None = None


class Done(Event, kw_only=True, frozen=True):
    """All audio was sent.

    Attributes:
        samples: length of the stream.
        audio_ms: the same in milliseconds.
        chars: length of the text.
        segments: number of segments spoken.
        ttfa_ms: request to first frame with sound in it; None if there was no sound. If the text
            comes in pieces, from the piece that completed the first segment.
        cached: whether any of it came from a cache.
    """

    samples: int
    audio_ms: float
    chars: int
    segments: int
    ttfa_ms: float | None = None
    cached: bool = False


class Stream(Protocol):
    """The events of one stream, and what may be said to it meanwhile, from any task."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def append(self, text: str, /) -> None:
        """More text, verbatim; it may be cut anywhere.

        Raises:
            InvalidRequest: the text has ended, or was there from the beginning.
            TextTooLong: the stream has had all the text that a stream may have.
            Overloaded: too much text waits; the piece was not taken.
        """
        ...

    async def flush(self, flush_id: str | None = None, /) -> None:
        """Speak what there is, and say `Flushed` after it.

        Raises:
            InvalidRequest: as `append`.
        """
        ...

    async def end(self) -> None:
        """No more text. Nothing happens if it has ended."""
        ...

    async def configure(self, *, voice: str | None = None, speed: float | None = None) -> None:
        """Another voice or speed, from the next segment on that is not begun.

        Raises:
            InvalidRequest: there is no such voice, or no such speed.
        """
        ...

    def heard(self, sample: int, /, *, playing: bool) -> None:
        """How far the listener is, so that the engine knows how much time there is.

        Nobody need tell; without it the engine reckons with a listener who plays everything the
        moment it comes. Tell when it begins, pauses or goes on, and a few times a second between,
        also in a pause: a report may be lost, and the last one counts. Never waits, never fails;
        one that cannot be, of what was not made yet, is ignored.

        Args:
            sample: of the stream, which is heard next.
            playing: whether it goes on by the clock. Not before the first sound, in a pause, or
                while the player holds back what it has.
        """
        ...


class SpeakLive(Protocol):
    """The port: see the module docstring for the rules.

    Raises:
        EngineError: on entry or from the iterator.
    """

    def __call__(
        self, request: SpeechRequest | LiveRequest, /
    ) -> AbstractAsyncContextManager[Stream]:
        """A context around the events of one utterance."""
        ...


class Speak(Protocol):
    """As much of `SpeakLive` as is needed for a text that is complete.

    Raises:
        EngineError: on entry or from the iterator.
    """

    def __call__(
        self, request: SpeechRequest, /
    ) -> AbstractAsyncContextManager[AsyncIterator[Event]]:
        """A context around the events of one utterance."""
        ...


class VoiceInfo(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """A voice that can be asked for.

    Attributes:
        id: what a request calls it; a blend is made of these.
        name: for people, with language and gender.
        lang: tag of its own language.
        grade: of the model's authors, A to F with + and -; None: they gave none.
        preview: a sentence in its language, to be spoken when somebody chooses a voice.
        speed: what a request without a speed gets.
        unreadable: why its language cannot be read here and what helps; None: it can be. Such a
            voice speaks other languages, if the request names one.
    """

    id: str
    name: str
    lang: str
    gender: Literal["female", "male"] | None = None
    grade: str | None = None
    preview: str | None = None
    speed: float = 1.0
    unreadable: str | None = None


class ModelInfo(msgspec.Struct, kw_only=True, frozen=True):
    """What speaks: for `ready`, `status` and the laboratory."""

    name: str
    build: str
    precision: str
    provider: str


class Describe(Protocol):
    """What an engine says of itself; given to servers beside `Speak`."""

    @property
    def voices(self) -> tuple[VoiceInfo, ...]:
        """The voices that a request may name."""
        ...

    @property
    def voices_hash(self) -> str:
        """Changes when any voice does."""
        ...

    @property
    def model(self) -> ModelInfo:
        """What speaks."""
        ...
