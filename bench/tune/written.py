"""Settings in the file that the user keeps: which are his, and which a search has written. Files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import tomlkit
from tomlkit import TOMLDocument
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import Bool, Float, Integer

from bench.tune.space import Chosen, Value
from engine.access import ENV_PREFIX
from engine.config import Config, config_file
from engine.errors import ConfigError
from engine.model.store import write_atomically

#: how the comment behind a value that a search wrote begins
MARK = "bench tune"
_BEGINS, _ENDS = f"--- {MARK}", "---"


@dataclass(frozen=True, slots=True)
class Kept:
    """A setting that a person has chosen, and where: it is not searched."""

    name: str
    value: Value
    origin: str

    def __str__(self) -> str:
        return f"{self.name} = {shown(self.value)} ({self.origin})"


def file_in_use() -> Path:
    """The file that `engine.config.load` reads."""
    named = os.environ.get(f"{ENV_PREFIX}CONFIG")
    return Path(named).expanduser() if named else config_file()


def chosen_by_hand(config: Config, names: Iterable[str], file: Path) -> list[Kept]:
    """Settings that are not the default and that no search has written."""
    ours = written(file)
    return [
        Kept(name, value, config.origins[name])
        for name in names
        if config.origins[name] != "default"
        # Who changes a value that a search wrote has chosen it.
        and ours.get(name) != (value := getattr(config.settings, name))
    ]


def written(file: Path) -> dict[str, Value]:
    """What a search has written, as it wrote it: by the comments behind the values."""
    found: dict[str, Value] = {}
    document = _read(file)
    for name in document:
        item = document.item(name)
        if not isinstance(item, Bool | Integer | Float) or MARK not in item.trivia.comment:
            continue
        told = re.search(r"= (\S+)$", item.trivia.comment)
        value: Value = item.unwrap()
        if told and told[1] == shown(value):
            found[name] = value
    return found


def write(
    file: Path, chosen: Chosen, defaults: Chosen, kept: Iterable[str], about: Iterable[str]
) -> list[str]:
    """Writes what differs from the defaults; takes away what an earlier search wrote.

    Args:
        file: of the settings; made if it is not there.
        chosen: what was found.
        defaults: what need not be said.
        kept: names that stay as they are, because a person has chosen them.
        about: where this comes from, sentence by sentence, as comments.

    Returns:
        Names of the settings that were written.

    Raises:
        ConfigError: the file cannot be read or written.
    """
    document = _read(file)
    for name in written(file):
        document.remove(name)
    text = _without_comments(tomlkit.dumps(document))
    keep = set(kept)
    new = {n: v for n, v in chosen.items() if n not in keep and v != defaults[n]}
    if new:
        lines = [f"# {_BEGINS}", *(f"# {line}" for line in about)]
        lines += [f"{n} = {shown(v)} # {MARK}: {n} = {shown(v)}" for n, v in new.items()]
        lines.append(f"# {_ENDS}")
        # Before all else: behind a table these would belong to it.
        text = "\n".join(lines) + "\n" + text
    try:
        tomlkit.parse(text)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, text.encode())
    except (OSError, TOMLKitError) as error:
        raise ConfigError(f"{file} cannot be written: {error}.") from None
    return list(new)


def _without_comments(text: str) -> str:
    """Without what an earlier search said about what it wrote."""
    lines: list[str] = []
    ours = False
    for line in text.splitlines():
        if line == f"# {_BEGINS}":
            ours = True
        elif ours and line == f"# {_ENDS}":
            ours = False
        elif not (ours and line.startswith("#")):
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _read(file: Path) -> TOMLDocument:
    try:
        return tomlkit.parse(file.read_text("utf-8")) if file.is_file() else tomlkit.document()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file} cannot be read as TOML: {error}.") from None


def shown(value: Value) -> str:
    """A value as TOML has it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
