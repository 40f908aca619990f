"""The log of one stream, and the cursors of its followers. Core.

A stream is written once, by the task that pulls it out of a `Speak`, and read by any number of
followers, each with a cursor of its own at its own pace. A follower that stands still costs
nothing but the retained window: the log keeps `retain_samples` of audio; older entries are
dropped, and a cursor that had not read them finds `discontinuity` on its next frame.

No waiting happens here: `server` wakes followers after it has written.
"""

from __future__ import annotations

from collections import deque

import msgspec

from engine.request import Done, Event, Frame, Opened

from .messages import Error, StreamCancelled

#: entries that are kept, whatever they are: those without sound take memory too
MAX_ENTRIES = 20_000

#: how a stream can end other than with `Done`
Ending = Error | StreamCancelled


class StreamLog:
    """What happened on a stream so far.

    Args:
        number: the stream's number on the wire.
        opened: its first event; every follower is told it first, so it is not in the log.
        retain_samples: how much audio stays readable behind the newest sample.
    """

    def __init__(self, number: int, opened: Opened, retain_samples: int) -> None:
        self.number = number
        self.opened = opened
        self.samples = 0  # written so far
        self.next_seq = 0  # of the frame that will be written next
        self.forgotten_seq = -1  # the last frame that is no longer kept
        self.over = False
        self.cursors: set[Cursor] = set()
        self._retain = retain_samples
        self._entries: deque[Event | Ending] = deque()
        self._base = 0  # position of the oldest entry that is kept
        self._held = 0  # samples in the entries that are kept

    @property
    def lead_samples(self) -> int:
        """How far the newest sample is ahead of the fastest follower."""
        return self.samples - max((cursor.sample for cursor in self.cursors), default=0)

    def append(self, event: Event) -> None:
        """Writes the next event of the stream; nothing, if the stream is over.

        Whoever makes the events may have one in hand when somebody else cancels the stream.
        """
        if self.over:
            return
        self._entries.append(event)
        if isinstance(event, Frame):
            self.samples += event.samples
            self.next_seq = event.seq + 1
            self._held += event.samples
        self._forget()

    def finish(self) -> None:
        """The stream came to its natural end: `Done` was its last event."""
        self.over = True

    def fail(self, error: Error) -> None:
        """The stream ends with an error, after the frames that were made."""
        if not self.over:
            self._entries.append(error)
            self.over = True

    def cancel(self, cancelled: StreamCancelled | None = None) -> bool:
        """The stream ends here and now: what a follower has not read, it will not see.

        Args:
            cancelled: what followers are told.

        Returns:
            Whether there was something to cancel: it was not over, or not everybody had heard all.
        """
        if self.over:
            already = bool(self._entries) and isinstance(self._entries[-1], StreamCancelled)
            if already or not any(cursor.behind for cursor in self.cursors):
                return False
        self._base += len(self._entries)
        self._entries.clear()
        self._entries.append(cancelled or StreamCancelled(stream=self.number))
        self._held = 0
        self.over = True
        return True

    def follow(self, from_seq: int = 0) -> Cursor:
        """A new follower, who goes on behind frame `from_seq - 1`, or begins at the beginning."""
        cursor = Cursor(self, from_seq)
        self.cursors.add(cursor)
        return cursor

    def leave(self, cursor: Cursor) -> None:
        """The follower is gone."""
        self.cursors.discard(cursor)

    def entry(self, position: int) -> tuple[int, Event | Ending] | None:
        """The oldest kept entry at or after `position`, with its position; None if not written."""
        position = max(position, self._base)
        index = position - self._base
        return (position, self._entries[index]) if index < len(self._entries) else None

    def _forget(self) -> None:
        """Drops the oldest frames, and what was told before each of them."""
        while self._held >= self._retain:
            size = next((n for n, e in enumerate(self._entries, 1) if isinstance(e, Frame)), 0)
            oldest = self._entries[size - 1] if size else None
            if not isinstance(oldest, Frame) or self._held - oldest.samples < self._retain:
                break
            for _ in range(size):
                self._drop()
        while len(self._entries) > MAX_ENTRIES:
            self._drop()

    def _drop(self) -> None:
        entry = self._entries.popleft()
        self._base += 1
        if isinstance(entry, Frame):
            self._held -= entry.samples
            self.forgotten_seq = entry.seq


class Cursor:
    """Where one follower is. Made by `StreamLog.follow`.

    Attributes:
        sample: samples that this follower has taken or skipped.
        ended: whether it has taken the stream's end; nothing follows, not even a later `cancel`.
    """

    def __init__(self, log: StreamLog, from_seq: int) -> None:
        self._log = log
        self._position = 0
        self._next_seq = from_seq
        self._passing = from_seq > 0  # until the frame before the wanted one
        self.sample = 0
        self.ended = False

    @property
    def behind(self) -> bool:
        """Whether there is something to read."""
        return not self.ended and self._log.entry(self._position) is not None

    def read(self) -> Event | Ending | None:
        """Takes the next entry; None if the follower has everything so far.

        What comes before the wanted frame and is not behind its predecessor is passed over, except
        the end of the stream; a frame that is not the next one carries `discontinuity`.
        """
        while not self.ended and (found := self._log.entry(self._position)) is not None:
            position, entry = found
            self._position = position + 1
            if not isinstance(entry, Frame):
                self.ended = isinstance(entry, Done | Error | StreamCancelled)
                # The frame before the wanted one may be kept no longer; this was behind it.
                self._passing = self._passing and self._log.forgotten_seq < self._next_seq - 1
                if self._passing and not self.ended:
                    continue
                return entry
            self.sample = entry.sample + entry.samples
            self._passing = entry.seq + 1 < self._next_seq
            if entry.seq < self._next_seq:
                continue
            skipped = entry.seq != self._next_seq
            self._next_seq = entry.seq + 1
            return msgspec.structs.replace(entry, discontinuity=True) if skipped else entry
        return None
