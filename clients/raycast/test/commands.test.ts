/** The commands as a person sees them: what they ask, what they show, what preferences change. */

import assert from "node:assert/strict";
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test, { before, beforeEach } from "node:test";
import manifest from "../package.json";
import { PATIENCE } from "../src/player/conversation";
import { press, View, WITH_VIEW, WITHOUT_VIEW } from "./commands";
import { FakePlayer, folder, nobody, SPEAKING, TOKEN } from "./fake-player";
import { ALL_PREFERENCES, renew, type Shown, world } from "./raycast";

let fake: FakePlayer;
let there: Record<string, unknown>;

before(() => {
  PATIENCE.quickMs = 20_000; // a busy machine is no failure
});

beforeEach(async () => {
  fake = await FakePlayer.start();
  const token_file = null;
  const dataFolder = folder({ player: fake.url, engine: fake.url, token_file });
  there = { dataFolder, token: TOKEN };
});

/** Presses a key; gives what was shown, but that the menu bar was told. */
async function shown(command: string, user: Parameters<typeof renew>[0] = {}): Promise<Shown[]> {
  renew({ ...user, preferences: { ...there, ...user.preferences } });
  await press(command);
  return world.shown.filter(({ kind }) => kind !== "launched");
}

function hud(title: string): Shown[] {
  return [{ kind: "hud", title }];
}

function said(): Record<string, unknown> {
  return fake.asked.find(({ type }) => type === "speak")!;
}

// --- what is spoken -------------------------------------------------------------------------

test("the selection is spoken", async () => {
  const told = await shown("speak-selection", { selection: " Two words. ", clipboard: "No." });
  assert.deepEqual(told, hud("Speaking 10 characters"));
  assert.equal(said().text, "Two words.");
});

test("without a selection it is the clipboard, and that is told", async () => {
  for (const selection of [undefined, " "]) {
    const told = await shown("speak-selection", { selection, clipboard: "Copied." });
    assert.deepEqual(told, hud("Nothing selected, so the clipboard: Speaking 7 characters"));
  }
});

test("nothing at all to speak is told, and nobody is asked", async () => {
  for (const [command, title] of [
    ["speak-selection", "Nothing is selected, and the clipboard holds no text."],
    ["speak-clipboard", "The clipboard holds no text."],
  ] as const) {
    for (const clipboard of [undefined, " \n"]) {
      const [toast, ...others] = await shown(command, { clipboard });
      assert.deepEqual([toast!.style, toast!.title, others], ["failure", title, []]);
    }
  }
  assert.deepEqual(fake.asked, []);
});

test("right-to-left text, and 200,000 characters, are spoken as they are", async () => {
  const hebrew = "שלום עולם.";
  assert.deepEqual(
    await shown("speak-clipboard", { clipboard: hebrew }),
    hud("Speaking 10 characters"),
  );
  assert.equal(said().text, hebrew);
  const paste = "One more word. ".repeat(13_334).slice(0, 200_000).replace(/.$/, ".");
  assert.deepEqual(
    await shown("speak-clipboard", { clipboard: paste }),
    hud("Speaking 200,000 characters"),
  );
});

test("emoji alone are told to be nothing", async () => {
  const [toast] = await shown("speak-clipboard", { clipboard: "🎉" });
  assert.match(toast!.title!, /emoji/);
});

test("speech that nobody hears yet is told", async () => {
  fake.answers.status = () => ({ ...SPEAKING, device: undefined });
  assert.deepEqual(
    await shown("speak-clipboard", { clipboard: "H" }),
    hud("1 character wait: there is no sound device"),
  );
});

// --- controls -------------------------------------------------------------------------------

test("each control says what became of it", async () => {
  fake.answers.status = () => SPEAKING;
  for (const [command, title] of [
    ["pause-resume", "Going on"],
    ["stop", "Stopped"],
    ["skip-forward", "Next sentence"],
    ["skip-back", "Back"],
    ["repeat-last", "Once more"],
    ["faster", "Speed 1.1"],
    ["slower", "Speed 0.9"],
  ] as const) {
    assert.deepEqual(await shown(command), hud(title));
  }
  fake.answers.status = () => ({ ...SPEAKING, state: "paused" });
  assert.deepEqual(await shown("pause-resume"), hud("Paused"));
});

