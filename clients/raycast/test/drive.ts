/**
 * Runs commands for a test in another language: a JSON object a line in, one a line out.
 *
 * In: `command`, and of `preferences`, `selection`, `clipboard`, `launch`, `choose` (titles of
 * actions), `within`, `values`. Out: `shown`, and of a view its `lines`.
 */

import { createInterface } from "node:readline";
import { PATIENCE } from "../src/player/conversation";
import { type Launch, press, View, WITHOUT_VIEW } from "./commands";
import { renew, type Shown } from "./raycast";

interface Wish {
  command: string;
  preferences?: Record<string, unknown>;
  selection?: string;
  clipboard?: string;
  launch?: Launch;
  choose?: string[];
  within?: string;
  values?: Record<string, string>;
}

async function done(wish: Wish): Promise<{ shown: Shown[]; lines?: string[] }> {
  const world = renew(wish);
  if (wish.command in WITHOUT_VIEW) {
    await press(wish.command);
    return { shown: world.shown };
  }
  const view = await View.open(wish.command, wish.launch);
  // a text that is given at the start is spoken by itself
  while (wish.launch && !world.shown.length) await new Promise((next) => setTimeout(next, 1));
  for (const title of wish.choose ?? []) {
    await view.choose(title, { within: wish.within, values: wish.values });
  }
  const { lines } = view;
  await view.close();
  return { shown: world.shown, lines };
}

async function main() {
  PATIENCE.quickMs = Number(process.env.QUICK_MS ?? PATIENCE.quickMs);
  for await (const line of createInterface({ input: process.stdin })) {
    process.stdout.write(`${JSON.stringify(await done(JSON.parse(line)))}\n`);
  }
  process.exit(); // not when the last command would be unloaded
}

void main();
