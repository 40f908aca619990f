import assert from "node:assert/strict";
import test from "node:test";
import { Player } from "../src/player/player";
import { type Run, start, type Starter } from "../src/player/start";
import { FakePlayer, folder, TOKEN } from "./fake-player";

const LONG = { quickMs: 20_000, engineMs: 20_000 };

const MACHINE: Starter = {
  run: async () => {},
  sleep: async () => {},
  platform: "linux",
  uid: 501,
};

async function commands(platform: string, anew: boolean): Promise<string[]> {
  const fake = await FakePlayer.start();
  const player = new Player({ address: fake.url, token: TOKEN, dataFolder: folder() }, LONG);
  const ran: string[] = [];
  const run: Run = async (...words) => void ran.push(words.join(" "));
  await start({ anew, player }, { ...MACHINE, run, platform });
  assert.ok(fake.types.includes("status"), "it was not looked whether it runs");
  return ran;
}

test("launchd starts the services of the user", async () => {
  const kickstart = "/bin/launchctl kickstart gui/501/kokoro-live.";
  assert.deepEqual(
    await commands("darwin", false),
    ["engine", "player", "http"].map((name) => kickstart + name),
  );
  assert.match((await commands("darwin", true))[1]!, /kickstart -k gui\/501\/kokoro-live.player$/);
});

test("systemd does it with one command", async () => {
  const units = "kokoro-live-engine.service kokoro-live-player.service kokoro-live-http.service";
  assert.deepEqual(await commands("linux", false), [`systemctl --user start ${units}`]);
  assert.deepEqual(await commands("linux", true), [`systemctl --user restart ${units}`]);
});

test("a player on another machine is not started here", async () => {
  for (const address of ["ws://192.168.1.5:8882", "wss://speech.example", "ws://[fd00::1]:8882"]) {
    const player = new Player({ address });
    const run: Run = () => Promise.reject(new Error("it ran"));
    await assert.rejects(start({ anew: false, player }, { ...MACHINE, run }), {
      message: /on another machine/,
      remedy: "preferences",
    });
  }
  for (const address of ["", "ws://localhost:1", "ws://127.0.0.1:1", "ws://[::1]:1", "nonsense:"])
    assert.equal(new Player({ address }).elsewhere, false, address);
});

test("services that are not installed are told, with how to install them", async () => {
  const run: Run = () => Promise.reject(new Error("113"));
  const machine = { ...MACHINE, run };
  await assert.rejects(start({ anew: false, player: new Player() }, machine), {
    message: /not installed as a service/,
    help: /--install-service/,
  });
});

test("a player that does not come up is told after ten seconds", async () => {
  const player = new Player({ dataFolder: folder() });
  let waitedMs = 0;
  const machine = { ...MACHINE, sleep: async (ms: number) => void (waitedMs += ms) };
  await assert.rejects(start({ anew: false, player }, machine), {
    message: "The player is not running.",
  });
  assert.equal(waitedMs, 10_000);
});
