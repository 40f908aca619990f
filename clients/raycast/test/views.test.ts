/** The commands that show more than a word: voices, the form and the menu. */

import assert from "node:assert/strict";
import test from "node:test";
import { View } from "./commands";
import { folder, nobody, SPEAKING } from "./fake-player";
import { renew, type Shown, world } from "./raycast";
import { fake, said, there, withSystemctl } from "./setup";

const EMMA = {
  id: "bf_emma",
  name: "Emma (British English, female)",
  lang: "en-gb",
  gender: "female",
  grade: "B-",
  preview: "A sentence of hers.",
};
const SIWIS = { id: "ff_siwis", name: "Siwis", lang: "fr-fr", unreadable: "Install French." };

test("voices are listed by language, the chosen one marked, with what there is to know", async () => {
  fake.answers.voices = () => ({ type: "voices", voices: [EMMA, SIWIS] });
  fake.answers.status = () => ({ ...SPEAKING, voice: "bf_emma" });
  renew({ preferences: there });
  const list = await View.open("choose-voice");
  const titles = ["British English", "Emma | bf_emma", "French (France)", "Siwis | ff_siwis"];
  assert.deepEqual(
    list.lines.filter((line) => !/^(Use|Hear)/.test(line)),
    titles,
  );
  assert.deepEqual(list.part("Emma").icon, { source: "CheckCircle", tintColor: "Green" });
  assert.equal(list.part("Siwis").icon, "Person");
  assert.deepEqual(list.part("Siwis").accessories, [
    { icon: "Warning", tooltip: "Install French." },
  ]);
  await list.close();
});

test("a voice is heard before it is chosen, and the list stays", async () => {
  fake.answers.voices = () => ({ type: "voices", voices: [EMMA] });
  renew({ preferences: { ...there, whenBusy: "queue" } });
  const list = await View.open("choose-voice");
  await list.choose("Hear It");
  const { text, voice, mode } = said();
  assert.deepEqual([text, voice, mode], ["A sentence of hers.", "bf_emma", "replace"]);
  assert.deepEqual(world.shown, []);
  await list.choose("Use This Voice");
  assert.deepEqual(fake.asked.pop(), { type: "configure", voice: "bf_emma" });
  assert.deepEqual(world.shown[0], { kind: "hud", title: "Emma speaks" });
  world.preferences.voice = "af_sky";
  world.shown = [];
  await list.choose("Use This Voice");
  assert.match(world.shown[0]!.title!, /texts from Raycast keep af_sky of the preferences/);
  await list.close();
});

test("without an engine the list says so, and can be tried again", async () => {
  renew({ preferences: { ...there, dataFolder: folder({ player: fake.url, token_file: null }) } });
  const list = await View.open("choose-voice");
  assert.match(list.lines[0]!, /^The engine is not running. \|/);
  assert.ok(list.part("Start Kokoro Live"));
  world.preferences.dataFolder = there.dataFolder;
  await list.choose("Try Again");
  assert.ok(list.part("Heart"));
  await list.close();
});

test("a text behind the command is spoken at once", async () => {
  for (const launch of [{ arguments: { text: "At once." } }, { fallbackText: "At once." }]) {
    fake.asked = [];
    renew({ preferences: there });
    const form = await View.open("speak-text", launch);
    while (!world.shown.length) await new Promise(setImmediate);
    assert.equal(said().text, "At once.");
    assert.deepEqual(world.shown[0], { kind: "hud", title: "Speaking 8 characters" });
    await form.close();
  }
});

test("the form speaks as it is filled in, else as the preferences say", async () => {
  renew({ preferences: { ...there, voice: "af_sky", speed: "1.5", whenBusy: "queue" } });
  const draft = { text: "A draft.", voice: "", speed: "", mode: "queue" };
  const form = await View.open("speak-text", { draftValues: draft });
  assert.equal(form.part("text").defaultValue, "A draft.");
  assert.deepEqual(
    form.lines.filter((line) => /sky|1.5|Heart/.test(line)),
    ["af_sky", "Heart", "1.5", "1.5"],
  );
  await form.choose("Speak", { values: draft });
  const { voice, speed, mode } = said();
  assert.deepEqual([voice, speed, mode], ["af_sky", 1.5, "queue"]);
  fake.asked = [];
  const values = { text: "Mine.", voice: "af_heart", speed: "0.75", mode: "replace" };
  await form.choose("Speak", { values });
  assert.deepEqual(said(), { ...said(), ...values, speed: 0.75 });
  await form.choose("Speak", { values: { ...values, text: " " } });
  assert.equal(world.shown.pop()!.title, "There is no text to speak.");
  await form.close();
});

