// What the page does, in virtual time: with a listener, an engine and a device that do as they are told.

import assert from "node:assert/strict";
import test, { mock } from "node:test";
import { addressFor, Connection, Refused } from "../../../http_compat/page/static/connection.js";
import { Feeder } from "../../../http_compat/page/static/feeder.js";
import { Stream } from "../../../http_compat/page/static/stream.js";
import { languageName, Text } from "../../../http_compat/page/static/text.js";
import { LATENCY_MS, page, passes, settled, sockets, sound, sounded } from "./world.mjs";

const MANNER = { voice: "af_heart", speed: 1 };

// --- the connection -----------------------------------------------------------------------------------

/** Ends the last connection; gives the milliseconds up to the next attempt. */
function pause() {
  const tries = sockets.length;
  sockets.at(-1).ends(1006);
  let ms = 0;
  for (; sockets.length === tries; ms += 1) mock.timers.tick(1);
  return ms;
}

test("each attempt waits twice as long as the one before, up to eight seconds", () => {
  new Connection("ws://engine/", { explain: async () => "" }).open();
  const pauses = Array.from({ length: 8 }, pause);
  assert.deepEqual(pauses, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
});

test("pauses are uneven, so that pages do not come all at once", () => {
  new Connection("ws://engine/", { explain: async () => "" }).open();
  mock.method(Math, "random", () => 0);
  assert.equal(pause(), 200);
  mock.method(Math, "random", () => 1);
  assert.ok(Math.abs(pause() - 600) <= 1);
});

test("after a connection that stood for five seconds the pauses begin anew", async () => {
  new Connection("ws://engine/", { explain: async () => "" }).open();
  assert.deepEqual([pause(), pause(), pause()], [250, 500, 1000]);
  sockets.at(-1).greets();
  await passes(4_900);
  assert.equal(pause(), 2000, "one that breaks off at once is no good one");
  sockets.at(-1).greets();
  await passes(5_100);
  assert.deepEqual([pause(), pause()], [250, 500]);
});

test("a page that came by https goes to the engine by wss", () => {
  const engine = "ws://tts.example:8881/";
  assert.equal(addressFor("http:", engine), engine);
  assert.equal(addressFor("https:", engine), "wss://tts.example:8881/");
});

// --- text ---------------------------------------------------------------------------------------------

test("half a surrogate pair does not break a message", () => {
  assert.equal(new Text("a\ud83d b").toString(), "a\ufffd b");
});

test("languages have names", () => {
  for (const [code, name] of [
    ["en-us", "American English"],
    ["pt-br", "Brazilian Portuguese"],
    ["ja", "Japanese"],
    ["!", "!"],
  ]) {
    assert.equal(languageName(code), name);
  }
});

// --- numbers ------------------------------------------------------------------------------------------

test("the real-time factor is the engine's, or reckoned of the segments that are done", () => {
  const stream = new Stream(1);
  const segment = (index) =>
    stream.note({ type: "segment", index, char_start: 0, char_end: 1, sample: 0, text: "x" });
  const done = (samples, compute_ms) =>
    stream.note({ type: "segment.done", index: 0, samples, compute_ms });
  assert.equal(stream.rtf, undefined);
  segment(0);
  done(24_000, 250); // a second of sound
  assert.equal(stream.rtf, 0.25);
  done(24_000, 9_000); // told again behind a break
  assert.equal(stream.rtf, 0.25);
  segment(1);
  done(72_000, 150);
  assert.equal(stream.rtf, 0.1);
  stream.note({ type: "progress", samples_ready: 1, queue: 0, rtf: 0.375 });
  assert.equal(stream.rtf, 0.375);
  stream.note({ type: "progress", samples_ready: 1, queue: 0 });
  assert.equal(stream.rtf, 0.375);
});

/** Has a text spoken, of which the engine makes stream 1. */
async function speaks({ engine, session }, text = "One two.") {
  const speech = session.speak(text, MANNER);
  await engine.answers("speak", { stream: 1 });
  return speech;
}

test("the first sound is from the wish to the ear, of each text", async () => {
  const here = await page();
  await passes(1000);
  await speaks(here);
  assert.equal(here.session.firstSoundMs, undefined);
  await passes(400);
  sound(here.connection, 1, { ms: 300 });
  await passes(100);
  const block = 128 / 24;
  const within = (ms, least) => assert.ok(ms >= least && ms <= least + 2 * block, `${ms} ms`);
  within(here.session.firstSoundMs, 400 + LATENCY_MS);
  await passes(50);
  within(here.session.firstSoundMs, 400 + LATENCY_MS);
  // Another one, for which less than the wish for the first has to be waited.
  here.session.speak("Three.", MANNER);
  assert.equal(here.session.firstSoundMs, undefined);
  await here.engine.answers("speak", { stream: 2 });
  await passes(60);
  sound(here.connection, 2, { ms: 300 });
  await passes(100);
  within(here.session.firstSoundMs, 60 + LATENCY_MS);
});

test("after each underrun twice as much is waited for, up to 1.6 seconds, for each text anew", async () => {
  const here = await page();
  await speaks(here);
  let [seq, sample] = [0, 0];
  const comes = (ms) => {
    sound(here.connection, 1, { seq, sample, ms });
    [seq, sample] = [seq + 1, sample + ms * 24];
  };
  for (const enough of [100, 200, 400, 800, 1600, 1600]) {
    comes(enough - 20);
    await passes(60);
    assert.deepEqual(sounded(), [], `${enough} ms are not there yet`);
    comes(20);
    await passes(enough + 60);
    assert.deepEqual(sounded(), [{ value: 1, samples: enough * 24 }]);
    assert.equal(here.session.activity, "filling");
  }
  assert.equal(here.session.underruns, 6);
  here.session.speak("Three.", MANNER);
  await here.engine.answers("speak", { stream: 2 });
  sound(here.connection, 2, { ms: 100 });
  await passes(60);
  assert.equal(here.session.activity, "speaking");
  assert.equal(here.session.underruns, 6, "they are those since the page was opened");
});

// --- what is said to the engine -----------------------------------------------------------------------

test("another voice and speed count at once, and for what goes on behind a break", async () => {
  const here = await page();
  const { connection, engine, session } = here;
  session.configure({ voice: "bf_emma", speed: 2 });
  assert.deepEqual(
    engine.sent.filter(({ type }) => type === "configure"),
    [],
  );
  const opened = { type: "stream.opened", stream: 1, voice: "af_heart", speed: 1 };
  session.speak("One two. Three four.", MANNER);
  await engine.answers("speak", { stream: 1 });
  engine.says(opened);
  engine.says({ type: "segment", stream: 1, index: 0, char_start: 0, char_end: 8, sample: 0 });
  sound(connection, 1, { ms: 500 });
  await passes(200);
  session.configure({ voice: "bf_emma", speed: 1.5 });
  const [{ id, ...configure }] = engine.sent.filter(({ type }) => type === "configure");
  assert.deepEqual(configure, { type: "configure", stream: 1, voice: "bf_emma", speed: 1.5 });
  engine.ends(1006);
  await passes(400);
  const [, anew] = sockets;
  anew.greets("another");
  await settled();
  const { text, voice, speed } = anew.sent.find(({ type }) => type === "speak");
  assert.deepEqual([text, voice, speed], ["One two. Three four.", "bf_emma", 1.5]);
});

test("a voice that is changed while the text is on its way counts too", async () => {
  const { engine, session } = await page();
  session.speak("One two.", MANNER);
  session.configure({ voice: "bf_emma", speed: 1 });
  assert.ok(
    engine.sent.every(({ type }) => type !== "configure"),
    "there is no stream yet",
  );
  await engine.answers("speak", { stream: 1 });
  const { stream, voice } = engine.sent.findLast(({ type }) => type === "configure");
  assert.deepEqual([stream, voice], [1, "bf_emma"]);
  await engine.answers("configure");
  assert.equal(session.current.voice, "bf_emma");
});

test("a stream that waits for text is not forgotten by the engine", () => {
  const said = [];
  const speech = { sent: 9, text: "One two. ", flushes: [], complete: false };
  const stream = { number: 3, speech, base: 4, reached: 0, complete: false, allSaid: false };
  const feeder = new Feeder({ attempt: (message) => said.push(message) }, () => stream);
  let minutes = 0;
  mock.method(performance, "now", () => minutes * 60_000);
  for (; minutes <= 60; minutes += 1) feeder.keepAlive();
  // Ten minutes of silence end a stream; every four leave room for one that is lost.
  assert.equal(said.length, 15);
  assert.deepEqual(said[0], { type: "append", stream: 3, text: "", at: 5 });
  for (const over of [{ allSaid: true }, { complete: true }]) {
    const ended = { ...stream, ...over };
    const other = new Feeder({ attempt: (message) => said.push(message) }, () => ended);
    other.keepAlive();
  }
  assert.equal(said.length, 15);
});

test("a text that is refused in its middle ends there", async () => {
  // Else the engine would wait for more of it, and the page for its end.
  const said = [];
  const speech = { sent: 0, text: "One two.", flushes: [], complete: false };
  const stream = { number: 3, speech, base: 0, reached: 0, complete: false, allSaid: false };
  const connection = {
    ask: () => Promise.reject(new Refused({ message: "Too long.", code: "text_too_long" })),
    attempt: (message) => said.push(message),
  };
  const feeder = new Feeder(connection, () => stream);
  feeder.onnotice = (sentence) => said.push(sentence);
  await feeder.feed();
  await feeder.feed();
  assert.deepEqual(said, ["Too long.", { type: "end", stream: 3 }]);
});

test("a page whose listener pauses keeps its stream alive by itself", async () => {
  const { engine, session } = await page();
  const speech = session.speak("One two", MANNER, true);
  session.append(speech, "One two");
  await engine.answers("open", { stream: 1 });
  await engine.answers("append");
  for (let minute = 0; minute < 10; minute += 1) {
    mock.method(performance, "now", () => minute * 60_000);
    mock.timers.tick(60_000);
  }
  await settled();
  const empty = engine.sent.filter(({ type, text }) => type === "append" && !text);
  assert.deepEqual(
    empty.map(({ at }) => at),
    [7, 7],
  );
});

test("what is wrong with a part of a text is told with that part", async () => {
  const here = await page();
  const { engine, told } = here;
  await speaks(here, `Fine 😀😀 and ${"x".repeat(99)}.`);
  const warning = { type: "warning", code: "not_spoken", message: "Not spoken.", stream: 1 };
  engine.says({ ...warning, char_start: 5, char_end: 7 });
  engine.says({ ...warning, char_start: 12, char_end: 111 });
  engine.says({ ...warning, message: "Nothing is." });
  engine.says({ ...warning, stream: 9, char_start: 5, char_end: 7 });
  engine.says({ ...warning, code: "unknown_field" });
  assert.deepEqual(told, [
    "Not spoken. “😀😀”",
    `Not spoken. “${"x".repeat(60)}…”`,
    "Nothing is.",
    "Not spoken.",
  ]);
});

// --- texts of others ----------------------------------------------------------------------------------

/** Another program's text of two words, whole, as the engine tells of it. */
function another({ connection, engine }, number) {
  engine.says({
    type: "stream.opened",
    stream: number,
    voice: "af_heart",
    speed: 1,
    key: "theirs",
  });
  const text = `Text ${number}.`;
  engine.says({
    type: "segment", stream: number, index: 0, text, char_start: 0, char_end: text.length, sample: 0,
  }); // prettier-ignore
  sound(connection, number, { ms: 100, value: number, last: true });
  engine.says({ type: "stream.done", stream: number, samples: 2400 });
}

test("texts of others are heard one after the other, as they came", async () => {
  const here = await page();
  const { session, told } = here;
  session.listen(true);
  const shown = [];
  session.ontext = () => shown.push(session.current.shown.toString());
  for (const number of [5, 6, 7, 8]) another(here, number);
  await passes(600);
  const values = [5, 6, 7, 8].map((value) => ({ value, samples: 2400 }));
  assert.deepEqual(sounded(), values);
  assert.deepEqual([...new Set(shown)].filter(Boolean), [
    "Text 5.",
    "Text 6.",
    "Text 7.",
    "Text 8.",
  ]);
  assert.deepEqual(told, ["Finished.", "Finished.", "Finished.", "Finished."]);
  assert.equal(session.activity, "idle");
});

test("a text of ours goes before those that wait, and these are heard behind it", async () => {
  const here = await page();
  const { connection, session } = here;
  session.listen(true);
  for (const number of [5, 6, 7]) another(here, number);
  await passes(50);
  await speaks(here);
  sound(connection, 1, { ms: 200, value: 1, last: true });
  await passes(600);
  const heard = sounded().filter(({ samples }) => samples > 120); // no ramp
  assert.deepEqual(
    heard.map(({ value }) => value),
    [5, 1, 6, 7],
  );
});