test("with nothing spoken there is nothing to control, which is no failure", async () => {
  for (const command of ["pause-resume", "stop", "skip-forward", "skip-back"]) {
    assert.deepEqual(await shown(command), hud("Nothing is spoken"));
  }
});

test("the ends of the speeds are told", async () => {
  fake.answers.status = () => ({ ...SPEAKING, speed: 4 });
  assert.deepEqual(await shown("faster"), hud("Speed 4, the fastest"));
  fake.answers.status = () => ({ ...SPEAKING, speed: 0.25 });
  assert.deepEqual(await shown("slower"), hud("Speed 0.25, the slowest"));
});

test("the menu bar looks again after a command, and need not be there", async () => {
  await shown("stop");
  assert.deepEqual(world.shown.pop(), { kind: "launched", title: "speech-status" });
  assert.deepEqual(await shown("stop", { enabled: false }), hud("Nothing is spoken"));
});

// --- what goes wrong ------------------------------------------------------------------------

test("a player that does not run is told by every command, with how to start it", async () => {
  there.address = await nobody();
  for (const command of Object.keys(WITHOUT_VIEW)) {
    const [toast, ...others] = await shown(command, { selection: "One.", clipboard: "One." });
    assert.equal(toast!.title, "The player is not running.");
    assert.match(toast!.message!, /make up/);
    assert.equal(toast!.action, "Start Kokoro Live");
    assert.deepEqual(others, []);
  }
});

test("a token file that vanished is told", async () => {
  const dataFolder = folder();
  const file = join(dataFolder, "token");
  rmSync(file);
  const preferences = { address: fake.url, dataFolder, token: "" };
  const [toast] = await shown("stop", { preferences });
  assert.equal(toast!.title, "The token file is gone.");
  assert.ok(toast!.message!.endsWith(file));
  assert.equal(toast!.action, "Restart Kokoro Live");
});

test("an action for the preferences opens them", async () => {
  const [toast] = await shown("stop", { preferences: { address: "nonsense://" } });
  assert.equal(toast!.action, "Open Preferences");
  world.action!();
  await new Promise(setImmediate);
  assert.deepEqual(world.shown.slice(1), [
    { kind: "hidden", title: toast!.title },
    { kind: "preferences" },
  ]);
});

/** While `systemctl` is a program that does nothing and ends with this status. */
async function withSystemctl(status: number, body: () => Promise<void>): Promise<void> {
  const programs = folder();
  writeFileSync(join(programs, "systemctl"), `#!/bin/sh\nexit ${status}\n`, { mode: 0o755 });
  const path = process.env.PATH;
  process.env.PATH = programs;
  try {
    await body();
  } finally {
    process.env.PATH = path;
  }
}

const STARTS = [
  ["that works", 0, "Kokoro Live runs. Try again."],
  ["that does not", 1, "Kokoro Live could not be started: it is not installed as a service."],
] as const;

for (const [name, status, words] of STARTS) {
  test(`a start ${name} is told`, { skip: process.platform !== "linux" }, async () => {
    await withSystemctl(status, async () => {
      renew({ preferences: { ...there, address: await nobody() } });
      const pressed = press("stop", { toTheEnd: true });
      while (!world.action) await new Promise(setImmediate);
      world.preferences.address = ""; // from now on there is one
      world.action();
      await pressed; // it stays until its action is over
      const told = world.shown.filter(
        ({ kind, style }) => kind === "toast" && style !== "animated",
      );
      assert.deepEqual(
        told.map(({ title }) => title),
        ["The player is not running.", words],
      );
      const hidden = world.shown.filter(({ kind }) => kind === "hidden");
      assert.equal(hidden[0]!.title, "The player is not running.");
      const animated = world.shown.filter(({ style }) => style === "animated");
      assert.equal(hidden.length, 1 + animated.length, "a message was left behind");
    });
  });
}

