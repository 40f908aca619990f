"""`python -m playerd.sinks.listing`: names of the sound devices that can play, one a line. Shell.

PortAudio looks for devices only when it begins, and cannot begin afresh while a stream plays. So
this is a process of its own.
"""

from __future__ import annotations

import sys


def names() -> list[str]:
    """What people call these devices, each name once; none where there is no PortAudio."""
    try:
        import sounddevice  # it looks for the library and for devices
    except OSError:
        return []
    playing = (device for device in sounddevice.query_devices() if device["max_output_channels"])
    return list(dict.fromkeys(" ".join(str(device["name"]).splitlines()) for device in playing))


if __name__ == "__main__":
    sys.stdout.buffer.write("".join(f"{name}\n" for name in names()).encode())
