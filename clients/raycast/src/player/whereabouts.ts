/** Where the player is and which token it wants: the files that kokoro-live keeps for its clients. */

import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { Failure, notRunning } from "./failure";

export type Role = "player" | "engine";

/** What the preferences say instead of the files; what is missing or empty they do not say. */
export interface Whereabouts {
  /** Of the player. */
  address?: string;
  dataFolder?: string;
  token?: string;
}

/** All that is needed to connect. */
export interface Access {
  role: Role;
  url: string;
  token: string;
  /** Whether the token came from a file, so that a restart of kokoro-live mends it. */
  filed: boolean;
}

/** The machine; tests have another one. */
export interface Machine {
  platform: string;
  home: string;
  environment: Record<string, string | undefined>;
}

const DISCOVERY_FILE = "kokoro-live.json";
const TOKEN_FILE = "token";
/** More than either file ever has. */
const MAX_BYTES = 65_536;
/** The characters that a token may have. */
const TOKEN = /^[\w.~+-]+$/;

const thisMachine = (): Machine => ({
  platform: process.platform,
  home: homedir(),
  environment: process.env,
});

/** The folder in which kokoro-live keeps its token and tells what runs. */
export function dataFolder(where: Whereabouts, machine: Machine = thisMachine()): string {
  const { environment, home, platform } = machine;
  if (where.dataFolder) return where.dataFolder;
  if (environment.KOKORO_LIVE_DATA_DIR) return environment.KOKORO_LIVE_DATA_DIR;
  if (platform === "darwin") return join(home, "Library", "Application Support", "kokoro-live");
  return join(environment.XDG_DATA_HOME || join(home, ".local", "share"), "kokoro-live");
}

/** Whether the address that was given is another machine's. */
export function isElsewhere({ address }: Whereabouts): boolean {
  if (!address || !URL.canParse(address)) return false;
  return !/^(|localhost|127(\.\d+){3}|\[::1\])$/.test(new URL(address).hostname);
}

/**
 * How to reach the player or the engine: by the preferences, else the environment, else the files.
 *
 * Throws a `Failure` if they do not say, or if a file must not be trusted.
 */
export function access(role: Role, where: Whereabouts, machine: Machine = thisMachine()): Access {
  const folder = dataFolder(where, machine);
  const told = announcement(join(folder, DISCOVERY_FILE));
  const address = role === "player" ? where.address?.trim() : undefined;
  const url = address ? checked(address) : told?.[role];
  if (!url) throw notRunning(role);
  const set = where.token || machine.environment.KOKORO_LIVE_TOKEN;
  if (set) return { role, url, token: sound(set, "preferences"), filed: false };
  if (told?.token_file === null) {
    throw new Failure(
      "The token of kokoro-live is a setting, which is in no file.",
      "Paste it into the preferences of this extension.",
      "preferences",
    );
  }
  const file = told?.token_file ?? join(folder, TOKEN_FILE);
  return { role, url, token: sound(read(file) ?? gone(file), "restart"), filed: true };
}

interface Announcement {
  token_file?: string | null;
  player?: string | null;
  engine?: string | null;
}

/** What the file says that runs; undefined if there is no file. */
function announcement(file: string): Announcement | undefined {
  const text = read(file);
  if (text === undefined) return undefined;
  try {
    const told: unknown = JSON.parse(text);
    if (typeof told === "object" && told !== null) return told;
  } catch {
    // it is told below
  }
  throw new Failure(
    "The file by which kokoro-live is found is damaged.",
    `Start kokoro-live anew, which writes it: ${file}`,
    "restart",
  );
}

function gone(file: string): never {
  throw new Failure(
    "The token file is gone.",
    `Start kokoro-live anew, which makes another one: ${file}`,
    "restart",
  );
}

function sound(token: string, remedy: "preferences" | "restart"): string {
  const trimmed = token.trim();
  if (TOKEN.test(trimmed)) return trimmed;
  throw remedy === "preferences"
    ? new Failure(
        "The token of the preferences is none.",
        "It has letters, digits and . _ ~ + - only; paste it once more.",
        remedy,
      )
    : new Failure(
        "The token file does not hold a token.",
        "Remove it and start kokoro-live anew, which makes another one.",
        remedy,
      );
}

function checked(address: string): string {
  const url = address.includes("://") ? address : `ws://${address}`;
  try {
    if (/^wss?:$/.test(new URL(url).protocol)) return url;
  } catch {
    // it is told below
  }
  throw new Failure(
    "The player address in the preferences is none.",
    "It looks like ws://127.0.0.1:8882/; leave it empty for the player on this machine.",
    "preferences",
  );
}

/**
 * The text of a file of this user; undefined if there is none.
 *
 * Not through a link, and not of somebody else: who could write it would be shown our token.
 */
function read(path: string): string | undefined {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  let file: number;
  try {
    file = openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw untrusted(path, code === "ELOOP" ? "it is a link" : "it cannot be read");
  }
  try {
    const found = fstatSync(file);
    if (!found.isFile()) throw untrusted(path, "it is no file");
    if (found.uid !== process.getuid?.()) throw untrusted(path, "it is another user's");
    const bytes = Buffer.alloc(MAX_BYTES);
    return bytes.toString("utf8", 0, readSync(file, bytes, 0, MAX_BYTES, 0));
  } finally {
    closeSync(file);
  }
}

function untrusted(path: string, why: string): Failure {
  return new Failure(
    `A file of kokoro-live cannot be used: ${why}.`,
    `Remove it and start kokoro-live anew: ${path}`,
    "restart",
  );
}
