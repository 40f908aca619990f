"""Sound before other work: the priority of the player and of its audio thread. Shell.

The player needs one percent of a core, but in time. Whatever the system refuses is done without:
nothing here fails, and nothing waits.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Literal

from engine import process

#: what sound servers have; measured: a player is then exact beside four busy programs
NICE = -11
#: of a thread that goes before all that are not real-time; the lowest there is, for sound servers
#: go before their clients
REALTIME = 1
#: QOS_CLASS_USER_INTERACTIVE of <sys/qos.h>
USER_INTERACTIVE = 0x21

Raised = Literal["real-time", "interactive", "nice", "no"]


def raise_process() -> bool:
    """Lets this process go first, and every thread it has; returns whether that was allowed.

    The audio thread alone is not enough: it waits for the interpreter, which others may hold.
    """
    return os.getpriority(os.PRIO_PROCESS, 0) <= NICE or process.set_nice(NICE)


def raise_thread() -> Raised:
    """Lets the calling thread go first, as far as is allowed; returns how."""
    if sys.platform == "darwin":
        interactive = _qos is not None and _qos(USER_INTERACTIVE, 0) == 0
        return "interactive" if interactive else "no"
    return _raise_linux_thread()


def _raise_linux_thread() -> Raised:
    thread = threading.get_native_id()
    try:
        # What the thread may start is not real-time too.
        policy = os.SCHED_RR | os.SCHED_RESET_ON_FORK
        os.sched_setscheduler(thread, policy, os.sched_param(REALTIME))
        return "real-time"
    except (OSError, AttributeError):  # not allowed, or not there
        pass
    try:
        if os.getpriority(os.PRIO_PROCESS, thread) > NICE:
            os.setpriority(os.PRIO_PROCESS, thread, NICE)
        return "nice"
    except OSError:
        return "no"


def _load_qos() -> Callable[[int, int], int] | None:
    """The call of macOS that gives the calling thread a quality of service."""
    try:
        function = ctypes.CDLL(None).pthread_set_qos_class_self_np
    except (AttributeError, OSError):
        return None
    function.argtypes = (ctypes.c_uint, ctypes.c_int)
    function.restype = ctypes.c_int
    call: Callable[[int, int], int] = function
    return call


# Looked for now, for the audio thread has no time to.
_qos = _load_qos()
