"""The loudspeaker for the tests of the player."""

from __future__ import annotations

from tests.support.rig import rig, silent_rig

__all__ = ["rig", "silent_rig"]
