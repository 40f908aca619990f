/** The commands as a person sees them: what they ask, and what they show. */

import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { PATIENCE } from "../src/player/conversation";
import { press, WITHOUT_VIEW } from "./commands";
import { folder, nobody, SPEAKING } from "./fake-player";
import { renew, type Shown, world } from "./raycast";
import { fake, hud, said, shown, there, withSystemctl } from "./setup";

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
