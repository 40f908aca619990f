"""The order of inference work, and when a stream's next sample is due. Core.

Two calls into the model at once are slower in sum than one after the other, so there is one lane.
Its unit is a piece: an acoustic pass or one window. Among the pieces that wait, the one with the
earliest playback deadline runs next (EDF): if any order keeps every listener supplied, so does this
one, but for a piece's length, and a new stream, due at once, overtakes all that have audio in hand.

EDF alone is unsound in overload: a stream that has fallen behind keeps a deadline in the past and
goes first until it has caught up, which it never does. But its listener has not skipped anything,
he has paused, and his next sample is due when the late piece reaches him. `Pace` counts like that
(it re-bases), so no deadline stays further in the past than one round of the waiting streams, and
every piece that waits becomes the earliest in the end.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.audio import SAMPLE_RATE

#: Seconds. A window takes at most about 0.3 s on two cores, so where listeners already wait, batch
#: work takes no more than 6 % of the lane from them.
BATCH_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """One piece of work in a lane, from `Lane.arrive` to `finish` or `withdraw`."""

    deadline_s: float
    batch: bool


class Lane:
    """Decides what runs next; one piece at a time.

    Live pieces run by deadline, equal deadlines by arrival. Batch pieces run by arrival, which is
    in turn, since a stream has one piece here at a time; by deadline, an old stream with minutes in
    hand would stand still until newer ones had as much. They run when no live piece waits.

    When live work alone fills the lane, that would be never. So all batch work together also has a
    deadline, `patience_s` after live work began to pass it over, and takes one turn by it among
    the live pieces; never before half that time has gone, however much they have in hand. A new
    stream therefore waits for no batch piece but one that runs, except in overload.

    Args:
        patience_s: seconds; infinity lets batch work wait for ever.
    """

    def __init__(self, patience_s: float = BATCH_PATIENCE_S) -> None:
        self._patience_s = patience_s
        self._waiting: list[Ticket] = []  # in order of arrival
        self._running: Ticket | None = None
        self._passed_over_since_s: float | None = None

    def arrive(self, deadline_s: float, *, batch: bool = False) -> Ticket:
        """A piece begins to wait.

        Args:
            deadline_s: when it is due at the listener, on any one clock; see `Pace.due_s`. It
                does not count if `batch`.
            batch: nobody listens while it is made.

        Raises:
            ValueError: the deadline is not a number.
        """
        if math.isnan(deadline_s):
            raise ValueError("A deadline must be a number.")
        ticket = Ticket(deadline_s, batch)
        self._waiting.append(ticket)
        return ticket

    def withdraw(self, ticket: Ticket) -> None:
        """A piece that waits will not be run.

        Raises:
            ValueError: it is not waiting.
        """
        if ticket not in self._waiting:
            raise ValueError("Only a piece that waits can be withdrawn.")
        self._waiting.remove(ticket)

    def start(self, now_s: float) -> Ticket | None:
        """The piece that is to run now; None if one is running or none waits.

        Args:
            now_s: the time, on the deadlines' clock.
        """
        if self._running is not None or not self._waiting:
            return None
        live = [ticket for ticket in self._waiting if not ticket.batch]
        batch = [ticket for ticket in self._waiting if ticket.batch]
        if batch and (not live or self._batch_goes_first(now_s, _most_urgent(live))):
            ticket, self._passed_over_since_s = batch[0], None
        else:
            ticket = _most_urgent(live)
            if not batch:
                self._passed_over_since_s = None
            elif self._passed_over_since_s is None:
                self._passed_over_since_s = now_s
        self._waiting.remove(ticket)
        self._running = ticket
        return ticket

    def _batch_goes_first(self, now_s: float, urgent: Ticket) -> bool:
        since_s = self._passed_over_since_s
        return (
            since_s is not None
            and now_s >= since_s + self._patience_s / 2
            and urgent.deadline_s >= since_s + self._patience_s
        )

    def finish(self, ticket: Ticket) -> None:
        """The running piece is done, has failed or was stopped; the lane is free.

        Raises:
            ValueError: it is not running.
        """
        if ticket is not self._running:
            raise ValueError("Only the piece that runs can be finished.")
        self._running = None


def _most_urgent(live: list[Ticket]) -> Ticket:
    return min(live, key=lambda ticket: ticket.deadline_s)  # the first of equals


class Pace:
    """When one stream's next sample is due at its listener.

    It is reckoned from what was made, as if he played it as it comes: if he pauses, or reads no
    further, the lead shrinks by the clock all the same, and the stream's next piece then goes
    first, once. Unless he tells where he is (`heard`): from then on it is reckoned from that.

    Args:
        now_s: when the stream was asked for, in seconds on any one clock. Its first sample is due
            at once.
        budget_s: how long it may take if that makes it better.
    """

    def __init__(self, now_s: float, budget_s: float = 0.0) -> None:
        self._budget_s = budget_s
        self._planned_s = 0.0
        self._made = 0  # samples
        self._held_s: float | None = None  # in hand while he stands still; else `_due_s` counts
        self.restart(now_s)

    def restart(self, now_s: float) -> None:
        """Only now there is something to speak; for a stream of which nothing was made yet."""
        self._due_s = now_s
        self._budget_until_s = now_s + self._budget_s

    def due_s(self, now_s: float) -> float:
        """When the next sample is due: the deadline of the stream's next piece.

        It never decreases but by what the listener tells.
        """
        return self._due_s if self._held_s is None else now_s + self._held_s

    def made(self, now_s: float, samples: int) -> float:
        """The stream's next piece is made and plays when what was made before it has been played.

        Args:
            now_s: when it was made.
            samples: its length, 24 kHz.

        Returns:
            Seconds by which it came late, 0 if in time. For the first piece, the wait for the
            first sound; after that, an underrun.

        Raises:
            ValueError: `samples` is negative.
        """
        if samples < 0:
            raise ValueError(f"A piece has {samples} samples.")
        length_s = samples / SAMPLE_RATE
        self._made += samples
        self._planned_s = max(0.0, self._planned_s - length_s)
        if self._held_s is not None:
            self._held_s += length_s
            return 0.0
        late_s = max(0.0, now_s - self._due_s)
        self._due_s = max(self._due_s, now_s) + length_s
        return late_s

    def heard(self, now_s: float, sample: int, *, playing: bool) -> bool:
        """The listener tells where he is; he need not, and what he tells may be lost.

        Args:
            now_s: when he is there.
            sample: of the stream, which he hears next.
            playing: whether he goes on by the clock. If not, because he has paused or has yet to
                begin, what he has in hand stays as it is until he tells again.

        Returns:
            Whether it can be: nobody has heard what was not made. If not, nothing changes.
        """
        if not 0 <= sample <= self._made:
            return False
        if sample == self._made:  # he waits, and it counts since when
            self._due_s, self._held_s = min(self.due_s(now_s), now_s), None
            return True
        lead_s = (self._made - sample) / SAMPLE_RATE
        self._due_s, self._held_s = now_s + lead_s, None if playing else lead_s
        return True

    def planned(self, samples: int) -> None:
        """So much will be made for what is known by now, 24 kHz."""
        self._planned_s += samples / SAMPLE_RATE

    def next_due_s(self, now_s: float) -> float:
        """When the first sample behind all that is planned is due."""
        return self.due_s(now_s) + self._planned_s

    def lead_s(self, now_s: float) -> float:
        """Seconds of audio in hand: 0 when nothing was made yet or in an underrun."""
        return max(0.0, self.due_s(now_s) - now_s)

    def spare_s(self, now_s: float) -> float:
        """Seconds until the listener notices: the lead, or what is left of the budget."""
        return max(self.lead_s(now_s), self._budget_until_s - now_s)
