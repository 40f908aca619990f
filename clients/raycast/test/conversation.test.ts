/** How it goes wrong: each is told in one sentence, in time, and never hangs. */

import assert from "node:assert/strict";
import test from "node:test";
import { converse, type Patience, PATIENCE } from "../src/player/conversation";
import { Failure } from "../src/player/failure";
import type { Access } from "../src/player/whereabouts";
import { FakePlayer, nobody, saysNothing, TOKEN, turnsAway } from "./fake-player";

/** Of who waits for what never comes; how long it is does not matter. */
const SHORT: Patience = { quickMs: 40, engineMs: 60 };
/** Of who waits for what comes; a busy machine may take its time. */
const LONG: Patience = { quickMs: 20_000, engineMs: 20_000 };

function at(url: string, filed = true): Access {
  return { role: "player", url, token: TOKEN, filed };
}

async function status(access: Access, patience: Patience): Promise<unknown> {
  return await converse(access, (player) => player.ask({ type: "status" }, "state"), patience);
}

async function failure(attempt: Promise<unknown>): Promise<Failure> {
  const outcome = await attempt.then(
    () => undefined,
    (error: unknown) => error,
  );
  assert.ok(outcome instanceof Failure, String(outcome));
  return outcome;
}

test("who pressed a key waits less than half a second, and for the engine a little longer than the player", () => {
  assert.deepEqual(PATIENCE, { quickMs: 400, engineMs: 12_000 });
});

test("a request has its answer, and the token goes where no log looks", async () => {
  const player = await FakePlayer.start();
  const state = await status(at(player.url), LONG);
  assert.equal((state as { state: string }).state, "idle");
  assert.deepEqual(player.tokens, [`Bearer ${TOKEN}`]);
});

test("nobody there", async () => {
  const { message, help, remedy } = await failure(status(at(await nobody()), LONG));
  assert.equal(message, "The player is not running.");
  assert.match(help, /make up/);
  assert.equal(remedy, "start");
});

test("somebody there who says nothing", async () => {
  const { message, remedy } = await failure(status(at(await saysNothing()), SHORT));
  assert.equal(message, "The player does not answer.");
  assert.equal(remedy, "restart");
});

test("a player that never is ready", async () => {
  const player = await FakePlayer.start();
  player.greeting = undefined;
  assert.match((await failure(status(at(player.url), SHORT))).message, /does not answer/);
});

test("a player that does not answer a request", async () => {
  const player = await FakePlayer.start();
  player.answers.status = () => undefined;
  // The time in which it must be ready is the same, so a busy machine may fail there already.
  assert.match((await failure(status(at(player.url), SHORT))).message, /does not answer/);
});

test("an engine that does not answer is waited for longer, and is who is named", async () => {
  const player = await FakePlayer.start();
  player.answers.repeat = () => undefined;
  const asked = converse(
    at(player.url),
    (one) => one.ask({ type: "repeat" }, "ack", { slow: true }),
    { ...LONG, engineMs: 40 },
  );
  assert.equal((await failure(asked)).message, "The engine does not answer.");
});

for (const [status_, filed, message, remedy] of [
  [401, true, /does not accept the token of the token file/, "restart"],
  [401, false, /does not accept the token of the preferences/, "preferences"],
  [403, true, /does not let us in/, "preferences"],
  [404, true, /no player of kokoro-live \(HTTP 404\)/, "preferences"],
  [503, true, /is busy/, undefined],
] as const) {
  test(`HTTP ${status_}, token ${filed ? "of the file" : "of the preferences"}`, async () => {
    const turnedAway = await failure(status(at(await turnsAway(status_), filed), LONG));
    assert.match(turnedAway.message, message);
    assert.equal(turnedAway.remedy, remedy);
  });
}

test("a player that hangs up", async () => {
  const player = await FakePlayer.start();
  player.greeting = undefined;
  player.onConnection = (socket) => socket.close(1013);
  assert.match((await failure(status(at(player.url), LONG))).message, /closed the connection/);
  player.greeting = { type: "ready" };
  player.onConnection = (socket) => socket.once("message", () => socket.terminate());
  assert.match((await failure(status(at(player.url), LONG))).message, /closed|broke/);
});

test("what the player says is wrong is told in its words", async () => {
  const player = await FakePlayer.start();
  player.answers.status = () => ({ type: "error", code: "overloaded", message: "Come later." });
  assert.equal((await failure(status(at(player.url), LONG))).message, "Come later.");
  player.answers.status = () => ({ type: "error", code: "not_ready", message: "No engine." });
  assert.equal((await failure(status(at(player.url), LONG))).remedy, "start");
  player.answers.status = () => ({ type: "error", code: "unknown_voice", message: "No voice." });
  assert.equal((await failure(status(at(player.url), LONG))).remedy, "preferences");
});

test("a fatal error ends all that was asked", async () => {
  const player = await FakePlayer.start();
  player.answers.status = () => undefined;
  player.answers.stop = () => ({
    type: "error",
    code: "overloaded",
    message: "Too many messages.",
    fatal: true,
    reply_to: undefined,
  });
  const both = converse(
    at(player.url),
    (one) => Promise.all([one.ask({ type: "status" }, "state"), one.ask({ type: "stop" }, "ack")]),
    LONG,
  );
  assert.equal((await failure(both)).message, "Too many messages.");
});

test("what a newer player says besides is left alone", async () => {
  const player = await FakePlayer.start();
  player.onConnection = (socket) => {
    socket.send("no JSON");
    socket.send("null");
    socket.send(Buffer.from([1, 2, 3]));
    socket.send('{"type": "weather", "reply_to": "raycast-1"}');
    socket.send('{"type": "ack", "reply_to": "somebody"}');
  };
  assert.ok(await status(at(player.url), LONG));
});
