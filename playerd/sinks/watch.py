"""Whether a sound device still does what it says: it asks for blocks, and did not sleep. Core.

PortAudio does not report a device that has stopped asking (a suspended sink, a server that hangs),
nor that the machine was asleep. Times are in seconds and come in as arguments.
"""

from __future__ import annotations

#: no device waits longer than this for its next block, nor four times as long as it holds
SILENT_S = 0.5
SILENT_DEPTHS = 4
#: At a start the device asks for all it can hold; only what it asks for later shows that it plays.
PRIMING_S = 0.05
#: To open a device that is stalled afresh helps sometimes: tried after so long, then half as often
#: each time, up to this.
REOPEN_S = 5.0
REOPEN_MOST_S = 30.0

#: a shorter sleep than this was no sleep, but two clocks read one after the other
SLEEP_S = 2.0
#: Whoever opens a computer after longer than this does not expect it to go on speaking.
LONG_SLEEP_S = 30.0


class Watch:
    """Tells a device that is stalled.

    Args:
        depth_s: how much it holds.

    Attributes:
        limit_s: for how long a device that plays asks for nothing at most.
        stalled: it plays, and has asked for nothing for longer.
    """

    def __init__(self, depth_s: float, *, stalled: bool = False) -> None:
        self.limit_s = max(SILENT_S, SILENT_DEPTHS * depth_s)
        self.stalled = stalled
        self._began_s = 0.0
        self._looked_s = 0.0
        self._present_s = 0.0

    def begin(self, now_s: float) -> None:
        """The device was started just now."""
        self._began_s = self._looked_s = self._present_s = now_s

    def rest(self) -> None:
        """The device was stopped; it owes us nothing."""
        self.stalled = False

    def look(self, now_s: float, called_s: float) -> bool:
        """Looks at a device that plays; to be called often. Returns `stalled`.

        Args:
            now_s: the time.
            called_s: when it last asked for a block; 0 if it has not since it was started.
        """
        if now_s - self._looked_s > self.limit_s / 2:
            # We were kept from looking, and perhaps the audio thread from being called.
            self._present_s = now_s
        self._looked_s = now_s
        if now_s - max(called_s, self._present_s) > self.limit_s:
            self.stalled = True
        elif called_s > self._began_s + PRIMING_S:
            self.stalled = False
        return self.stalled


class Patience:
    """When a stalled device is to be opened afresh."""

    def __init__(self) -> None:
        self._due_s = 0.0
        self._wait_s = 0.0

    def reset(self) -> None:
        """It is not stalled."""
        self._wait_s = 0.0

    def is_over(self, now_s: float) -> bool:
        """Whether to open it now; to be asked for as long as it is stalled."""
        if not self._wait_s:
            self._wait_s = REOPEN_S
            self._due_s = now_s + REOPEN_S
        if now_s < self._due_s:
            return False
        self._wait_s = min(2 * self._wait_s, REOPEN_MOST_S)
        self._due_s = now_s + self._wait_s
        return True


class Sleep:
    """Tells that the machine was asleep.

    Args:
        asleep_s: how long it has slept in all, so far.
    """

    def __init__(self, asleep_s: float) -> None:
        self._asleep_s = asleep_s

    def slept_s(self, asleep_s: float) -> float:
        """How long it has slept since the last call; 0 for no sleep worth speaking of."""
        before_s, self._asleep_s = self._asleep_s, asleep_s
        slept_s = asleep_s - before_s
        return slept_s if slept_s > SLEEP_S else 0.0
