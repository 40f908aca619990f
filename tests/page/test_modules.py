"""The page's modules without a document, in Chromium: what they decode, and how they measure text."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.request import Frame
from http_compat.page.site import STATIC
from wsproto_api import frames
from wsproto_api.errors import RemoteProtocolError

from .browser import Page
from .stage import staged

ROOT = Path(__file__).parent.parent.parent
RAYCAST = ROOT / "clients" / "raycast"

#: as `decodeFrame` answers, or its sentence
DECODE = """
import("/page/protocol.js").then(({ decodeFrame }) => %s.map((hex) => {
  try {
    const { pcm, ...rest } = decodeFrame(Uint8Array.fromHex(hex).buffer);
    return { ...rest, pcm: [...pcm] };
  } catch (error) {
    return error.message;
  }
}))
"""


def whole_and_broken() -> list[bytes]:
    """Frames of all kinds, and bytes that are hardly any."""
    chance = random.Random(8)
    found = [b"", b"\x01", bytes(19), bytes(20), b"\xff" * 20, b"\x01\x00" + bytes(19)]
    for _ in range(300):
        frame = Frame(
            seq=chance.randrange(2**32),
            sample=chance.randrange(2**53),
            pcm=chance.randbytes(2 * chance.randrange(40)),
            first=chance.random() < 0.5,
            last=chance.random() < 0.5,
            discontinuity=chance.random() < 0.5,
            segment_first=chance.random() < 0.5,
        )
        data = bytearray(frames.encode(chance.randrange(2**32), frame))
        if chance.random() < 0.3:
            data[chance.randrange(3)] ^= 1 << chance.randrange(8)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        found.append(bytes(data))
    return found


async def test_frames_are_read_as_python_reads_them(page: Page) -> None:
    samples = whole_and_broken()
    async with staged() as stage:
        await page.go(stage.url)
        answers = await page.evaluate(DECODE % json.dumps([data.hex() for data in samples]))
    read = 0
    for data, answer in zip(samples, answers, strict=True):
        try:
            stream, frame = frames.decode(data)
        except RemoteProtocolError as error:
            assert answer == error.message
            continue
        read += 1
        assert answer == {
            "stream": stream, "seq": frame.seq, "sample": frame.sample, "first": frame.first,
            "last": frame.last, "discontinuity": frame.discontinuity, "segmentFirst": frame.segment_first,
            "pcm": list(memoryview(frame.pcm).cast("h")),
        }  # fmt: skip
    assert 100 < read < 300


MEASURE = """
import("/page/text.js").then(({ Text, tokens }) => %s.map(([pieces, cuts]) => {
  const text = new Text();
  for (const piece of pieces) text.append(piece);
  return {
    length: text.length,
    slices: cuts.map(([from, to]) => text.slice(from, to)),
    tokens: tokens(text.toString()),
  };
}))
"""

#: letters, other scripts, what takes two units in UTF-16, what is put together of several
PIECES = st.lists(
    st.text(st.sampled_from("ab .\n\u00e9\u05d0\u4f60\U0001f600\U00020000\u200d\u0301"))
)


def texts() -> list[tuple[list[str], list[tuple[int, int]]]]:
    """Texts in pieces, and where to cut them; some longer than the table's stride."""
    found: list[tuple[list[str], list[tuple[int, int]]]] = []

    @given(
        PIECES, st.integers(1, 300), st.lists(st.tuples(*[st.integers(0, 2000)] * 2), max_size=4)
    )
    def collect(pieces: list[str], times: int, cuts: list[tuple[int, int]]) -> None:
        found.append((pieces * times, [(min(cut), max(cut)) for cut in cuts]))

    collect()
    return found


async def test_text_is_measured_in_code_points(page: Page) -> None:
    given_ = texts()
    async with staged() as stage:
        await page.go(stage.url)
        answers = await page.evaluate(MEASURE % json.dumps(given_))
    for (pieces, cuts), answer in zip(given_, answers, strict=True):
        whole = "".join(pieces)
        assert answer["length"] == len(whole)
        assert answer["slices"] == [whole[start:stop] for start, stop in cuts]
        assert "".join(answer["tokens"]) == whole


