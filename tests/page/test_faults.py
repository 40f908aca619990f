"""What goes wrong is told in one sentence, and the page can be used after it."""

from __future__ import annotations

import json

import pytest

from tests.http_compat.program import live
from tests.http_compat.serving import say_nothing
from tests.support.access import TOKEN
from tests.support.tone import ToneVoice

from .browser import NAME, Page
from .stage import opened, staged


async def speaks(page: Page, text: str = "One.") -> None:
    """The page can be used."""
    if await page.evaluate("document.querySelector('#text').hidden"):
        await page.click("#edit")
    await page.fill("#text", text)
    await page.click("#speak")
    await page.says("#status", "Finished")


async def test_an_engine_that_is_not_there(page: Page) -> None:
    async with staged(running=False, direct=True) as stage:
        await page.go(stage.url)
        await page.says("#connection", "trying again")
        told = await page.says("#notice-text", "make up")
        assert told.endswith(".")
        await page.fill("#text", "One.")
        await page.click("#speak")  # waits for it
        await stage.start()
        await page.says("#status", "Finished")
        assert await page.text("#notice-text") == ""


async def test_an_engine_that_does_not_let_the_page_in(page: Page) -> None:
    async with staged(running=False) as stage:
        own = stage.settings
        stage.settings = own.model_copy(update={"http_port": 1})
        await stage.start()
        await page.go(stage.url)
        assert "`origins`" in await page.says("#notice-text", "does not let this page in")
        await stage.stop()
        stage.settings = own
        await stage.start()
        await page.says("#connection", "Connected")
        await speaks(page)


async def test_an_engine_that_wants_its_token(page: Page) -> None:
    async with staged(host="0.0.0.0", token=TOKEN) as stage:
        await page.go(stage.url)
        await page.says("#connection", "Needs the token")
        await page.fill("#token", "this is not the right one")
        await page.click("#unlock button")
        await page.says("#notice-text", "The token is wrong")
        await page.fill("#token", TOKEN)
        await page.click("#unlock button")
        await page.says("#connection", "Connected")
        await speaks(page)
        assert TOKEN not in await page.evaluate("document.body.innerHTML")


#: pastes a text over the one that is there; who inserts it
PASTE = """
(() => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", %s);
  const text = document.querySelector("#text");
  text.select();
  const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
  return text.dispatchEvent(paste) ? "the browser inserts it too" : "by the page";
})()
"""


async def test_200000_characters(page: Page) -> None:
    """Are pasted, and go to the engine piece by piece, as they are needed."""
    text = ("Seven words \U0001f600 are said in this sentence. " * 5000)[:200_000]
    units = len(text.encode("utf-16-le")) // 2
    async with staged() as stage:
        await opened(stage, page)
        assert await page.evaluate(PASTE % json.dumps(text)) == "by the page"
        await page.click("#speak")
        await page.says("#status", "Reading")
        shown = "document.querySelector('#reading').textContent.length"
        assert await page.evaluate(shown) == units
        (stream,) = stage.engine.streams.live
        assert stream.awaits_text
        await page.until("parseInt(document.querySelector('#buffered').textContent) > 20000")
        await page.click("#stop")
        await page.says("#status", "Stopped")
        await page.click("#edit")
        kept = "(({ value, selectionStart }) => [value, selectionStart])(document.querySelector('#text'))"
        assert await page.evaluate(kept) == [text, units]
        await speaks(page)
        assert not page.complaints


async def test_more_than_the_engine_takes(page: Page) -> None:
    async with staged(live_chars=20_000) as stage:
        await opened(stage, page)
        await page.fill("#text", "x" * 20_001)
        for way in ("#type", "#speak"):
            await page.click(way)
            told = await page.says("#notice-text", "at most")
            assert "20,001" in told
            assert "20,000" in told
            await page.click("#notice-close")
        assert not stage.engine.streams.live
        await speaks(page)
        assert await page.text("#notice-text") == ""
        assert not page.complaints


