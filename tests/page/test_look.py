"""How the page looks and is operated: axe-core's findings, widths, light and dark, the keyboard alone."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from engine.request import VoiceInfo
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice

from .browser import Page
from .stage import opened, staged

AXE = Path(__file__).parent.parent / "node" / "node_modules" / "axe-core" / "axe.min.js"

CTRL, META = 2, 4

SIZES = {"desktop": (1280, 900), "phone": (360, 740)}


needs_axe = pytest.mark.skipif(
    not AXE.exists(), reason="axe-core is missing; `make test` installs it where it can"
)

#: a voice of which there is something to remark
UNREADABLE = VoiceInfo(
    id="jf_alpha", name="Alpha", lang="ja", unreadable="Japanese cannot be read: Install its extra."
)


@needs_axe
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_there_is_no_barrier(page: Page, size: str, scheme: str) -> None:
    """While it is written, while it is read, with a notice, and with the log open."""
    width, height = SIZES[size]
    async with staged(ToneVoice(rtf=0.2)) as stage:
        await page.looks(width=width, height=height, scheme=scheme)
        await opened(stage, page)
        await page.evaluate(f"{AXE.read_text()}; 0")
        await _no_finding(page)
        await page.fill("#text", "One two three four. " * 20)
        await page.click("#speak")
        await page.until("tap.words.length > 0")
        await page.evaluate("document.querySelector('#log').open = true")
        await _no_finding(page)
        await page.press("Escape")
        await page.click("#edit")
        await page.fill("#text", "")
        await page.click("#speak")
        await page.says("#notice-text", "There is no text yet.")
        await _no_finding(page)
        assert not page.complaints


@needs_axe
@pytest.mark.parametrize(("size", "scheme"), [("desktop", "light"), ("phone", "dark")])
async def test_there_is_no_barrier_in_what_shows_seldom(page: Page, size: str, scheme: str) -> None:
    """The form for the token, with what was wrong about one; the hint, and what is told of a voice."""
    width, height = SIZES[size]
    voice = ToneVoice()
    voice.voices = (UNREADABLE,)  # type: ignore[assignment]
    seen = (
        "['#unlock', '#notice', '#hint', '#voice-remark']"
        ".map((one) => document.querySelector(one).checkVisibility())"
    )
    async with staged(voice, host="0.0.0.0", token=TOKEN) as stage:
        await page.looks(width=width, height=height, scheme=scheme)
        await page.go(stage.url)
        await page.says("#connection", "Needs the token")
        await _unlock(page, "this is not the right one")
        await page.says("#notice-text", "The token is wrong")
        await page.evaluate(f"{AXE.read_text()}; 0")
        assert await page.evaluate(seen) == [True, True, False, False]
        await _no_finding(page)
        await _unlock(page, TOKEN)
        await page.says("#connection", "Connected")
        await page.says("#voice-remark", "Install")
        await page.evaluate("document.querySelector('#speak').click()")
        await page.until("!document.querySelector('#hint').hidden")
        assert await page.evaluate(seen) == [False, False, True, True]
        await _no_finding(page)


async def _unlock(page: Page, token: str) -> None:
    """By a script: a click of the user's would let the sound out, and there were no hint."""
    await page.fill("#token", token)
    await page.evaluate("document.querySelector('#unlock').requestSubmit()")


async def _no_finding(page: Page) -> None:
    found = await page.evaluate(
        "axe.run({ resultTypes: ['violations'] }).then(({ violations }) =>"
        " violations.map(({ id, impact, nodes }) => [id, impact, nodes.map((n) => n.html)]))"
    )
    assert found == []


def _pixels(png: bytes) -> npt.NDArray[np.uint8]:
    with Image.open(io.BytesIO(png)) as image:
        return np.asarray(image.convert("RGB"))


