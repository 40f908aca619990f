"""`python -m engine "Hello" -o out.wav`: speech without a server; the newcomer's first command."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
import typer
from pydantic import SecretStr
from rich.console import Console
from rich.table import Table

from engine import access, blend, config, process
from engine.audio import samples_to_ms
from engine.config import Settings
from engine.errors import ConfigError, InvalidRequest, SetupError, UnknownVoice
from engine.model import assets
from engine.model.progress import shown_progress
from engine.request import (
    MAX_PAUSE_SCALE,
    Event,
    Frame,
    Notice,
    SegmentDone,
    SpeechRequest,
    TextOptions,
    refuse_speed,
)
from engine.text import languages
from engine.voices import Voices
from playerd.sinks.base import DeviceUnavailable, Sink
from playerd.sinks.portaudio import PortAudioSink
from playerd.sinks.wav import WavSink

_DEFAULTS = TextOptions()


async def say(settings: Settings, request: SpeechRequest, sink: Sink, where: str) -> None:
    """Speaks one text into a sink, frame by frame as it is made, and says what it took."""
    if not request.text.strip():
        raise InvalidRequest("There is no text to speak.", param="text")  # before loading for it
    _voice_and_language(settings, request)
    if request.speed is not None:
        refuse_speed(request.speed)
    from engine import service  # spaCy and ONNX Runtime: a second that --assets need not wait

    began_s = trio.current_time()
    with shown_progress() as progress:
        engine = await service.load(settings, progress=progress)
    loaded_s = trio.current_time()
    async with engine(request) as events:
        samples, first_s, compute_s = await _play(events, sink)
    if not samples:
        raise InvalidRequest("The text holds nothing that can be spoken.", param="text")
    first_ms, audio_s = (first_s - loaded_s) * 1000, samples_to_ms(samples) / 1000
    print(
        f"{audio_s:.1f} s of speech to {where}: loaded in "
        f"{loaded_s - began_s:.1f} s, first frame after {first_ms:.0f} ms, "
        f"RTF {compute_s / audio_s:.2f}.",
        file=sys.stderr,
    )


async def _play(events: AsyncIterator[Event], sink: Sink) -> tuple[int, float, float]:
    """Plays to the end; (samples, time of the first frame, seconds of compute)."""
    samples, first_s, compute_s = 0, 0.0, 0.0
    try:
        async for event in events:
            match event:
                case Frame() if event.samples:
                    if not samples:
                        first_s = trio.current_time()
                        await sink.open()
                    samples += event.samples
                    await sink.write(event.pcm)
                case SegmentDone():
                    compute_s += event.compute_ms / 1000
                case Notice() if event.code != "nothing_to_speak":
                    print(event.message, file=sys.stderr)
                case _:
                    pass
        if samples:
            await sink.drain()
    except DeviceUnavailable as error:
        hint = " To write a file instead: -o FILE.wav." if isinstance(sink, PortAudioSink) else ""
        raise SetupError(error.message + hint) from None
    finally:
        with trio.move_on_after(1, shield=True):
            await sink.aclose()
    return samples, first_s, compute_s


async def show_assets(settings: Settings, *, force: bool = False) -> None:
    """Fetches and prepares what is missing, and says where everything is."""
    from engine.model import build, placement  # ONNX takes a second

    with shown_progress() as progress:

        def ensure() -> tuple[assets.Assets, build.Build]:
            found = assets.ensure(
                folder=settings.model_dir, cache=settings.cache_dir, progress=progress
            )
            form = placement.form_of(settings)
            return found, placement.prepared(found, settings, form, progress, force=force)[0]

        found, built = await trio.to_thread.run_sync(ensure)
    print(f"model   {found.model} ({found.precision}, sha256 {found.sha256})")
    print(f"        prepared in {built.folder}")
    print(f"voices  {found.voices} ({len(found.voice_names())})")


async def show_voices(settings: Settings) -> None:
    """Lists the voices that can be asked for."""
    found = assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    infos = Voices(found.voices, settings.voice_speeds).infos()
    table = Table("id", "name", "language", "grade", "speed", box=None, pad_edge=False)
    for info in infos:
        style = "dim" if info.unreadable else None
        grade, speed = info.grade or "", f"{info.speed:g}"
        table.add_row(info.id, info.name, info.lang, grade, speed, style=style)
    Console().print(table)
    for why in dict.fromkeys(info.unreadable for info in infos if info.unreadable):
        print(why)


async def show_explanation(settings: Settings, request: SpeechRequest) -> None:
    """Prints as JSON what would be spoken, and what would not."""
    from engine import explain  # spaCy takes a second

    voice, language = _voice_and_language(settings, request)
    told = await trio.to_thread.run_sync(
        explain.explain, settings, request.text, language, request.options
    )
    if message := languages.mismatch(language, voice):
        whole = {"char_start": 0, "char_end": len(request.text)}
        told["warnings"].insert(0, {"code": "voice_language", **whole, "message": message})
    print(json.dumps(told, ensure_ascii=False))


def _voice_and_language(
    settings: Settings, request: SpeechRequest
) -> tuple[str, languages.Language]:
    """What is asked for, or a refusal."""
    voice = _voice(settings, settings.voice if request.voice is None else request.voice)
    return voice, languages.resolve(request.lang, voice)


def _voice(settings: Settings, name: str) -> str:
    """The voice or blend of that name; without the voices, which nothing fetches, a possible one."""
    if found := assets.find(folder=settings.model_dir, cache=settings.cache_dir):
        return Voices(found.voices, settings.voice_speeds).resolve(name)
    mixed = blend.parse(name)
    for voice, _ in mixed.parts:
        if not languages.is_of_voices(voice):
            raise UnknownVoice(f"There is no voice {voice[:40]!r}.", param="voice")
    return mixed.name


async def check_lexicon(settings: Settings, file: Path | None = None) -> None:
    """Lists what is spoken for each word of a lexicon file, and what is wrong with the file.

    Raises:
        ConfigError: it cannot be read, or something is wrong with it.
    """
    from engine.text import frontend, g2p, lexicon, lexicon_file  # spaCy takes a second

    path = (file or settings.lexicon).expanduser()
    try:
        entries, faults = lexicon_file.read(path)
    except FileNotFoundError:
        raise ConfigError(
            f"There is no lexicon {path}; docs/lexicon.md tells how to write one."
        ) from None
    except OSError as error:
        raise ConfigError(f"The lexicon {path} cannot be read: {error.strerror}.") from None

    default = blend.parse(settings.voice).name

    def speak() -> None:
        loaded = g2p.G2P(settings.g2p)
        loaded.load()
        reader = frontend.TextFrontend(loaded)
        rules = lexicon.Lexicon(entry for _, entry in entries)
        for line, entry in entries:
            language = lexicon.language_of(entry, languages.of_voice(default))
            segments = reader.segments(entry.word, language, TextOptions(), rules)
            spoken = " ".join(segment.phonemes for segment in segments)
            said = f"  ({entry.say})" if entry.say else ""
            print(f"{line:5}  {entry.word:24}{spoken or 'nothing'}{said}")

    if entries:
        await trio.to_thread.run_sync(speak)
    for line, message in faults:
        print(f"{path}, line {line}: {message}", file=sys.stderr)
    if faults:
        raise ConfigError(f"The engine does not use {path} until this is mended.")


def show_config() -> int:
    """Lists every setting, its value, and where that came from."""
    try:
        loaded = config.load()
    except ConfigError as error:
        print(error.message, file=sys.stderr)
        return 1
    table = Table("setting", "value", "from", "what it is")
    for name, field in Settings.model_fields.items():
        found = getattr(loaded.settings, name)
        # A terminal is looked at and a report is pasted: the token is in neither.
        if name == "token":
            value = "set" if isinstance(found, SecretStr) else "not set"
        else:
            value = str(found)
        table.add_row(name, value, loaded.origins[name], field.description)
    Console().print(table)
    print(f"File: {config.config_file()}; environment: {access.ENV_PREFIX}NAME.")
    return 0


def main(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TEXT",
            help="what to say, or the file to check; - or nothing: standard input",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="WAV file to write")] = None,
    voice: Annotated[
        str | None, typer.Option(help="see --voices; or a blend: af_heart:60,am_michael:40")
    ] = None,
    speed: Annotated[
        float | None, typer.Option(help="0.25 to 4; 1 is natural; default: the voice's")
    ] = None,
    lang: Annotated[str | None, typer.Option(help="such as en-us; default: the voice's")] = None,
    device: Annotated[str | None, typer.Option(help="name of the sound device")] = None,
    precision: Annotated[str | None, typer.Option(help="auto, float32 or hybrid")] = None,
    list_voices: Annotated[bool, typer.Option("--voices", help="list the voices")] = False,
    fetch: Annotated[
        bool, typer.Option("--assets", help="fetch and prepare model and voices")
    ] = False,
    rebuild: Annotated[bool, typer.Option("--build", help="prepare the model anew")] = False,
    # An option with a value, because a text may begin with a dash: a list does.
    explain: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="show as JSON what would be spoken; -: standard input"),
    ] = None,
    lexicon: Annotated[
        bool, typer.Option("--lexicon-check", help="show what your pronunciations do")
    ] = False,
    settings: Annotated[bool, typer.Option("--config", help="show all settings")] = False,
    normalize: Annotated[bool, typer.Option(help="numbers, money and the like as words")] = True,
    markdown: Annotated[str, typer.Option(help="auto, on or off")] = _DEFAULTS.markdown,
    emoji: Annotated[str, typer.Option(help="drop, or name")] = _DEFAULTS.emoji,
    code: Annotated[str, typer.Option(help="skip, announce or read")] = _DEFAULTS.code,
    urls: Annotated[str, typer.Option(help="short, full or skip")] = _DEFAULTS.urls,
    pause_scale: Annotated[float, typer.Option(help="0 to 5")] = _DEFAULTS.pause_scale,
) -> None:
    """Speaks a text aloud, or into a WAV file, in this process."""
    if settings:
        sys.exit(show_config())
    if rebuild or fetch:
        sys.exit(process.run(partial(show_assets, force=rebuild), {"precision": precision}))
    if list_voices:
        sys.exit(process.run(show_voices))

    async def speak(loaded: Settings) -> None:
        text = _only([*(words or []), *([] if explain is None else [explain])])
        if lexicon:
            await check_lexicon(loaded, Path(text) if text else None)
            return
        options = _options(
            normalize=normalize,
            markdown=markdown,
            emoji=emoji,
            code=code,
            urls=urls,
            pause_scale=pause_scale,
        )
        text = _standard_input() if text in (None, "-") else text
        request = SpeechRequest(text=text, voice=voice, speed=speed, lang=lang, options=options)
        if explain is not None:
            await show_explanation(loaded, request)
            return
        if out and not out.parent.is_dir():  # before loading for it
            raise SetupError(f"{out} cannot be written: there is no folder {out.parent}.")
        sink: Sink = WavSink(out) if out else PortAudioSink(loaded.device)
        await say(loaded, request, sink, str(out or "the sound device"))

    sys.exit(process.run(speak, {"device": device, "precision": precision}))


def _only(words: list[str]) -> str | None:
    if len(words) > 1:
        raise InvalidRequest(f"There are {len(words)} texts; put one into quotes.", param="text")
    return words[0] if words else None


def _options(**flags: object) -> TextOptions:
    """The options of a request.

    Raises:
        InvalidRequest: one of them is not possible.
    """
    try:
        options = msgspec.convert(flags, TextOptions)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{error}.", param="options") from None
    if not 0 <= options.pause_scale <= MAX_PAUSE_SCALE:
        raise InvalidRequest(
            f"The pause scale must be from 0 to {MAX_PAUSE_SCALE:g}.", param="options"
        )
    return options


def _standard_input() -> str:
    if sys.stdin.isatty():
        print("Type what to say, then Ctrl-D.", file=sys.stderr)
    return sys.stdin.buffer.read().decode(errors="replace")


if __name__ == "__main__":
    typer.run(main)
