import assert from "node:assert/strict";
import { chmodSync, chownSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import test from "node:test";
import { Failure } from "../src/player/failure";
import { access, dataFolder, type Machine } from "../src/player/whereabouts";
import { folder, TOKEN } from "./fake-player";

const PLAYER = "ws://127.0.0.1:8882/";
const MAC: Machine = { platform: "darwin", home: "/Users/me", environment: {} };
const LINUX: Machine = { platform: "linux", home: "/home/me", environment: {} };

function told(changes: object = {}): object {
  return { protocol: "kokoro.v1", token_file: null, player: PLAYER, ...changes };
}

function failure(attempt: () => unknown): Failure {
  try {
    attempt();
  } catch (error) {
    assert.ok(error instanceof Failure);
    return error;
  }
  assert.fail("nothing was thrown");
}

test("the data folder is the platform's, unless environment or preferences name another", () => {
  assert.equal(dataFolder({}, MAC), "/Users/me/Library/Application Support/kokoro-live");
  assert.equal(dataFolder({}, LINUX), "/home/me/.local/share/kokoro-live");
  const xdg = { ...LINUX, environment: { XDG_DATA_HOME: "/data" } };
  assert.equal(dataFolder({}, xdg), "/data/kokoro-live");
  const named = { ...MAC, environment: { KOKORO_LIVE_DATA_DIR: "/elsewhere" } };
  assert.equal(dataFolder({}, named), "/elsewhere");
  assert.equal(dataFolder({ dataFolder: "/mine" }, named), "/mine");
});

test("address and token are those of the files", () => {
  const dataFolder = folder(told({ engine: "ws://127.0.0.1:1/" }));
  const file = join(dataFolder, "token");
  writeFileSync(join(dataFolder, "kokoro-live.json"), JSON.stringify(told({ token_file: file })));
  assert.deepEqual(access("player", { dataFolder }, LINUX), {
    role: "player",
    url: PLAYER,
    token: TOKEN,
    filed: true,
  });
});

test("the token file may be elsewhere", () => {
  const other = folder(undefined, "another-token-than-that");
  const dataFolder = folder(told({ token_file: join(other, "token") }));
  assert.equal(access("player", { dataFolder }, LINUX).token, "another-token-than-that");
});

test("the preferences come before the files, and the environment between them", () => {
  const dataFolder = folder(told());
  const machine = { ...LINUX, environment: { KOKORO_LIVE_TOKEN: "from-the-environment" } };
  const where = { dataFolder, address: " wss://far.example/ ", token: "from-the-preferences" };
  const found = access("player", where, machine);
  assert.deepEqual(
    [found.url, found.token, found.filed],
    ["wss://far.example/", "from-the-preferences", false],
  );
  assert.equal(access("player", { dataFolder }, machine).token, "from-the-environment");
  assert.equal(
    access("player", { ...where, address: "localhost:8882" }, machine).url,
    "ws://localhost:8882",
  );
});

test("nobody announced is nobody running", () => {
  for (const dataFolder of ["/nowhere", folder(), folder(told({ player: null }))]) {
    const { message, remedy } = failure(() => access("player", { dataFolder }, LINUX));
    assert.deepEqual([message, remedy], ["The player is not running.", "start"]);
  }
  assert.match(
    failure(() => access("engine", { dataFolder: folder(told()) }, LINUX)).message,
    /engine/,
  );
});

test("a token that is a setting has to be pasted", () => {
  const { message, remedy } = failure(() =>
    access("player", { dataFolder: folder(told()) }, LINUX),
  );
  assert.match(message, /setting/);
  assert.equal(remedy, "preferences");
});

test("a token file that vanished, or holds none, is told with what to do", () => {
  const empty = folder(undefined, "");
  const dataFolder = folder(told({ token_file: join(empty, "token") }));
  assert.match(failure(() => access("player", { dataFolder }, LINUX)).message, /gone/);
  writeFileSync(join(empty, "token"), "no token at all\n");
  const { message, remedy } = failure(() => access("player", { dataFolder }, LINUX));
  assert.match(message, /does not hold a token/);
  assert.equal(remedy, "restart");
  const where = { dataFolder, token: "no\r\ntoken" };
  assert.equal(failure(() => access("player", where, LINUX)).remedy, "preferences");
});

test("what is in the way of a file is told", () => {
  const damaged = folder();
  writeFileSync(join(damaged, "kokoro-live.json"), '{"player": ');
  assert.match(failure(() => access("player", { dataFolder: damaged }, LINUX)).message, /damaged/);
  const linked = folder();
  symlinkSync(join(folder(told()), "kokoro-live.json"), join(linked, "kokoro-live.json"));
  assert.match(failure(() => access("player", { dataFolder: linked }, LINUX)).message, /a link/);
  const strange = folder();
  mkdirSync(join(strange, "kokoro-live.json"));
  assert.match(failure(() => access("player", { dataFolder: strange }, LINUX)).message, /no file/);
});

test("a file of somebody else is not believed", { skip: process.getuid?.() !== 0 }, () => {
  const dataFolder = folder(told());
  chownSync(join(dataFolder, "kokoro-live.json"), 4711, 4711);
  assert.match(failure(() => access("player", { dataFolder }, LINUX)).message, /another user/);
});

test("a file that cannot be read is told", { skip: process.getuid?.() === 0 }, () => {
  const dataFolder = folder(told());
  chmodSync(join(dataFolder, "kokoro-live.json"), 0);
  assert.match(failure(() => access("player", { dataFolder }, LINUX)).message, /cannot be read/);
});

test("an address that is none is told", () => {
  for (const address of ["http://127.0.0.1:8882/", "ws://", "::::"]) {
    const where = { dataFolder: folder(told()), address, token: TOKEN };
    const { message, remedy } = failure(() => access("player", where, LINUX));
    assert.match(message, /player address/);
    assert.equal(remedy, "preferences");
  }
});