async def test_a_refused_text_leaves_the_one_that_is_typed_alone(page: Page) -> None:
    """It is typed on, and has its end: without that, the engine waits for more."""
    async with staged(live_chars=200) as stage:
        await opened(stage, page)
        await page.evaluate("document.querySelector('#log').open = true")
        await page.fill("#text", "One two. " * 8)
        await page.click("#type")
        await page.click("#edit")
        await page.fill("#text", "x" * 201)
        await page.click("#speak")
        await page.says("#notice-text", "at most")
        said = "[...document.querySelectorAll('#log-list summary > :nth-child(3)')].map((e) => e.textContent)"
        assert not await page.evaluate(f"{said}.includes('end')")
        await page.until(f"{said}.includes('end')")


@pytest.mark.parametrize(
    "text",
    [
        "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd.",
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643.",
    ],
)
async def test_text_from_right_to_left(page: Page, text: str) -> None:
    async with staged() as stage:
        await opened(stage, page)
        await page.fill("#text", text)
        await page.click("#speak")
        await page.says("#status", "Finished")
        direction = "getComputedStyle(document.querySelector('#reading')).direction"
        assert await page.evaluate(direction) == "rtl"
        places = await page.evaluate("tap.words.map(({ from, to }) => [from, to])")
        assert [text[begin:end] for begin, end in places] == text.split()
        assert not page.complaints


async def test_nothing_but_emoji(page: Page) -> None:
    async with staged(speak=live(say_nothing)) as stage:
        await opened(stage, page)
        await page.fill("#text", "\U0001f600\U0001f680")
        await page.click("#speak")
        await page.says("#notice-text", "nothing to speak")
        await page.until("document.querySelector('#stop').disabled")
        assert await page.text("#status") == "Ready"
        assert not page.complaints


async def test_no_text_at_all(page: Page) -> None:
    async with staged() as stage:
        await opened(stage, page)
        await page.fill("#text", "  \n")
        await page.click("#speak")
        await page.says("#notice-text", "There is no text yet.")
        await speaks(page)
        assert not page.complaints


async def test_a_voice_that_is_not_there_any_more(page: Page) -> None:
    async with staged() as stage:
        await opened(stage, page)
        await page.evaluate("document.querySelector('#voice').options[0].value = 'gone'")
        await page.fill("#text", "One.")
        await page.click("#speak")
        assert "'gone'" in await page.says("#notice-text", "There is no voice")
        await page.fill("#voice", "bm_fable")
        await speaks(page)


async def test_an_end_that_is_fatal(page: Page) -> None:
    """An engine that takes hardly any messages lets the page go; it comes back, and says why."""
    async with staged(ToneVoice(rtf=0.3), messages_per_s=1) as stage:
        await page.go(stage.url)
        await page.says("#connection", "Connected")
        await page.fill("#text", "One two three four. " * 20)
        await page.click("#type")
        told = await page.says("#notice-text", "messages")
        assert told.endswith(".")
        await page.says("#connection", "trying again")
        await page.says("#connection", "Connected")
        await page.click("#stop")
        await page.says("#status", "Stopped")


async def test_a_browser_that_cannot_play(page: Page) -> None:
    await page.before_it_loads("delete globalThis.AudioWorkletNode")
    async with staged() as stage:
        await page.go(stage.url)
        await page.says("#notice-text", "no AudioWorklet")
        await page.says("#connection", "Connected")
        await page.click("#notice-close")
        await page.fill("#text", "One.")
        await page.click("#speak")
        await page.says("#notice-text", "no AudioWorklet")
        assert not page.complaints


async def test_a_page_that_is_not_on_this_machine_and_not_safe(page: Page) -> None:
    """By a name in the setting `hosts`: it comes whole, and says why there is no sound."""
    async with staged(hosts=(NAME,), direct=True) as stage:
        await page.go(stage.url.replace("127.0.0.1", NAME))
        await page.says("#notice-text", "localhost")
        await page.says("#connection", "Connected")
        assert await page.evaluate("isSecureContext") is False
        # Chromium itself remarks that a header counts only on safe pages; nothing else is wrong.
        assert all("Cross-Origin-Opener-Policy" in complaint for complaint in page.complaints)


