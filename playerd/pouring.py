"""Text that comes in pieces, from whoever says it on to the engine. Shell."""

from __future__ import annotations

from contextlib import suppress

import structlog
import trio

from engine.errors import EngineError, Overloaded
from engine.live import Flush, TextFeed
from engine.request import Stream

from .playout import Playout

log = structlog.get_logger("player")


async def pour(text: TextFeed, playout: Playout, stream: Stream, scope: trio.CancelScope) -> None:
    """Hands text on as it comes, and no faster than it is taken."""
    with scope:
        try:
            while (piece := await text.receive()) is not None:
                if isinstance(piece, str):
                    playout.more_text(piece, trio.current_time(), complete=False)
                await _hand_on(piece, stream)
            playout.more_text("", trio.current_time(), complete=True)
            await stream.end()
        except EngineError as error:
            # The stream is over, and whoever reads it is told why; or it takes no more, and what
            # it has is spoken.
            log.info("text was not taken", code=error.code)
            text.end()
            with suppress(EngineError):
                await stream.end()


async def _hand_on(piece: str | Flush, stream: Stream) -> None:
    if isinstance(piece, Flush):
        await stream.flush(piece.flush_id)
        return
    while True:
        try:
            await stream.append(piece)
            return
        except Overloaded as error:
            await trio.sleep((error.retry_after_ms or 1000) / 1000)