test("the engine is waited for with a word, which is taken back", async () => {
  PATIENCE.quickMs = 30;
  try {
    const refused = { type: "error", code: "not_ready", message: "The engine starts." };
    fake.answers.repeat = ({ id }) => {
      // It answers when the word is there, however long that takes.
      const look = setInterval(() => {
        if (!world.shown.length) return;
        clearInterval(look);
        fake.say({ ...refused, reply_to: id });
      }, 1);
      return undefined;
    };
    // Who is kept from the processor for as long as the key is waited for tries again.
    for (let told: Shown[] = []; ;) {
      told = await shown("repeat-last");
      if (told[0]?.style === "failure") continue;
      assert.deepEqual(
        told.map(({ kind, title }) => [kind, title]),
        [
          ["toast", "Waiting for the engine …"],
          ["hidden", "Waiting for the engine …"],
          ["toast", "The engine starts."],
        ],
      );
      break;
    }
  } finally {
    PATIENCE.quickMs = 20_000;
  }
});

test("a fault of our own shows nothing of the text", async () => {
  fake.answers.speak = () => ({ type: "ack", item: 1 });
  fake.answers.status = () => ({ type: "state", state: "idle" });
  renew({ preferences: there });
  Object.defineProperty(world, "clipboard", {
    get: () => {
      throw new Error("secret text");
    },
  });
  await press("speak-clipboard");
  assert.doesNotMatch(JSON.stringify(world.shown), /secret/);
  assert.match(world.shown[0]!.title!, /fault of its own/);
});

// --- preferences ----------------------------------------------------------------------------

/** What each preference changes: two values, and what tells them apart. */
const EFFECTS: Record<string, () => Promise<void>> = {
  async whenBusy() {
    for (const [whenBusy, title] of [
      ["replace", "Speaking 3 characters"],
      ["queue", "Queued 3 characters"],
      ["toggle", "Speaking 3 characters"],
    ] as const) {
      fake.asked = [];
      const told = await shown("speak-clipboard", { clipboard: "Hi.", preferences: { whenBusy } });
      assert.deepEqual(told, hud(title));
      assert.equal(said().mode, whenBusy);
    }
    fake.answers.speak = () => ({ type: "ack" });
    const preferences = { whenBusy: "toggle" };
    assert.deepEqual(
      await shown("speak-clipboard", { clipboard: "Hi.", preferences }),
      hud("Stopped"),
    );
  },
  async clipboardFallback() {
    const preferences = { clipboardFallback: false };
    const [toast] = await shown("speak-selection", { clipboard: "Copied.", preferences });
    assert.equal(toast!.title, "Nothing is selected.");
    assert.deepEqual(fake.asked, []);
  },
  async voice() {
    await shown("speak-clipboard", { clipboard: "Hi." });
    assert.equal(said().voice, undefined);
    fake.asked = [];
    await shown("speak-clipboard", { clipboard: "Hi.", preferences: { voice: " bf_emma " } });
    assert.equal(said().voice, "bf_emma");
  },
  async speed() {
    await shown("speak-clipboard", { clipboard: "Hi." });
    assert.equal(said().speed, undefined);
    fake.asked = [];
    await shown("speak-clipboard", { clipboard: "Hi.", preferences: { speed: "1.5" } });
    assert.equal(said().speed, 1.5);
    assert.deepEqual(
      await shown("faster", { preferences: { speed: "1.5" } }),
      hud("Speed 1.1; texts from Raycast keep 1.5 of the preferences"),
    );
  },
  async speedStep() {
    assert.deepEqual(await shown("faster"), hud("Speed 1.1"));
    assert.deepEqual(
      await shown("slower", { preferences: { speedStep: "0.25" } }),
      hud("Speed 0.75"),
    );
  },
  async markdown() {
    for (const markdown of ["auto", "on", "off"]) {
      fake.asked = [];
      await shown("speak-clipboard", { clipboard: "Hi.", preferences: { markdown } });
      assert.deepEqual(said().options, { markdown });
    }
  },
  async confirm() {
    assert.deepEqual(await shown("stop", { preferences: { confirm: false } }), [
      { kind: "closed" },
    ]);
    const preferences = { confirm: false, address: await nobody() };
    assert.equal((await shown("stop", { preferences }))[0]!.style, "failure");
  },
  async address() {
    const other = await FakePlayer.start();
    await shown("stop", { preferences: { address: other.url } });
    assert.deepEqual([fake.types, other.types], [[], ["status", "stop"]]);
  },
  async dataFolder() {
    const other = await FakePlayer.start();
    const dataFolder = folder({ player: other.url, token_file: null });
    await shown("stop", { preferences: { dataFolder } });
    assert.deepEqual([fake.types, other.types], [[], ["status", "stop"]]);
  },
  async token() {
    await shown("stop", { preferences: { token: "another-token-of-mine" } });
    assert.deepEqual(fake.tokens, ["Bearer another-token-of-mine"]);
  },
  async unit() {
    fake.answers.status = () => SPEAKING;
    assert.deepEqual(await shown("skip-forward"), hud("Next sentence"));
    assert.deepEqual(
      await shown("skip-forward", { preferences: { unit: "item" } }),
      hud("Next text"),
    );
  },
  async showTitle() {
    fake.answers.status = () => SPEAKING;
    for (const [showTitle, title] of [
      [false, undefined],
      [true, "Speaking"],
    ]) {
      renew({ preferences: { ...there, showTitle } });
      const menu = await View.open("speech-status");
      assert.equal(menu.root.title, title);
      await menu.close();
    }
  },
};