async def test_a_worklet_that_does_not_come_leaves_no_context_open(page: Page) -> None:
    await page.before_it_loads("""
        globalThis.made = [];
        globalThis.AudioContext = class extends (globalThis.AudioContext ?? Object) {
          constructor(...how) { super(...how); made.push(this); }
        };
        if (globalThis.AudioWorklet) AudioWorklet.prototype.addModule = async () => { throw new Error("No.") };
    """)
    async with staged() as stage:
        await page.go(stage.url)
        await page.says("#connection", "Connected")
        for tries in (1, 2):
            await page.click("#speak")
            await page.until(f"made.length === {tries}")
            await page.until("made.every((context) => context.state === 'closed')")
        assert "could not be started" in await page.text("#notice-text")
        assert not page.complaints


async def test_a_browser_that_keeps_nothing(page: Page) -> None:
    await page.before_it_loads(
        "Object.defineProperty(globalThis, 'localStorage',"
        " { get() { throw new DOMException('Access is denied.', 'SecurityError'); } })"
    )
    async with staged() as stage:
        await page.go(stage.url)
        await page.until("document.querySelectorAll('#voice option').length")
        await page.fill("#voice", "bm_fable")
        await page.fill("#speed", "1.5")
        await speaks(page)
        assert not page.complaints


async def test_who_clicks_before_the_page_is_there(page: Page) -> None:
    """Finds controls that do nothing yet, and do once they can."""
    # In braces: a constant of the whole page named `fetch` would be what its own scripts call.
    await page.before_it_loads("""{
        const fetch = globalThis.fetch;
        const held = new Promise((done) => (globalThis.comes = done));
        globalThis.fetch = async (...what) => (await held, fetch(...what));
    }""")
    controls = "[...document.querySelectorAll('#speak, #type, #listen')].map((e) => e.disabled)"
    async with staged() as stage:
        await page.go(stage.url)
        assert await page.evaluate(controls) == [True] * 3
        await page.evaluate("comes()")
        await page.says("#connection", "Connected")
        assert await page.evaluate(controls) == [False] * 3


async def test_sound_that_the_browser_holds_back(page: Page) -> None:
    """A click that a script makes is none."""
    heard: dict[int, list[object]] = {}
    async with staged() as stage:
        await stage.nursery.start(stage.hear, heard)
        await page.go(stage.url)
        await page.says("#connection", "Connected")
        await page.fill("#text", "One two.")
        await page.evaluate("document.querySelector('#speak').click()")
        await page.until("!document.querySelector('#hint').hidden")
        await page.until("window.tap.context")
        await page.click("#sound")
        await page.says("#status", "Finished")
        await page.until("document.querySelector('#hint').hidden")
        out = await page.evaluate("tap.read()")
        assert out
        # Chromium itself remarks upon it; nothing else is wrong.
        assert all("AudioContext" in complaint for complaint in page.complaints)


async def test_a_script_that_is_slipped_in_does_not_run(page: Page) -> None:
    async with staged() as stage:
        await page.go(f"{stage.url}test/slipped.html")
        await page.says("#connection", "Connected")
        assert await page.evaluate("globalThis.slipped ?? 0") == 0
        (complaint,) = page.complaints
        assert "inline script" in complaint


async def test_nothing_foreign_is_loaded_or_made_of_text(page: Page) -> None:
    async with staged() as stage:
        await page.go(stage.url)
        await page.says("#connection", "Connected")
        refused = await page.evaluate(
            """
            (async () => {
              const refused = [];
              document.addEventListener("securitypolicyviolation", (event) => {
                refused.push(event.effectiveDirective);
              });
              const image = document.createElement("img");
              image.src = "https://example.invalid/x.png";
              document.body.append(image);
              try { document.body.innerHTML = "<p onclick='slipped = 1'>"; } catch {}
              try { (0, eval)("globalThis.slipped = 1"); } catch {}
              try { await fetch("https://example.invalid/"); } catch {}
              await new Promise((done) => setTimeout(done, 50));
              return [...refused, globalThis.slipped ?? 0];
            })()
            """
        )
        assert {"img-src", "connect-src", "require-trusted-types-for", 0} <= set(refused)
