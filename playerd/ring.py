"""A ring of bytes between the Trio side and the audio thread. Core.

One thread writes, one thread reads; neither ever waits for the other. There is no lock: each side
moves only its own counter, after the bytes are in place or have been taken, and the interpreter
lock makes such a store visible whole and in order. Nothing is allocated but two small views a call.
"""

from __future__ import annotations


class Ring:
    """A first-in first-out buffer of fixed size.

    Args:
        capacity_bytes: how much it can hold.

    Attributes:
        overflow_bytes: what `write` was given and had no room for. Writer's side.
        underflow_bytes: what `read_into` was asked for and did not have. Reader's side.
    """

    def __init__(self, capacity_bytes: int) -> None:
        if capacity_bytes < 1:
            raise ValueError("a ring holds at least one byte")
        self.capacity_bytes = capacity_bytes
        self.overflow_bytes = 0
        self.underflow_bytes = 0
        self._store = memoryview(bytearray(capacity_bytes))
        # Counted from the beginning of time, so that full and empty differ.
        self._written = 0  # moved by the writer only
        self._read = 0  # moved by the reader only

    @property
    def readable_bytes(self) -> int:
        """What can be read. For the writer, who may ask too, it is what there is at most."""
        return self._written - self._read

    @property
    def writable_bytes(self) -> int:
        """Room. For the reader, who may ask too, it is what there is at most."""
        return self.capacity_bytes - self.readable_bytes

    def write(self, data: bytes | memoryview) -> int:
        """Takes as much of `data` as there is room for; returns how many bytes. Writer's side."""
        taken = min(len(data), self.writable_bytes)
        self.overflow_bytes += len(data) - taken
        at = self._written % self.capacity_bytes
        head = min(taken, self.capacity_bytes - at)
        self._store[at : at + head] = data[:head]
        self._store[: taken - head] = data[head:taken]
        self._written += taken
        return taken

    def read_into(self, out: memoryview) -> int:
        """Fills the front of `out` with what there is; returns how many bytes. Reader's side."""
        given = min(len(out), self.readable_bytes)
        self.underflow_bytes += len(out) - given
        at = self._read % self.capacity_bytes
        head = min(given, self.capacity_bytes - at)
        out[:head] = self._store[at : at + head]
        out[head:given] = self._store[: given - head]
        self._read += given
        return given

    def discard(self) -> int:
        """Forgets all that can be read; returns how many bytes. Reader's side."""
        dropped = self.readable_bytes
        self._read += dropped
        return dropped