for (const [name, effect] of Object.entries(EFFECTS)) {
  test(`the preference ${name} changes something`, effect);
}

test("there is a test for every preference", () => {
  assert.deepEqual(Object.keys(EFFECTS).sort(), ALL_PREFERENCES.map(({ name }) => name).sort());
});

// --- views ----------------------------------------------------------------------------------

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

// --- the manifest ---------------------------------------------------------------------------

test("the manifest names what is there", () => {
  const commands = [...Object.keys(WITH_VIEW), ...Object.keys(WITHOUT_VIEW)];
  assert.deepEqual(manifest.commands.map(({ name }) => name).sort(), commands.sort());
  for (const { name, mode } of manifest.commands) {
    assert.equal(mode === "no-view", name in WITHOUT_VIEW, name);
    assert.ok(
      ["ts", "tsx"].some((type) => existsSync(`src/${name}.${type}`)),
      name,
    );
  }
  const icon = readFileSync(`assets/${manifest.icon}`);
  assert.deepEqual([icon.readUInt32BE(16), icon.readUInt32BE(20)], [512, 512]);
});

test("the manifest keeps to the rules of Raycast", () => {
  assert.match(manifest.name, /^[a-z0-9-]+$/);
  for (const command of manifest.commands) {
    assert.match(command.name, /^[a-z0-9-]+$/);
    assert.ok(["view", "no-view", "menu-bar"].includes(command.mode));
    assert.ok(command.description.endsWith("."));
  }
  for (const preference of ALL_PREFERENCES as unknown as Record<string, unknown>[]) {
    const { name, type, data, default: value, label } = preference;
    const types = ["textfield", "password", "checkbox", "dropdown", "directory"];
    assert.ok(types.includes(type as string), `${name}`);
    if (type === "checkbox") assert.ok(typeof value === "boolean" && label, `${name}`);
    if (type === "dropdown") {
      const values = (data as { value: string }[]).map((one) => one.value);
      assert.ok(values.includes(value as string), `${name}`);
    }
  }
  for (const versions of [manifest.dependencies, manifest.devDependencies]) {
    for (const version of Object.values(versions)) assert.match(version, /^\d+\.\d+\.\d+$/);
  }
});
