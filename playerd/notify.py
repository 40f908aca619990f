"""What the service manager is told, in the way of sd_notify(3). Shell.

systemd names a datagram socket in `NOTIFY_SOCKET`. Without one, as in a terminal or under launchd,
nobody is told anything, and nothing ever fails.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping

import structlog
import trio

log = structlog.get_logger("player")


class Notifier:
    """Tells the service manager how this process is.

    Args:
        environ: the process's environment.

    Attributes:
        period_s: how often `watch` says that all is well; None if nobody waits for it.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _address(environ.get("NOTIFY_SOCKET", ""))
        self.period_s = _period_s(environ)
        self._status = ""

    def ready(self, status: str) -> None:
        """The service runs from now on; the status is for people."""
        self._status = status
        self._tell("READY=1", f"STATUS={status}")

    def stopping(self) -> None:
        """The service is about to end, because it was asked to."""
        self._tell("STOPPING=1", "STATUS=ending")

    async def watch(self, complaint: Callable[[], str | None]) -> None:
        """Says that all is well again and again, as long as there is no complaint.

        It must run in the event loop that it speaks for: one that is stuck says nothing. Who is
        not heard of is killed and started anew. Returns at once if nobody listens.

        Args:
            complaint: one clause on what is wrong; None if nothing is.
        """
        if self._address is None or self.period_s is None:
            return
        told = None
        while True:
            wrong = complaint()
            if wrong != told:
                told = wrong
                self._tell(f"STATUS={wrong or self._status}")
                if wrong:
                    log.error("the service manager is to start the player anew", reason=wrong)
            if wrong is None:
                self._tell("WATCHDOG=1")
            await trio.sleep(self.period_s)

    def _tell(self, *lines: str) -> None:
        if self._address is None:
            return
        message = "\n".join(" ".join(line.splitlines()) for line in lines).encode()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(message, self._address)
        except OSError as error:  # then the manager does what it does with a silent service
            log.warning("the service manager cannot be told", error=error.strerror or str(error))


def _address(name: str) -> bytes | None:
    if name.startswith("/"):
        return os.fsencode(name)
    if name.startswith("@"):  # a name that is in no folder
        return b"\0" + os.fsencode(name[1:])
    return None  # none, or of a kind that only virtual machines have


def _period_s(environ: Mapping[str, str]) -> float | None:
    limit_us = environ.get("WATCHDOG_USEC", "")
    meant = environ.get("WATCHDOG_PID") or str(os.getpid())
    if not (limit_us.isascii() and limit_us.isdigit() and int(limit_us)):
        return None
    if meant != str(os.getpid()):
        return None
    return int(limit_us) / 2e6  # half of what it waits, as its manual says
