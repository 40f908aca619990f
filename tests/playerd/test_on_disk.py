"""What is spoken is nobody's to find: the player writes no sound to any file (Linux)."""

from __future__ import annotations

import os
import stat
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import trio

from engine.config import Settings
from playerd.instance import LOCK_FILE
from tests.playerd.playing import Client
from tests.playerd.program import engine, running
from tests.support.rig import Rig
from tests.support.tone import ToneVoice
from wsproto_api import messages

TEXT = "One two three. Four."
#: where a program leaves things, but for its working directory
PLACES = (
    "HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
)  # fmt: skip
LOOK_S = 0.01


class Disk:
    """What a process does with files.

    Args:
        process: its number.
        folder: what is in it is looked at.
    """

    def __init__(self, process: int, folder: Path) -> None:
        self._process = Path("/proc", str(process))
        self._folder = folder

    def opened(self) -> set[Path]:
        """The files that it has opened for writing, deleted ones too, wherever they are."""
        return set(self._opened())

    def _opened(self) -> Iterator[Path]:
        for entry in (self._process / "fd").iterdir():
            try:
                facts = (self._process / "fdinfo" / entry.name).read_text().splitlines()
                (flags,) = (int(fact.split()[1], 8) for fact in facts if fact.startswith("flags:"))
                writes = flags & os.O_ACCMODE != os.O_RDONLY
                given = int(entry.name) <= 2  # by whoever started it
                if writes and not given and stat.S_ISREG(entry.stat().st_mode):
                    file = entry.readlink()
                    if not str(file).startswith("/memfd:"):  # memory, of the sound server's library
                        yield file
            except FileNotFoundError:
                continue  # it was closed just now

    def written_bytes(self) -> int:
        """How much it has written to files so far, wherever they are on the disk."""
        facts = (self._process / "io").read_text().splitlines()
        return int(next(fact.split()[1] for fact in facts if fact.startswith("write_bytes:")))

    def files(self) -> dict[Path, bytes]:
        """All that is in the folder."""
        return {file: file.read_bytes() for file in self._folder.rglob("*") if file.is_file()}


@dataclass(frozen=True, slots=True)
class Written:
    """What a player has done with files while it spoke.

    Attributes:
        opened: those it had open for writing in some moment.
        size: how many bytes it wrote, as far as that was to a disk and not to memory.
        changed: those that are other ones now, or were not there, in all its folders.
    """

    opened: set[Path]
    size: int
    changed: set[Path]


async def speak(client: Client) -> None:
    """A text, from its beginning to its end."""
    await client.done(await client.speak(TEXT))


async def speak_and_control(client: Client) -> None:
    """All the ways of sound: as it comes, kept in a pause, from another place, once more."""
    item = await client.speak(TEXT)
    await client.hear(messages.PlayerState, state="playing")
    await trio.sleep(0.3)
    await client.do(messages.PlayerPause())
    await client.do(messages.PlayerSeek(sample=0))
    await client.do(messages.PlayerResume())
    await client.done(item)
    again = client.ask()
    await client.say(messages.PlayerRepeat(id=again))
    ack = await client.hear(messages.PlayerAck, reply_to=again)
    await client.hear(messages.PlayerState, state="playing")
    await client.stop()
    await client.hear(messages.ItemDone, item=ack.item)


async def written(
    rig: Rig,
    folder: Path,
    settings: Settings,
    speak: Callable[[Client], Awaitable[None]],
    *flags: str,
) -> Written:
    """Has a player speak, all of whose folders are in this one."""
    environment = dict(rig.environment)
    for place in PLACES:
        (folder / place).mkdir()
        environment[place] = str(folder / place)
    opened = set[Path]()
    async with (
        engine(settings, ToneVoice()) as port,
        running(*flags, environment=environment, folder=folder, engine_port=port) as program,
        program.client() as client,
        trio.open_nursery() as nursery,
    ):
        await client.done(await client.speak("One."))  # what is loaded once is loaded
        disk = Disk(program.process.pid, folder)
        files, size = disk.files(), disk.written_bytes()

        async def watch() -> None:
            while True:
                opened.update(disk.opened())
                await trio.sleep(LOOK_S)

        nursery.start_soon(watch)
        await speak(client)
        nursery.cancel_scope.cancel()
        changed = {file for file, data in disk.files().items() if files.get(file) != data}
        return Written(opened, disk.written_bytes() - size, changed)


async def test_a_player_that_speaks_writes_to_no_file(
    rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    found = await written(rig, tmp_path, settings, speak_and_control)
    assert {file.name for file in found.opened} <= {LOCK_FILE}
    assert (found.size, found.changed) == (0, set())


async def test_the_yardstick_sees_a_file_of_sound(
    rig: Rig, tmp_path: Path, settings: Settings
) -> None:
    file = tmp_path / "speech.wav"
    found = await written(rig, tmp_path, settings, speak, "--sink", "wav", "--wav-path", f"{file}")
    assert file in found.opened
    assert found.changed == {file}