#: shows each text as it grows, marks places in it; gives what is wrong
READ = """
import("/page/reader.js").then(({ Reader }) => {
  const wrong = [];
  const element = document.createElement("div");
  document.body.append(element);
  const reader = new Reader(element);
  for (const [pieces, places] of %s) {
    let text = "";
    reader.show("");
    for (const piece of pieces) {
      const said = text += piece;
      reader.show(said);
      const parts = [...element.childNodes].map((node) => node.data);
      if (parts.join("") !== said) wrong.push(`shown: ${parts.join("|")}`);
      if (parts.some((part) => part.length > 1000 || !part.isWellFormed())) wrong.push("parts");
      for (const [from, to] of places) {
        reader.mark({ from, to }, { from, to });
        for (const mark of ["segment", "word"]) {
          const marked = [...CSS.highlights.get(mark)].map(String);
          if (said && marked[0] !== said.slice(from, to)) wrong.push(`${mark} ${from} ${to}: ${marked}`);
        }
      }
      reader.mark();
    }
  }
  return wrong;
})
"""


async def test_a_text_of_any_length_is_shown_and_marked_as_it_grows(page: Page) -> None:
    """In nodes that are short: the time that Chromium takes for a long one is its square."""
    chance = random.Random(8)
    tests = []
    for signs in ("abc \U0001f600\n", "\U0001f600\u4f60", "\u4f60", "a "):
        for sizes in ([1], [30] * 70, [5_000], [900, 900, 20], [0, 2_500, 1, 1_000]):
            pieces = ["".join(chance.choices(signs, k=size)) for size in sizes]
            places = sorted(chance.sample(range(5_100), 6))
            tests.append((pieces, [*zip(places[::2], places[1::2], strict=True), (0, 9_999)]))
    async with staged() as stage:
        await page.go(stage.url)
        assert await page.evaluate(READ % json.dumps(tests)) == []


def test_the_page_does_what_it_is_to_in_virtual_time() -> None:
    """See `modules/world.mjs`. Node takes files for modules by what is in them since 20.19."""
    told = shutil.which("node") and subprocess.check_output(["node", "--version"], text=True)
    if not told or [int(part) for part in told.strip("v\n").split(".")[:2]] < [20, 19]:
        pytest.skip("Node is missing, or older than 20.19")
    tests = [str(path) for path in Path(__file__).parent.glob("modules/*.test.mjs")]
    done = subprocess.run(
        ["node", "--test", *tests], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stdout


def test_the_browser_is_told_of_all_modules_at_once() -> None:
    """Each would else be asked for only when the one before it was read."""
    told = set(re.findall(r'href="/page/(\w+\.js)"', (STATIC / "index.html").read_text()))
    wanted = {
        name
        for path in STATIC.glob("*.js")
        for name in re.findall(r'^import .* from "\./(\w+\.js)";$', path.read_text(), re.MULTILINE)
    }
    assert told == wanted


#: the worklet's player without its audio thread: `plays(s)` has it play so many seconds, ten in hand
PLAYER = """
(async () => {
  let Player;
  const put = { sampleRate: 24000, currentFrame: 0, registerProcessor: (_, kind) => (Player = kind) };
  Object.assign(globalThis, put, { AudioWorkletProcessor: class { port = { postMessage() {} } } });
  await import("/page/worklet.js");
  const player = new Player();
  const tell = (type, pcm) => player.port.onmessage({ data: { type, generation: 1, pcm } });
  const push = () => tell("push", new Int16Array(48000).fill(1)); // 375 blocks
  tell("begin");
  for (let s = 0; s < 10; s += 2) push();
  const out = new Float32Array(128);
  globalThis.plays = (seconds) => {
    let loud = 0;
    for (let block = 0; block < 187.5 * seconds; block += 1, currentFrame += 128) {
      if (block % 375 === 0) push();
      out.fill(0);
      player.process([], [[out]]);
      loud += out.every((value) => value === 1 / 32768);
    }
    return loud;
  };
})()
"""


async def test_who_plays_for_long_needs_no_more_memory(page: Page) -> None:
    """Neither sound nor anything else is kept on the audio thread, not a word for each block."""
    async with staged() as stage:
        await page.go(stage.url)
        await page.evaluate(PLAYER)
        used = []
        for seconds in (60, 300):
            assert await page.evaluate(f"plays({seconds})") == seconds * 187.5
            await page.ask("HeapProfiler.collectGarbage")
            heap = await page.ask("Runtime.getHeapUsage")
            used.append(heap["usedSize"] + heap["backingStorageSize"])
    assert used[1] - used[0] < 100_000, used


@pytest.mark.skipif(
    not (RAYCAST / "node_modules" / ".bin" / "tsc").exists(),
    reason="TypeScript is missing; `make test` installs it where it can",
)
def test_the_types_that_the_comments_tell_are_right() -> None:
    command = [str(RAYCAST / "node_modules" / ".bin" / "tsc"), "-p", str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
