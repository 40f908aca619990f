/**
 * The messages of kokoro.v1 that are used here; docs/protocol.md of kokoro-live has all of them.
 *
 * The only module that knows what is on the wire. Fields and types that it does not know are left
 * alone, as the protocol wants it.
 */

export const PROTOCOL = "kokoro.v1";

/** What becomes of the speech that is there when a text comes. */
export type Mode = "replace" | "queue" | "toggle";
export type Markdown = "auto" | "on" | "off";

export type Request =
  | {
      type: "speak";
      text: string;
      mode: Mode;
      voice?: string;
      speed?: number;
      options?: { markdown: Markdown };
    }
  | { type: "pause" | "resume" | "toggle" | "stop" | "repeat" | "status" | "voices" }
  | { type: "skip"; unit: "sentence" | "item"; n: number }
  | { type: "configure"; voice?: string; speed?: number }
  | { type: "queue"; op: "list" };

export interface Ack {
  type: "ack";
  /** Of what will be spoken, if anything will. */
  item?: number;
}

/** What the player does. */
export interface State {
  type: "state";
  state: "idle" | "buffering" | "playing" | "paused" | "recovering";
  item?: number;
  queue_len: number;
  /** Missing while there is no sound device. */
  device?: string | null;
  /** Of texts that name none; missing if it is the engine's choice. */
  voice?: string | null;
  speed?: number | null;
}

export interface Queue {
  type: "queue";
  items: { item: number; chars: number; waits: boolean }[];
  more?: number;
}

export interface Voice {
  id: string;
  name: string;
  lang: string;
  gender?: string;
  grade?: string;
  /** A sentence in its language. */
  preview?: string;
  /** Why its language cannot be read here, and what helps. */
  unreadable?: string;
}

export interface Voices {
  type: "voices";
  voices: Voice[];
}

export interface Refusal {
  type: "error";
  code: string;
  message: string;
  fatal?: boolean;
}

export type Answer = Ack | State | Queue | Voices;

/** A message as it came: any of those above, or one of a newer kokoro-live. */
export interface Received {
  type: string;
  reply_to?: string;
}

/** The text of a request; `id` is what its answer will carry as `reply_to`. */
export function encode(request: Request, id: string): string {
  return JSON.stringify({ ...request, id });
}

/** A message that came, or undefined if it is none. */
export function decode(text: string): Received | undefined {
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return undefined;
  }
  const known = message as Received | null;
  return typeof known === "object" && typeof known?.type === "string" ? known : undefined;
}