@pytest.mark.parametrize(
    ("size", "scheme"), [("desktop", "light"), ("desktop", "dark"), ("phone", "light")]
)
async def test_what_is_seen_is_as_it_is_meant(page: Page, size: str, scheme: str) -> None:
    """On a picture: paper around the sheet, ink on it, and the colour of the word only while it is read."""
    width, height = SIZES[size]
    async with staged(ToneVoice(rtf=0.2)) as stage:
        await page.looks(width=width, height=height, scheme=scheme)
        await opened(stage, page)
        await page.fill("#text", "One two three four. " * 20)
        colours = await page.evaluate(
            "['--paper', '--sheet', '--ink', '--word', '--accent'].map((name) =>"
            " getComputedStyle(document.documentElement).getPropertyValue(name).trim())"
        )
        paper, sheet, ink, word, accent = (
            np.array([int(colour[n : n + 2], 16) for n in (1, 3, 5)]) for colour in colours
        )

        def share(seen: npt.NDArray[np.uint8], colour: npt.NDArray[np.int_]) -> float:
            near = np.abs(seen.astype(int) - colour).max(axis=2) <= 2
            return float(near.mean())

        before = _pixels(await page.picture())
        assert before.shape == (height, width, 3)
        assert tuple(before[2, 2]) == tuple(paper)
        assert (paper.mean() < 128) == (scheme == "dark")
        assert share(before, sheet) > 0.1
        assert share(before, ink) > 0.001
        assert share(before, accent) > 0.001, "the button that matters"
        await page.click("#speak")
        await page.until("tap.words.length > 1")
        reading = _pixels(await page.picture())
        assert share(reading, word) > share(before, word) + 0.0002
        assert not page.complaints


@pytest.mark.parametrize("width", [320, 390, 768, 1600])
async def test_nothing_sticks_out(page: Page, width: int) -> None:
    long = "https://example.invalid/" + "a" * 300
    voice = ToneVoice(rtf=0.2)
    voice.voices = (VoiceInfo(id="af_heart", name="A name " * 20, lang="en-us"),)  # type: ignore[assignment]
    async with staged(voice) as stage:
        await page.looks(width=width, height=800, scheme="light")
        await opened(stage, page)
        await page.fill("#text", long)
        await page.click("#speak")
        await page.says("#status", "Reading")
        await page.evaluate("document.querySelector('#log').open = true")
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
        assert await page.evaluate("document.querySelector('#reading').scrollWidth") <= width
        edges = (
            "[...document.querySelectorAll('.sheet *')].map((e) => e.getBoundingClientRect().right)"
        )
        assert await page.evaluate(f"Math.max(...{edges})") <= width


#: controls and texts that are cut off, or lie over one another
CROWDED = """
(() => {
  const shown = [...document.querySelectorAll(".top > *, .transport > *, .field, .measures > *, .caption > *")]
    .filter((one) => one.checkVisibility() && one.getBoundingClientRect().width);
  const found = shown.filter((one) => one.scrollWidth > one.clientWidth + 1).map((one) => one.outerHTML);
  for (const one of shown) {
    const box = one.getBoundingClientRect();
    for (const other of shown) {
      const its = other.getBoundingClientRect();
      const over = Math.min(box.right, its.right) - Math.max(box.left, its.left) > 1
        && Math.min(box.bottom, its.bottom) - Math.max(box.top, its.top) > 1;
      if (one !== other && over) found.push(`${one.outerHTML} over ${other.outerHTML}`);
    }
  }
  return found;
})()
"""


@pytest.mark.parametrize(
    ("width", "height", "letters"), [(640, 400, 100), (1280, 800, 200), (360, 740, 200)]
)
async def test_twice_as_large_it_can_be_read_and_used(
    page: Page, width: int, height: int, letters: int
) -> None:
    """A window of 1280 pixels at 200 %, and letters of twice the size, also on a phone."""
    async with staged(ToneVoice(rtf=0.2)) as stage:
        await page.looks(width=width, height=height, scheme="light", scale=2)
        await page.go(stage.url)
        await page.evaluate(f"document.documentElement.style.fontSize = '{letters}%'")
        await page.says("#connection", "Connected")
        await page.until("document.querySelectorAll('#voice option').length")
        await page.fill("#text", "One two three four. " * 20)
        for control in ("#speak", "#pause"):
            await page.click(control)
            await page.until("!document.querySelector('#pause').disabled")
            assert await page.evaluate("document.documentElement.scrollWidth") <= width
            assert await page.evaluate(CROWDED) == []
        await page.says("#status", "Paused")
        await page.click("#stop")
        await page.says("#status", "Stopped")
        assert not page.complaints


#: the colours of the dot at the top: connected, and not any more
DOTS = """
(() => {
  const top = document.querySelector("#connection");
  return ["open", "waiting"].map((state) => {
    top.dataset.state = state;
    return getComputedStyle(top, "::before").backgroundColor;
  });
})()
"""


