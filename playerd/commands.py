"""What the player's commands ask of it, and print. Shell.

Each is one request on a connection of its own; one that changes a value by a step asks for the
value before. What cannot be done is an `EngineError`, whose sentence is for a person.
"""

from __future__ import annotations

import codecs
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import trio
from msgspec.structs import replace

from engine import process
from engine.errors import InvalidRequest, UnknownStream
from wsproto_api import discovery, messages
from wsproto_api.discovery import Found

from .amounts import Change
from .remote import Request, player

if TYPE_CHECKING:
    from engine.config import Settings

#: The commands that need no more than a word, which is what keys are for: see `__main__`.
WORDS: Mapping[str, Request] = {
    "pause": messages.PlayerPause(),
    "resume": messages.PlayerResume(),
    "toggle": messages.PlayerToggle(),
    "stop": messages.PlayerStop(),
    "skip": messages.PlayerSkip(),
    "back": messages.PlayerSkip(n=-1),
    "repeat": messages.PlayerRepeat(),
}

#: bytes of a pipe that are taken at once
_PIPE_BYTES = 4096
#: what is spoken when nobody has named a speed, as far as the player knows
_NATURAL_SPEED = 1.0


@dataclass(frozen=True, slots=True)
class Manner:
    """How something is said; None is the player's own choice."""

    voice: str | None = None
    lang: str | None = None
    speed: float | None = None
    mode: messages.PlayerMode = "replace"


def run(command: Callable[[Found], Awaitable[None]]) -> int:
    """Finds the player and runs a command; gives the exit code, and says why if it is not 0.

    The settings take longer to be read than all the rest, so they are asked only if the player is
    not found without them.
    """
    if (found := discovery.at_hand("player")) is not None:
        return process.supervise(partial(command, found))

    async def search(settings: Settings) -> None:
        await command(Found(settings.player_url, discovery.token(settings)))

    return process.run(search, {})


# --- speech -----------------------------------------------------------------------------------


async def say(found: Found, text: str, manner: Manner, *, wait: bool) -> None:
    """Has a text spoken.

    Args:
        found: the player.
        text: what is said.
        manner: and how.
        wait: until it was heard, or stopped.

    Raises:
        EngineError: it is not spoken; a sentence says why.
    """
    await do(
        found,
        messages.PlayerSpeak(
            text=text,
            voice=manner.voice,
            lang=manner.lang,
            speed=manner.speed,
            mode=manner.mode,
        ),
        wait=wait,
    )


