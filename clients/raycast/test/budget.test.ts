/**
 * Who pressed a key has a message within half a second, by a clock that only the test moves: what is
 * told without waiting is told at 0 ms, and what is waited for has its limit.
 */

import assert from "node:assert/strict";
import test, { afterEach, beforeEach, mock } from "node:test";
import { press, View, WITHOUT_VIEW } from "./commands";
import { FakePlayer, folder, nobody, saysNothing, TOKEN, turnsAway } from "./fake-player";
import { renew, type Shown, world } from "./raycast";

const BUDGET_MS = 500;
/** No test takes so long, but one in which something hangs. */
const HANGS = { timeout: 20_000 };

beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"], now: 1 }));
afterEach(() => mock.timers.reset());

/** Waits, by no clock, until something is so. */
async function until(so: () => unknown): Promise<void> {
  while (!so()) await new Promise(setImmediate);
}

/** Time passes, and what is due is done in its turn. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 50) {
    mock.timers.tick(50);
    await new Promise(setImmediate);
  }
}

/** The commands that need nothing but the player; each is told as the user of `wish` would be. */
async function eachCommand(
  preferences: Record<string, unknown>,
  meanwhile: () => Promise<void>,
  check: (told: Shown, command: string) => void,
): Promise<void> {
  for (const command of Object.keys(WITHOUT_VIEW)) {
    const began = Date.now();
    renew({ preferences, selection: "One.", clipboard: "One." });
    const pressed = press(command, { toTheEnd: true });
    await meanwhile();
    await until(() => world.shown.length);
    assert.ok(Date.now() - began <= BUDGET_MS, `${command}: ${Date.now() - began} ms`);
    check(world.shown[0]!, command);
    let over = false;
    void pressed.then(() => (over = true));
    // It does not stay for ever: what it waits for has an end, and so has what its message offers.
    await until(() => (mock.timers.tick(1000), over));
    assert.ok(Date.now() - began < 60_000);
  }
}

/** No time passes. */
async function atOnce() {}

test("a player that does not run is told at once", HANGS, async () => {
  const address = await nobody();
  await eachCommand({ address, token: TOKEN, dataFolder: folder() }, atOnce, ({ title }) =>
    assert.equal(title, "The player is not running."),
  );
});

test("a token that is wrong is told at once", HANGS, async () => {
  const address = await turnsAway(401);
  await eachCommand({ address, token: TOKEN, dataFolder: folder() }, atOnce, ({ title }) =>
    assert.match(title!, /does not accept the token/),
  );
});

test("a player that takes connections and never answers is told in time", HANGS, async () => {
  let connected = 0;
  const address = await saysNothing(() => (connected += 1));
  const meanwhile = async () => {
    await until(() => connected);
    connected = 0;
    await pass(BUDGET_MS);
  };
  await eachCommand({ address, token: TOKEN, dataFolder: folder() }, meanwhile, ({ title }) =>
    assert.equal(title, "The player does not answer."),
  );
});

test("the time is one for all that is waited for", HANGS, async () => {
  const fake = await FakePlayer.start();
  fake.greeting = undefined;
  for (const type of ["toggle", "status", "stop", "skip", "configure", "speak", "repeat"]) {
    fake.answers[type] = () => undefined;
  }
  const socket = () =>
    new Promise<{ send: (text: string) => void }>((done) => (fake.onConnection = done));
  let connected = socket();
  const meanwhile = async () => {
    const one = await connected;
    connected = socket();
    await pass(300); // it has its time to let us in …
    fake.asked = [];
    one.send('{"type": "ready", "protocol": "kokoro.v1"}');
    await until(() => fake.asked.length);
    await pass(BUDGET_MS - 300); // … and what is left of it to answer
  };
  const preferences = { address: fake.url, token: TOKEN, dataFolder: folder() };
  await eachCommand(preferences, meanwhile, ({ title }, command) => {
    // What the engine is asked for may take longer, and that is told.
    const slow = ["speak-selection", "speak-clipboard", "repeat-last"].includes(command);
    assert.equal(title, slow ? "Waiting for the engine …" : "The player does not answer.");
  });
});

test("nothing to speak is told at once", HANGS, async () => {
  for (const [command, clipboardFallback, title] of [
    ["speak-selection", true, "Nothing is selected, and the clipboard holds no text."],
    ["speak-selection", false, "Nothing is selected."],
    ["speak-clipboard", true, "The clipboard holds no text."],
  ] as const) {
    const address = await saysNothing();
    renew({ preferences: { address, dataFolder: folder(), clipboardFallback } });
    await press(command, { toTheEnd: true });
    assert.equal(world.shown[0]!.title, title);
  }
});

test("the menu too has its say in time", HANGS, async () => {
  let connected = false;
  const address = await saysNothing(() => (connected = true));
  renew({ preferences: { address, token: TOKEN, dataFolder: folder() } });
  const opened = View.open("speech-status");
  await until(() => connected);
  await pass(BUDGET_MS);
  const menu = await opened;
  assert.equal(menu.lines[0], "The player does not answer.");
  await menu.close();
});
