"""Protocol errors with the blame in the type. Core.

`LocalProtocolError`: this program tried to send what the protocol forbids; a bug here.
`RemoteProtocolError`: the other side sent it; it says which code to answer with.
"""

from __future__ import annotations


class ProtocolError(Exception):
    """Base of both."""


class LocalProtocolError(ProtocolError):
    """We were about to break the protocol."""


class RemoteProtocolError(ProtocolError):
    """The other side broke the protocol.

    Args:
        code: error code to answer with (`bad_json`, `bad_message` …).
        message: one sentence, without the contents of the message.
        param: the field at fault.
        reply_to: the `id` of the message at fault, if it could be read.
    """

    def __init__(
        self, code: str, message: str, *, param: str | None = None, reply_to: str | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.reply_to = reply_to