async def say_pipe(found: Found, manner: Manner, pipe: int = 0) -> None:
    """Has what comes out of a pipe spoken, while it comes; returns when it was heard, or stopped.

    Whoever ends this ends the speech too, however that is done.

    Args:
        found: the player.
        manner: how it is said.
        pipe: its file descriptor; UTF-8.

    Raises:
        EngineError: it is not spoken; a sentence says why.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    async with player(found) as remote:
        item = await remote.do(
            messages.PlayerOpen(
                voice=manner.voice,
                lang=manner.lang,
                speed=manner.speed,
                mode=manner.mode,
                on_disconnect="stop",
            )
        )
        if item is None:
            return  # `toggle` has stopped what was there
        try:
            while data := await _read(pipe):
                await remote.append(item, decoder.decode(data))
            await remote.append(item, decoder.decode(b"", final=True))
            await remote.do(messages.PlayerEnd(item=item))
            await remote.heard(item)
        except UnknownStream:
            pass  # somebody stopped it


async def _read(pipe: int) -> bytes:
    try:
        return await trio.to_thread.run_sync(
            partial(os.read, pipe, _PIPE_BYTES), abandon_on_cancel=True
        )
    except OSError as error:
        raise InvalidRequest(f"The pipe cannot be read: {error.strerror}.") from None


# --- control ----------------------------------------------------------------------------------


async def do(found: Found, request: Request, *, wait: bool = False) -> None:
    """Has a request done.

    Args:
        found: the player.
        request: one that is answered with `ack`.
        wait: until what is spoken for it was heard, or stopped.

    Raises:
        EngineError: it is not done.
    """
    async with player(found) as remote:
        item = await remote.do(request)
        if wait and item is not None:
            await remote.heard(item)


async def volume(found: Found, change: Change | None) -> None:
    """Makes it louder or quieter; without a change prints how loud it is."""
    async with player(found) as remote:
        if change is None:
            _print(_percent((await remote.state()).volume))
            return
        now = (await remote.state()).volume if change.relative else 0.0
        await remote.do(messages.PlayerVolume(value=change.of(now)))


async def configure(
    found: Found,
    *,
    voice: str | None = None,
    speed: Change | None = None,
    device: str | None = None,
) -> None:
    """How it is spoken from now on, and where it is heard; what is None stays."""
    async with player(found) as remote:
        now = _NATURAL_SPEED
        if speed is not None and speed.relative:
            now = (await remote.state()).speed or now
        await remote.do(
            messages.PlayerConfigure(
                voice=voice, speed=speed.of(now) if speed is not None else None, device=device
            )
        )


async def queue(found: Found, request: messages.PlayerQueue) -> None:
    """Lists what is to be played, or ends some of that."""
    async with player(found) as remote:
        answer = await remote.ask(request, messages.Queue)
        if request.op == "list":
            _print(*_queue_lines(answer))


# --- what it says -----------------------------------------------------------------------------


async def devices(found: Found) -> None:
    """Prints the sound devices; a star is before the one that was chosen."""
    async with player(found) as remote:
        answer = await remote.ask(messages.AskDevices(), messages.Devices)
    _print(*_device_lines(answer))


async def status(found: Found, form: Literal["text", "json"]) -> None:
    """Prints what the player is doing, a fact a line, or as its message."""
    async with player(found) as remote:
        state = await remote.state()
    _print(*([messages.encode(state)] if form == "json" else _state_lines(state)))


async def watch(found: Found) -> None:
    """Prints the state, and then every event as its message, until cancelled or nobody reads."""
    async with player(found) as remote:
        await remote.send(messages.PlayerSubscribe(events=("state", "position", "marks")))
        await remote.send(messages.AskStatus(id="watch"))
        async for event in remote:
            if isinstance(event, messages.Reply):
                event = replace(event, reply_to=None)
            if not _print(messages.encode(event)):
                return


def _state_lines(state: messages.PlayerState) -> Iterator[str]:
    yield state.state
    if state.item is not None:
        yield f"item {state.item}, {state.position_ms / 1000:.1f} s of it heard"
    if state.queue_len:
        yield f"{state.queue_len} waiting"
    yield f"volume {_percent(state.volume)}"
    if state.voice is not None:
        yield f"voice {state.voice}"
    if state.speed is not None:
        yield f"speed {state.speed:g}"
    if state.device is None:
        yield "no sound device; speech waits until there is one"
    else:
        yield f"on {state.device}" + (", which stands still" if state.stalled else "")
    if state.rtf is not None:
        yield f"the engine takes {state.rtf:.2f} s for a second of speech"
    if state.underruns:
        yield f"{state.underruns} times the sound had to stop and wait for more"


def _queue_lines(queue: messages.Queue) -> Iterator[str]:
    for item in queue.items:
        name = f", {item.key}" if item.key is not None else ""
        yield f"{item.item}: {'waits' if item.waits else 'plays'}, {item.chars} characters{name}"
    if queue.more:
        yield f"and {queue.more} more"


def _device_lines(answer: messages.Devices) -> Iterator[str]:
    # The one that was chosen may have been unplugged, or be known by a part of its name.
    chosen = answer.chosen
    missing = chosen is not None and chosen not in answer.devices
    yield f"{'*' if chosen is None else ' '} default"
    for name in (*answer.devices, *([chosen] if missing else [])):
        yield f"{'*' if name == chosen else ' '} {name}"


def _percent(value: float) -> str:
    return f"{100 * value:.4g}%"


def _print(*lines: str) -> bool:
    """Prints lines; gives whether anybody reads them."""
    try:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        sys.stdout.flush()
    except BrokenPipeError:
        # What is left in the buffer would be complained about at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True