test("the form needs no engine to be filled in", async () => {
  renew({ preferences: { ...there, dataFolder: folder({ player: fake.url, token_file: null }) } });
  const form = await View.open("speak-text");
  await form.choose("Speak", { values: { text: "Hi.", voice: "", speed: "", mode: "replace" } });
  assert.equal(said().text, "Hi.");
  await form.close();
});

test("the menu shows what is spoken and controls it", async () => {
  fake.answers.status = () => ({
    ...SPEAKING,
    queue_len: 2,
    device: "Speakers",
    voice: "af_sky",
    speed: 1.5,
  });
  fake.answers.queue = () => ({
    type: "queue",
    items: [
      { item: 7, chars: 1812, waits: false },
      { item: 8, chars: 5, waits: true },
    ],
  });
  renew({ preferences: there });
  const menu = await View.open("speech-status");
  assert.equal(menu.root.icon, "SpeakerHigh");
  assert.deepEqual(menu.lines.slice(0, 4), [
    "Speaking | 1,812 characters",
    "2 waiting",
    "af_sky, speed 1.5",
    "Speakers",
  ]);
  fake.asked = [];
  for (const [title, asked] of [
    ["Pause", { type: "toggle" }],
    ["Stop", { type: "stop" }],
    ["Next Sentence", { type: "skip", unit: "sentence", n: 1 }],
    ["Back", { type: "skip", unit: "sentence", n: -1 }],
    ["Next Text", { type: "skip", unit: "item", n: 1 }],
    ["Repeat Last", { type: "repeat" }],
    ["Faster", { type: "configure", speed: 1.6 }],
    ["Slower", { type: "configure", speed: 1.4 }],
  ] as const) {
    await menu.choose(title);
    const own = fake.asked.filter(({ type }) => type !== "status" && type !== "queue");
    assert.deepEqual(own, [asked]);
    assert.ok(fake.types.includes("queue"), "it did not look again");
    fake.asked = [];
  }
  assert.deepEqual(world.shown, []);
  await menu.choose("Choose Voice…");
  await menu.choose("Preferences…");
  assert.deepEqual(world.shown, [
    { kind: "launched", title: "choose-voice" },
    { kind: "preferences" },
  ]);
  world.enabled = false;
  await menu.choose("Choose Voice…");
  assert.match((world.shown as Shown[]).pop()!.title!, /disabled/);
  await menu.close();
});

test("the menu of a silent player has nothing to stop, and of a paused one goes on", async () => {
  renew({ preferences: there });
  const silent = await View.open("speech-status");
  assert.equal(silent.root.icon, "Speaker");
  assert.ok(!silent.lines.includes("Stop"));
  assert.equal(silent.lines[0], "Silent");
  await silent.close();
  fake.answers.status = () => ({ ...SPEAKING, state: "paused", device: undefined });
  const paused = await View.open("speech-status");
  assert.ok(paused.part("Resume"));
  assert.ok(paused.part("No sound device: speech waits until there is one"));
  fake.answers.toggle = () => ({ type: "error", code: "internal", message: "It broke." });
  await paused.choose("Resume");
  assert.deepEqual(world.shown, [{ kind: "hud", title: "It broke." }]);
  await paused.close();
});

test("the menu of a player that does not run has how to start it, and looks again", async () => {
  renew({ preferences: { ...there, address: await nobody() } });
  const menu = await View.open("speech-status");
  assert.deepEqual(menu.lines, ["The player is not running.", "Start Kokoro Live", "Look Again"]);
  assert.equal(menu.root.icon, "SpeakerOff");
  if (process.platform === "linux") {
    await withSystemctl(1, () => menu.choose("Start Kokoro Live"));
    assert.match((world.shown as Shown[]).pop()!.title!, /not installed as a service/);
  }
  world.preferences.address = "";
  await menu.choose("Look Again");
  assert.equal(menu.lines[0], "Silent");
  await menu.close();
});