def _contrast(one: str, other: str) -> float:
    """Of two colours, as axe reckons it for letters; it does not look at what a style draws."""
    lights = []
    for colour in (one, other):
        parts = [int(part) / 255 for part in re.findall(r"\d+", colour)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        lights.append(sum(np.multiply(linear, (0.2126, 0.7152, 0.0722))) + 0.05)
    return max(lights) / min(lights)


async def test_light_and_dark_are_the_users_choice(page: Page) -> None:
    async with staged() as stage:
        await page.go(stage.url)
        seen = []
        for scheme in ("light", "dark"):
            await page.looks(width=1000, height=800, scheme=scheme)
            seen.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
            calm, lost = await page.evaluate(DOTS)
            assert (
                min(_contrast(dot, seen[-1]) for dot in (calm, lost)) >= 3
            )  # as WCAG has it for signs
        assert seen == ["rgb(246, 244, 239)", "rgb(23, 22, 20)"]


async def test_the_keyboard_does_it_all(page: Page) -> None:
    async with staged(ToneVoice(rtf=0.2)) as stage:
        await opened(stage, page)
        await page.fill("#text", "One two three four. " * 20)
        await page.evaluate("document.querySelector('#text').focus()")
        await page.press("Enter", modifiers=CTRL)
        await page.says("#status", "Reading")
        await page.press(" ", code="Space")
        await page.says("#status", "Paused")
        await page.press(" ", code="Space")
        await page.says("#status", "Reading")
        await page.press("Escape")
        await page.says("#status", "Stopped")
        await page.press("E", code="KeyE")  # with caps lock
        assert await page.evaluate("document.activeElement.id") == "text"
        await page.press(" ", code="Space")  # goes into the text
        assert await page.text("#status") == "Ready"
        await page.press("Enter", modifiers=META)
        await page.says("#status", "Reading")
        await page.press("L", code="KeyL")
        await page.until("document.querySelector('#listen').checked")
        assert not page.complaints


async def test_the_focus_is_not_lost_with_what_has_it(page: Page) -> None:
    focused = "document.activeElement.id"
    async with staged() as stage:
        await opened(stage, page)
        await page.fill("#text", "One two three four. " * 20)
        await page.click("#speak")
        await page.says("#status", "Reading")
        await page.evaluate("document.querySelector('#stop').focus()")
        await page.press(" ", code="Space")
        await page.says("#status", "Stopped")
        assert await page.evaluate(focused) == "reading"
        await page.click("#edit")
        await page.fill("#text", "")
        await page.click("#speak")
        await page.says("#notice-text", "There is no text yet.")
        await page.evaluate("document.querySelector('#notice-close').focus()")
        await page.press(" ", code="Space")
        await page.until("document.querySelector('#notice').hidden")
        assert await page.evaluate(focused) == "speak"
        await page.fill("#text", "One.")
        await page.click("#speak")
        await page.evaluate("document.querySelector('#pause').focus()")
        await page.says("#status", "Finished")
        assert await page.evaluate(focused) == "reading"
        assert not page.complaints


async def test_what_the_user_wants_of_colours_and_motion(page: Page) -> None:
    """A switch that shows how it stands in the system's colours too; nothing slides."""
    wanted = {"forced-colors": "active", "prefers-reduced-motion": "reduce"}
    drawn = """
        [["#connection", "::before"], ["#listen"], ["#listen", "::before"]].map(([where, part]) => {
          const style = getComputedStyle(document.querySelector(where), part);
          return [style.backgroundColor, style.transitionProperty];
        })
    """
    async with staged() as stage:
        features = [{"name": name, "value": value} for name, value in wanted.items()]
        await page.ask("Emulation.setEmulatedMedia", features=features)
        await page.go(stage.url)
        await page.says("#connection", "Connected")
        (calm, _), (off, slides), (knob, knob_slides) = await page.evaluate(drawn)
        assert slides == knob_slides == "none"
        await page.click("#listen")
        _, (on, _), (knob_on, _) = await page.evaluate(drawn)
        await page.evaluate("document.querySelector('#connection').dataset.state = 'waiting'")
        (lost, _), *_ = await page.evaluate(drawn)
    assert calm != lost
    assert min(_contrast(off, knob), _contrast(on, knob_on)) >= 3


async def test_the_word_that_is_heard_stands_out_in_the_systems_colours(page: Page) -> None:
    """On a picture: what a style asks for is not what is drawn then."""
    async with staged(ToneVoice(rtf=0.2)) as stage:
        features = [{"name": "forced-colors", "value": "active"}]
        await page.ask("Emulation.setEmulatedMedia", features=features)
        await opened(stage, page)
        await page.fill("#text", "Meanwhile somebody whispers nothing. " * 5)
        await page.click("#speak")
        await page.until("tap.words.length > 1")
        await page.click("#pause")
        await page.says("#status", "Paused")
        box = await page.evaluate(
            "(({ x, y, width, height }) => [x, y, width, height])"
            "([...CSS.highlights.get('word')][0].getBoundingClientRect())"
        )
        left, top, width, height = (round(value) for value in box)
        seen = _pixels(await page.picture())
    word = seen[top : top + height, left : left + width].reshape(-1, 3)
    sheet = seen[top : top + height, :left].reshape(-1, 3)
    behind, before = (_most(pixels) for pixels in (word, sheet))
    assert _contrast(behind, before) >= 3, "where it is"
    letters = max(_contrast(behind, _css(pixel)) for pixel in np.unique(word, axis=0))
    assert letters >= 4.5, "what it is"


def _css(pixel: npt.NDArray[np.uint8]) -> str:
    return f"rgb({', '.join(map(str, pixel.tolist()))})"


def _most(pixels: npt.NDArray[np.uint8]) -> str:
    """The colour that most of them have."""
    colours, counts = np.unique(pixels, axis=0, return_counts=True)
    return _css(colours[counts.argmax()])


async def test_the_place_that_is_read_stays_in_sight(page: Page) -> None:
    async with staged() as stage:
        await page.looks(width=1000, height=400, scheme="light")  # seven lines
        await opened(stage, page)
        await page.fill("#text", "A line.\n" * 20)
        await page.evaluate("document.querySelector('#speed').value = 2")
        await page.click("#speak")
        await page.until("tap.words.length > 16")
        seen = await page.evaluate(
            "([...CSS.highlights.get('word')].map((r) => r.getBoundingClientRect().y)[0]"
            " - document.querySelector('#reading').getBoundingClientRect().y)"
        )
        height = await page.evaluate("document.querySelector('#reading').clientHeight")
        assert 0 <= seen < height
        assert await page.evaluate("document.querySelector('#reading').scrollTop") > 0


async def test_the_log_shows_what_passed(page: Page) -> None:
    async with staged() as stage:
        await opened(stage, page)
        await page.fill("#text", "One.")
        await page.click("#speak")
        await page.says("#status", "Finished")
        await page.click("#log > summary")
        await page.until("document.querySelectorAll('#log-list li').length > 5")
        log = await page.text("#log-list")
        assert log.index("stream.done") < log.index("frames") < log.index("speak")
        await page.evaluate("document.querySelector('#log-list details').open = true")
        told = await page.says("#log-list pre", "{")
        assert '"type": "stream.done"' in told
        assert not page.complaints


async def test_the_log_has_an_end(page: Page) -> None:
    async with staged() as stage:
        await opened(stage, page)
        await page.evaluate("document.querySelector('#log').open = true")
        await page.fill("#text", "Word. " * 150)
        await page.click("#speak")
        await page.until("Number(document.querySelector('#log-count').textContent) > 400")
        assert await page.evaluate("document.querySelectorAll('#log-list li').length") == 300


async def test_voices_stand_by_their_languages_and_are_remembered(page: Page) -> None:
    async with staged() as stage:
        await page.go(stage.url)
        await page.until("document.querySelectorAll('#voice option').length")
        groups = "[...document.querySelectorAll('#voice optgroup')].map((group) => group.label)"
        assert await page.evaluate(groups) == ["American English", "British English"]
        await page.fill("#voice", "bm_fable")
        await page.fill("#speed", "1.5")
        assert await page.text("#speed-shown") == "1.50×"
        await page.go(stage.url)
        await page.until("document.querySelectorAll('#voice option').length")
        assert await page.evaluate("document.querySelector('#voice').value") == "bm_fable"
        assert await page.text("#speed-shown") == "1.50×"
