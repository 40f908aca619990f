"""`python -m tests.page.pictures FOLDER` takes pictures of the page, with the real engine: light, dark, phone.

Fonts are those of this machine. Colours are reduced to a palette, which nobody sees on a page of
so few, and which makes the files a third as large.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import trio
from PIL import Image

from engine import config, service
from engine.model import assets
from engine.service import KokoroService
from tests.support.tone import ToneVoice

from .browser import Page, chromium, driving
from .stage import Stage, opened, staged

TEXT = (
    "The sea was calm that evening, and the boats came home one after another with their lamps lit. "
    "Nobody on the quay spoke above a whisper; everyone was counting.\n\n"
    "When the seventh lamp rounded the point, old Marta closed her book, stood up, and began to sing."
)

#: the word that is heard when the picture is taken
MOMENT = TEXT.index("whisper")


@dataclass(frozen=True)
class Picture:
    """One picture: its file, and the window."""

    name: str
    scheme: str
    width: int
    height: int


PICTURES = (
    Picture("page-light.png", "light", 1040, 780),
    Picture("page-dark.png", "dark", 1040, 780),
    Picture("page-phone.png", "light", 390, 844),
)


class Described(ToneVoice):
    """An engine that says of itself what the real one does, as far as the page shows it."""

    def __init__(self, real: KokoroService) -> None:
        super().__init__()
        self.voices = real.voices  # type: ignore[assignment]


#: a machine that is busy with something else may be too slow, which is not what is to be shown
TRIES = 8


async def take(page: Page, stage: Stage, picture: Picture) -> bytes:
    """The page in the middle of a text, with as few underruns as it gets."""
    taken: dict[int, bytes] = {}
    await page.ask("Emulation.setScrollbarsHidden", hidden=True)
    await page.looks(width=picture.width, height=picture.height, scheme=picture.scheme, scale=1.5)
    for _ in range(TRIES):
        await opened(stage, page)
        await page.fill("#text", TEXT)
        await page.click("#speak")
        await page.until(f"tap.words.some(({{ from }}) => from === {MOMENT})")
        underruns = int(await page.text("#underruns"))
        taken[underruns] = await page.picture()
        if not underruns:
            break
    return taken[min(taken)]


def small(png: bytes) -> bytes:
    """The same picture with a palette."""
    out = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(out, "PNG", optimize=True)
    return out.getvalue()


async def take_all(url: str, real: KokoroService, folder: Path) -> None:
    """Takes all pictures."""
    async with driving(url) as browser:
        for picture in PICTURES:
            async with (
                browser.page() as page,
                staged(Described(real), speak=real, patience_s=600) as stage,
            ):
                await page.before_it_loads((Path(__file__).parent / "tap.js").read_text())
                data = small(await take(page, stage, picture))
            (folder / picture.name).write_bytes(data)
            print(f"{folder / picture.name}: {len(data) // 1000} kB")


def main() -> None:
    """Loads the engine, and takes the pictures."""
    settings = config.load().settings
    assets.ensure(folder=settings.model_dir, cache=settings.cache_dir)
    real = trio.run(partial(service.load, settings.model_copy(update={"cache_mb": 0})))
    with chromium() as url:
        trio.run(take_all, url, real, Path(sys.argv[1]))


if __name__ == "__main__":
    main()
