/** What each method asks of the player, and what it makes of the answers. */

import assert from "node:assert/strict";
import test from "node:test";
import { Failure } from "../src/player/failure";
import { MAX_CHARS, Player } from "../src/player/player";
import { FakePlayer, folder, SPEAKING, TOKEN } from "./fake-player";

const LONG = { quickMs: 20_000, engineMs: 20_000 };

async function both(): Promise<[FakePlayer, Player]> {
  const fake = await FakePlayer.start();
  return [fake, new Player({ address: fake.url, token: TOKEN, dataFolder: folder() }, LONG)];
}

test("speak is one message with all that was wished", async () => {
  const [fake, player] = await both();
  const spoken = await player.speak("Hello there.", {
    mode: "queue",
    voice: "bf_emma",
    speed: 1.25,
    markdown: "off",
  });
  assert.deepEqual(spoken, { outcome: "queued", characters: 12, unheard: false });
  assert.deepEqual(fake.asked[0], {
    type: "speak",
    text: "Hello there.",
    mode: "queue",
    voice: "bf_emma",
    speed: 1.25,
    options: { markdown: "off" },
  });
});

test("what was not wished is not named", async () => {
  const [fake, player] = await both();
  assert.equal((await player.speak("Hi.", { mode: "replace" })).outcome, "speaking");
  assert.deepEqual(fake.asked[0], { type: "speak", text: "Hi.", mode: "replace" });
});

test("a toggle that stopped something speaks nothing, however long the text is", async () => {
  const [fake, player] = await both();
  fake.answers.speak = () => ({ type: "ack" });
  const spoken = await player.speak("word. ".repeat(10_000), { mode: "toggle" });
  assert.equal(spoken.outcome, "stopped");
  assert.deepEqual(fake.types, ["speak"]);
});

test("200,000 characters go in pieces: the first as wished, the others behind it", async () => {
  const [fake, player] = await both();
  const text = "One sentence of a long paste. ".repeat(6667).slice(0, 200_000);
  const spoken = await player.speak(text, { mode: "replace", voice: "af_sky" });
  assert.deepEqual(spoken, { outcome: "speaking", characters: 200_000, unheard: false });
  const said = fake.asked.filter((message) => message.type === "speak");
  assert.equal(said.map((message) => message.text).join(""), text);
  assert.deepEqual(
    said.map((message) => message.mode),
    ["replace", ...Array(said.length - 1).fill("queue")],
  );
  assert.ok(said.every((message) => message.voice === "af_sky"));
});

test("a paste of which the end is refused says so", async () => {
  const [fake, player] = await both();
  fake.answers.speak = ({ mode }) =>
    mode === "queue"
      ? { type: "error", code: "overloaded", message: "1000 texts are waiting." }
      : { type: "ack", item: 1 };
  await assert.rejects(player.speak("word. ".repeat(10_000), { mode: "replace" }), {
    message: "Only the beginning of the text is spoken. 1000 texts are waiting.",
  });
});

test("texts that cannot be spoken are told without asking", async () => {
  const [fake, player] = await both();
  for (const [text, message] of [
    [" \n", /no text/],
    ["🎉🎉", /emoji/],
    ["a".repeat(MAX_CHARS + 1), /1,000,001 characters, and 1,000,000/],
  ] as const) {
    await assert.rejects(player.speak(text, { mode: "replace" }), (error: Failure) => {
      assert.match(error.message, message);
      return true;
    });
  }
  assert.deepEqual(fake.asked, []);
});

test("speech that waits for a sound device is told", async () => {
  const [fake, player] = await both();
  for (const device of [null, undefined]) {
    fake.answers.status = () => ({ ...SPEAKING, device });
    assert.equal((await player.speak("Hi.", { mode: "replace" })).unheard, true);
  }
});

test("controls ask once, and know whether there was anything to do", async () => {
  const [fake, player] = await both();
  assert.equal(await player.stop(), false);
  assert.equal(await player.skip(1), false);
  assert.equal((await player.toggle()).state, "idle");
  fake.answers.status = () => SPEAKING;
  fake.asked = [];
  assert.equal(await player.stop(), true);
  assert.equal(await player.skip(-1), true);
  assert.equal(await player.skip(1, "item"), true);
  await player.repeat();
  await player.useVoice("bf_emma");
  assert.deepEqual(
    fake.asked.filter(({ type }) => type !== "status"),
    [
      { type: "stop" },
      { type: "skip", unit: "sentence", n: -1 },
      { type: "skip", unit: "item", n: 1 },
      { type: "repeat" },
      { type: "configure", voice: "bf_emma" },
    ],
  );
});

test("a speed is a step from the one that is, within what there is", async () => {
  const [fake, player] = await both();
  for (const [now, step, then] of [
    [undefined, 0.1, 1.1],
    [1.1, 0.1, 1.2],
    [1.15, -0.05, 1.1],
    [3.9, 0.25, 4],
    [0.3, -0.25, 0.25],
  ] as const) {
    fake.answers.status = () => ({ ...SPEAKING, speed: now });
    assert.equal(await player.faster(step), then);
    assert.deepEqual(fake.asked.pop(), { type: "configure", speed: then });
  }
});

test("the engine may take longer for its voices than a key is waited for", async () => {
  const fake = await FakePlayer.start();
  const dataFolder = folder({ engine: fake.url, token_file: null });
  const player = new Player({ dataFolder, token: TOKEN }, { quickMs: 0, engineMs: 20_000 });
  assert.equal((await player.voices()).length, 1);
});

test("voices are asked of the engine, by the token of the player", async () => {
  const fake = await FakePlayer.start();
  const dataFolder = folder({ engine: fake.url, token_file: null });
  const player = new Player({ dataFolder, token: TOKEN }, LONG);
  assert.deepEqual(
    (await player.voices()).map((voice) => voice.id),
    ["af_heart"],
  );
  assert.deepEqual(fake.tokens, [`Bearer ${TOKEN}`]);
});
