"""How a process ends."""

from __future__ import annotations

import os
import signal

import trio

from engine import process


def test_a_second_signal_does_not_disturb_the_goodbye_of_the_first() -> None:
    done: list[str] = []

    async def main() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep_forever()
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            with trio.CancelScope(shield=True):
                for _ in range(10):
                    await trio.lowlevel.checkpoint()
            done.append("goodbye")

    assert process.supervise(main) == 0
    assert done == ["goodbye"]
