/** Starts the services of kokoro-live, which `playerd --install-service` has installed. */

import { execFile } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "./failure";
import type { Player } from "./player";

/** Runs a program to its end; rejects if it fails. */
export type Run = (program: string, ...words: string[]) => Promise<void>;

const SERVICES = ["engine", "player", "http"];
/** systemd waits until a service is ready. */
const PROGRAM_MS = 20_000;
/** How long the player may take to listen, and how often to look. */
const LISTENS_MS = 10_000;
const LOOK_AGAIN_MS = 250;

const run: Run = (program, ...words) =>
  new Promise((resolve, reject) => {
    execFile(program, words, { timeout: PROGRAM_MS }, (error) =>
      error ? reject(error) : resolve(),
    );
  });

/** The machine; tests have another one. */
export interface Starter {
  run: Run;
  sleep: (ms: number) => Promise<unknown>;
  platform: string;
  uid: number;
}

const thisMachine = (): Starter => ({
  run,
  sleep,
  platform: process.platform,
  uid: process.getuid?.() ?? 0,
});

/**
 * Starts what does not run, or all of it anew, and waits until the player answers.
 *
 * Throws a `Failure` if the services are not installed, or do not come up.
 */
export async function start(
  { anew, player }: { anew: boolean; player: Player },
  machine: Starter = thisMachine(),
): Promise<void> {
  if (player.elsewhere) {
    throw new Failure(
      "The player is to be on another machine, as the preference Player Address says.",
      "Start it there, or empty the preference.",
      "preferences",
    );
  }
  try {
    if (machine.platform === "darwin") {
      for (const name of SERVICES) {
        const service = `gui/${machine.uid}/kokoro-live.${name}`;
        const kick = machine.run("/bin/launchctl", "kickstart", ...(anew ? ["-k"] : []), service);
        // Without the others there is no speech, or only here; that is told by who needs them.
        await (name === "player" ? kick : kick.catch(() => {}));
      }
    } else {
      const units = SERVICES.map((name) => `kokoro-live-${name}.service`);
      await machine.run("systemctl", "--user", anew ? "restart" : "start", ...units);
    }
  } catch {
    throw new Failure(
      "Kokoro Live could not be started: it is not installed as a service.",
      "Run `.venv/bin/python -m playerd --install-service` in its folder, or `make up` there.",
    );
  }
  for (let waited = 0; ; waited += LOOK_AGAIN_MS) {
    try {
      await player.glance();
      return;
    } catch (error) {
      if (waited >= LISTENS_MS) throw error;
    }
    await machine.sleep(LOOK_AGAIN_MS);
  }
}
