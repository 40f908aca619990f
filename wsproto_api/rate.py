"""How many messages a connection may send. Core.

A bucket holds `burst` tokens and gains `per_s` of them each second; a message takes one. Text of a
language model comes in bursts, so the bucket is large; a loop that has gone wild empties it.
"""

from __future__ import annotations

#: of sums of times: whoever waits exactly as long as it was told is not refused again
_ROUNDING = 1e-6


class TokenBucket:
    """The bucket, which is full at first.

    Args:
        per_s: messages in a second, over any long time.
        burst: messages at once.
        now_s: the time, by the clock that `take` will go by.

    """

    def __init__(self, per_s: float, burst: float, now_s: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._tokens = burst
        self._patience = burst  # how many may yet be refused
        self._at_s = now_s

    @property
    def hopeless(self) -> bool:
        """Whether a whole burst was refused, and a tenth of the rate since: nobody waits there."""
        return self._patience < 0

    def take(self, now_s: float) -> float:
        """Takes a token if there is one.

        Returns:
            0, or if there is none the seconds until there will be.
        """
        gained = max(0.0, now_s - self._at_s) * self._per_s
        self._tokens = min(self._burst, self._tokens + gained)
        self._patience = min(self._burst, self._patience + gained / 10)
        self._at_s = now_s
        if self._tokens >= 1 - _ROUNDING:
            self._tokens -= 1
            return 0.0
        self._patience -= 1
        return (1 - self._tokens) / self._per_s
