"""The errors of kokoro-live. Core.

    EngineError                     code               retryable
    ├── InvalidRequest              invalid_value      no   the request cannot be spoken as it is
    │   ├── UnknownVoice            unknown_voice      no
    │   ├── UnsupportedLanguage     unsupported_language no
    │   ├── TextTooLong             text_too_long      no
    │   └── UnknownStream           unknown_stream     no
    ├── Overloaded                  overloaded         yes  come back later
    │   └── TooManyStreams          too_many_streams   yes  this connection has its share
    ├── Unauthorized                unauthorized       no   the token is missing or wrong
    ├── OriginNotAllowed            origin_not_allowed no   a page of this origin, or this Host
    ├── NotReady                    not_ready          yes  the engine is starting, or not running
    ├── StreamCancelled             cancelled          no   somebody else ended the stream
    ├── SynthesisFailed             synthesis_failed   no   the model or G2P failed on this text
    ├── InternalError               internal           no   a bug of ours; details are in the log
    └── SetupError                  setup              no   this machine is not set up; nothing was served
        ├── ConfigError             config             no
        ├── AssetError              asset              no   a file is missing, corrupt or cannot be had
        └── PortInUse               port_in_use        no

Every message is one sentence a person can act on, and never contains the text to be spoken.
Foreign exceptions become one of these once, at the seam where they arrive.
"""

from __future__ import annotations

import traceback
from typing import ClassVar

#: exit status of a process that only a new one can replace, because a call into a library hangs
TAINTED = 75


class EngineError(Exception):
    """Base of all errors that reach a user.

    Args:
        message: one clear sentence.
        param: the request field or setting at fault, if there is one.
        retry_after_ms: how long to wait before trying again, if that helps.
    """

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False

    def __init__(
        self, message: str, *, param: str | None = None, retry_after_ms: int | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_ms = retry_after_ms


class InvalidRequest(EngineError):
    """The request cannot be spoken as it is."""

    code = "invalid_value"


class UnknownVoice(InvalidRequest):
    """No voice of that name."""

    code = "unknown_voice"


class UnsupportedLanguage(InvalidRequest):
    """The language is unknown, or its grapheme-to-phoneme part is not installed."""

    code = "unsupported_language"


class TextTooLong(InvalidRequest):
    """The text is over the configured limit."""

    code = "text_too_long"


class UnknownStream(InvalidRequest):
    """No stream has that number, or it is long over."""

    code = "unknown_stream"


class Overloaded(EngineError):
    """Too many streams at once."""

    code = "overloaded"
    retryable = True


class TooManyStreams(Overloaded):
    """One connection has as many streams as one may have."""

    code = "too_many_streams"


class Unauthorized(EngineError):
    """The token is missing or wrong."""

    code = "unauthorized"


class OriginNotAllowed(EngineError):
    """A page of this origin may not connect, or the Host is not ours."""

    code = "origin_not_allowed"


class NotReady(EngineError):
    """The engine cannot be reached, or is still starting."""

    code = "not_ready"
    retryable = True


class StreamCancelled(EngineError):
    """The stream was cancelled by somebody other than its reader."""

    code = "cancelled"


class SynthesisFailed(EngineError):
    """The model or the grapheme-to-phoneme step failed on this text."""

    code = "synthesis_failed"


class InternalError(EngineError):
    """A fault of kokoro-live itself."""

    code = "internal"


class SetupError(EngineError):
    """This machine is not set up to do what was asked."""

    code = "setup"


class ConfigError(SetupError):
    """A setting has an impossible value."""

    code = "config"


class AssetError(SetupError):
    """A model or voice file is missing, corrupt, or cannot be fetched."""

    code = "asset"


class PortInUse(SetupError):
    """Another program listens on the port."""

    code = "port_in_use"


def _tree(root: type[EngineError]) -> dict[str, type[EngineError]]:
    found = {root.code: root}
    for child in root.__subclasses__():
        found.update(_tree(child))
    return found


#: code -> class, for whoever rebuilds an error from its code on the far side of a wire.
BY_CODE: dict[str, type[EngineError]] = {**_tree(EngineError), "internal": InternalError}


def from_code(
    code: str, message: str, *, param: str | None = None, retry_after_ms: int | None = None
) -> EngineError:
    """The error with this code; codes we do not know become `InternalError`."""
    return BY_CODE.get(code, InternalError)(message, param=param, retry_after_ms=retry_after_ms)


def blame(error: BaseException) -> str:
    """What a log may say of an unexpected exception: its kind and place, never its message.

    Messages of foreign exceptions often quote what they stumbled over, which is somebody's text.
    """
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[-3:]]
    return f"{type(error).__name__} at {' > '.join(places)}"
