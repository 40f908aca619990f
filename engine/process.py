"""How a process of kokoro-live starts, stops and complains. Shell.

Every `__main__` calls `run`. It reads the settings, sets up logging, runs the async main until it
returns or a signal asks for the end, and turns an `EngineError` into one sentence and exit code 1.
"""

from __future__ import annotations

import errno
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trio

from .errors import EngineError, PortInUse, SetupError

if TYPE_CHECKING:
    from .config import Settings


def set_up_logging(settings: Settings) -> None:
    """Logs go to standard error, one event a line; never with the text that is spoken."""
    import structlog  # which takes longer to load than a command has that logs nothing

    level = getattr(logging, settings.log_level.upper())
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
    )
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(
                fmt="%H:%M:%S" if settings.log_format == "text" else "iso"
            ),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    # Libraries (websockets, hypercorn, kokoro-onnx, phonemizer) speak only when something is wrong.
    # The level is the handler's: phonemizer sets one of its own on its logger.
    handler = logging.StreamHandler(sys.stderr)
    handler.setLevel(logging.ERROR)
    logging.basicConfig(handlers=[handler], format="%(name)s: %(message)s")


def run(main: Callable[[Settings], Awaitable[None]], flags: Mapping[str, Any] | None = None) -> int:
    """Runs `main(settings)` as `supervise` does, and logs; settings that cannot be are told too."""
    from . import config  # for the same reason

    try:
        settings = config.load(flags).settings
    except EngineError as error:
        print(error.message, file=sys.stderr)
        return 1
    set_up_logging(settings)
    return supervise(partial(main, settings))


def supervise(main: Callable[[], Awaitable[None]]) -> int:
    """Runs `main()` and gives the exit code: 0, 1 after one sentence, 130 after Ctrl-C.

    SIGTERM and SIGINT cancel `main`, which then has its `finally` blocks to say goodbye.
    """

    async def supervised() -> int:
        code = 0
        scope = trio.CancelScope()

        async def stop_on_signal(signals: AsyncIterator[int]) -> None:
            nonlocal code
            async for number in signals:  # a second one finds us at it already
                code = 130 if number == signal.SIGINT else 0
                scope.cancel()

        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stop_on_signal, signals)
                with scope:
                    await main()
                nursery.cancel_scope.cancel()
        return code

    code = 1
    try:
        code = trio.run(supervised, strict_exception_groups=True)
    except* EngineError as group:
        print(_first(group).message, file=sys.stderr)
    except* KeyboardInterrupt:  # before the signal receiver was there
        code = 130
    return code


def _first(group: BaseExceptionGroup[EngineError]) -> EngineError:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def end_within(seconds: float, code: int) -> None:
    """Ends the process in this time at the latest, whatever hangs on its way out."""
    last_resort = threading.Timer(seconds, os._exit, (code,))
    last_resort.daemon = True
    last_resort.start()


def set_nice(nice: int) -> bool:
    """Gives every thread of this process a nice value; threads made later have it too.

    Returns whether that was allowed; only the privileged may lower it.
    """
    try:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
        # On Linux that was this thread alone. Libraries have made others while they were imported.
        for task in Path("/proc/self/task").glob("[0-9]*"):
            with suppress(ProcessLookupError):  # it has just ended
                os.setpriority(os.PRIO_PROCESS, int(task.name), nice)
    except OSError:
        return False
    return True


async def open_listeners(host: str, port: int) -> list[trio.SocketListener]:
    """Listens on `host`, and on the other loopback family too when `host` is a loopback address.

    With port 0 the system chooses; both families then share the number if they can.

    Raises:
        PortInUse: another program has the port.
        SetupError: the address is not one of this machine's.
    """
    try:
        listeners = await trio.open_tcp_listeners(port, host=host)
    except OSError as error:
        raise _translate(error, host, port) from None
    chosen = port or listeners[0].socket.getsockname()[1]
    other = {"127.0.0.1": "::1", "::1": "127.0.0.1"}.get(host)
    if other:
        try:
            listeners += await trio.open_tcp_listeners(chosen, host=other)
        except OSError as error:
            # A machine without IPv6 is fine. The port taken by somebody else on the other family
            # is not, if it was asked for: a browser that tries ::1 first would reach that program.
            if port and error.errno == errno.EADDRINUSE:
                for listener in listeners:
                    await listener.aclose()
                raise _translate(error, other, port) from None
    return listeners


def _translate(error: OSError, host: str, port: int) -> SetupError:
    if error.errno == errno.EADDRINUSE:
        return PortInUse(
            f"Port {port} on {host} is already in use; stop the other program (is kokoro-live "
            f"running twice?) or choose another port."
        )
    if error.errno == errno.EACCES:
        return SetupError(f"Port {port} may not be opened by this user; choose one above 1023.")
    return SetupError(f"Cannot listen on {host} port {port}: {error.strerror or error}.")


def address(scheme: str, listeners: list[trio.SocketListener]) -> str:
    """The URL of the first listener, such as `ws://127.0.0.1:8881`."""
    host, port = listeners[0].socket.getsockname()[:2]
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
