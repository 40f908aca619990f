/** What the tests of the commands begin with: a fake player, and preferences that lead to it. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { before, beforeEach } from "node:test";
import { PATIENCE } from "../src/player/conversation";
import { press } from "./commands";
import { FakePlayer, folder, TOKEN } from "./fake-player";
import { renew, type Shown, world } from "./raycast";

/** Of this test. */
export let fake: FakePlayer;
/** Preferences that lead to it. */
export let there: Record<string, unknown>;

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
export async function shown(
  command: string,
  user: Parameters<typeof renew>[0] = {},
): Promise<Shown[]> {
  renew({ ...user, preferences: { ...there, ...user.preferences } });
  await press(command);
  return world.shown.filter(({ kind }) => kind !== "launched");
}

export function hud(title: string): Shown[] {
  return [{ kind: "hud", title }];
}

export function said(): Record<string, unknown> {
  return fake.asked.find(({ type }) => type === "speak")!;
}

/** While `systemctl` is a program that does nothing and ends with this status. */
export async function withSystemctl(status: number, body: () => Promise<void>): Promise<void> {
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
