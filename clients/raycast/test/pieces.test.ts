import assert from "node:assert/strict";
import test from "node:test";
import { encode } from "../src/player/messages";
import { isSpoken, PIECE_CHARS, pieces } from "../src/player/pieces";

/** Of a message, by the protocol. */
const MESSAGE_BYTES = 65_536;
/** The longest that there is. */
const VOICE = "v".repeat(200);

/** Numbers that look random and are the same every time. */
function seeded(seed: number): () => number {
  return () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return seed / 2 ** 32;
  };
}

function fits(text: string): boolean {
  const options = { markdown: "auto" } as const;
  const request = { type: "speak", mode: "replace", voice: VOICE, speed: 1.25, options } as const;
  const message = encode({ ...request, text }, "raycast-1000");
  return [...text].length <= PIECE_CHARS && Buffer.byteLength(message) <= MESSAGE_BYTES;
}

test("a piece has no more characters than the engine takes, unless it is set otherwise", () => {
  assert.equal(PIECE_CHARS, 16_000);
});

test("control characters, which JSON makes six bytes of, fit too", () => {
  const text = "\u0001".repeat(50_000);
  assert.ok(pieces(text).every(fits));
  assert.equal(pieces(text).join(""), text);
});

test("a text within the limits is one piece", () => {
  assert.deepEqual(pieces("One. Two."), ["One. Two."]);
  assert.deepEqual(pieces(""), []);
  assert.equal(pieces("é".repeat(PIECE_CHARS)).length, 1);
});

test("200,000 characters are cut between sentences", () => {
  const text = "This sentence is spoken, and the next one too. ".repeat(4256).slice(0, 200_000);
  const cut = pieces(text);
  assert.equal(cut.join(""), text);
  assert.ok(cut.every(fits));
  assert.ok(cut.slice(0, -1).every((piece) => piece.endsWith(". ")));
  assert.ok(cut.length <= Math.ceil(text.length / PIECE_CHARS) + 1);
});

test("a paragraph is a better place than a line, a line than a sentence, a word than nothing", () => {
  const filler = (chars: number) => "x".repeat(chars);
  const long = filler(PIECE_CHARS);
  for (const [seam, worse] of [
    ["\n\n", "\n"],
    ["\n", ". "],
    [". ", " "],
    [" ", ""],
  ] as const) {
    const text = `${filler(10_000)}${seam}${filler(1000)}${worse}${long}`;
    assert.equal(pieces(text)[0], `${filler(10_000)}${seam}`);
  }
});

test("Chinese sentences are sentences", () => {
  const text = "这是一个句子。".repeat(5000);
  assert.ok(pieces(text).every((piece) => piece.endsWith("。")));
});

test("whatever the text is, its pieces are the text, and fit", () => {
  const random = seeded(8);
  const alphabet = ["a", "é", "漢", "🎉", "\u0001", '"', "\\", " ", "\n", "\n\n", ". ", "ש", "👩‍👩‍👧"];
  for (let run = 0; run < 40; run++) {
    const some = alphabet.filter(() => random() < 0.4);
    const length = Math.floor(random() * 50_000);
    let text = "";
    for (let at = 0; at < length && some.length; at++) {
      text += some[Math.floor(random() * some.length)];
    }
    const cut = pieces(text);
    assert.equal(cut.join(""), text);
    assert.ok(cut.every(fits));
    assert.ok(cut.every((piece) => piece !== ""));
  }
});

test("half a surrogate pair becomes a character that can be sent", () => {
  assert.deepEqual(pieces("a\ud83cb"), ["a\ufffdb"]);
});

test("emoji and marks alone are nothing to speak", () => {
  const england = "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
  for (const text of ["🎉", "👩‍👩‍👧 🇩🇪 👍🏽", "❤️\n✨", "🏃🏽‍♂️", "☺ ❤ ♥♦", england, "---", "… !"])
    assert.equal(isSpoken(text), false, text);
  for (const text of ["🎉 a", "1", "1️⃣", "ש", "漢", "$", "©"])
    assert.equal(isSpoken(text), true, text);
});
