/** What the commands ask of the player. Each is a connection of its own, and can be repeated. */

import { type Conversation, converse, type Patience, PATIENCE } from "./conversation";
import { Failure, failureOf } from "./failure";
import type { Markdown, Mode, Queue, State, Voice } from "./messages";
import { characters, isSpoken, pieces } from "./pieces";
import { access, isElsewhere, type Whereabouts } from "./whereabouts";

/** How a text is spoken; what is missing is the player's own choice. */
export interface Manner {
  mode: Mode;
  voice?: string;
  speed?: number;
  markdown?: Markdown;
}

/** What became of a text. */
export interface Spoken {
  outcome: "speaking" | "queued" | "stopped";
  characters: number;
  /** Whether it waits because there is no sound device. */
  unheard: boolean;
}

/** What the menu bar shows. */
export interface Glance {
  state: State;
  queue: Queue;
}

/** A text that is longer is a mistake: it would be spoken for most of a day. */
export const MAX_CHARS = 1_000_000;

export const MIN_SPEED = 0.25;
export const MAX_SPEED = 4;
/** What is spoken at when nobody has named a speed, as far as the player knows. */
const NATURAL_SPEED = 1;

/** The player that runs. All methods throw a `Failure` if it cannot be done. */
export class Player {
  constructor(
    private readonly where: Whereabouts = {},
    private readonly patience: Patience = PATIENCE,
  ) {}

  /** Whether the preferences name a player on another machine. */
  get elsewhere(): boolean {
    return isElsewhere(this.where);
  }

  /**
   * Has a text spoken, and returns when the player has taken it.
   *
   * A long one goes in pieces that wait in the queue behind the first: a text that is appended
   * (`open`) would need us until it is nearly spoken, and a command is gone at once.
   */
  async speak(text: string, manner: Manner): Promise<Spoken> {
    const length = characters(text);
    if (!text.trim()) throw new Failure("There is no text to speak.");
    if (!isSpoken(text)) {
      throw new Failure("There is nothing to speak: emoji and marks are left out.");
    }
    if (length > MAX_CHARS) {
      throw new Failure(
        `The text has ${countOfCharacters(length)}, and ${count(MAX_CHARS)} may be spoken at once.`,
        "Speak a part of it.",
      );
    }
    return await this.talk(async (player) => {
      const [first, ...rest] = pieces(text).filter((piece) => piece.trim());
      const ask = async (text: string, mode: Mode) =>
        await player.ask(speech(text, { ...manner, mode }), "ack", { slow: true });
      const { item } = await ask(first!, manner.mode);
      if (item === undefined) return { outcome: "stopped", characters: length, unheard: false };
      try {
        await Promise.all(rest.map((piece) => ask(piece, "queue")));
      } catch (error) {
        const { message, help } = failureOf(error);
        throw new Failure(`Only the beginning of the text is spoken. ${message}`, help);
      }
      const { device } = await player.ask({ type: "status" }, "state", { slow: true });
      return {
        outcome: manner.mode === "queue" ? "queued" : "speaking",
        characters: length,
        unheard: device == null,
      };
    });
  }

  /** Pauses, or goes on; gives what is so afterwards. */
  async toggle(): Promise<State> {
    return await this.talk(async (player) => {
      const [, state] = await Promise.all([
        player.ask({ type: "toggle" }, "ack"),
        player.ask({ type: "status" }, "state"),
      ]);
      return state;
    });
  }

  /** Silence, and an empty queue; gives whether there was anything to stop. */
  async stop(): Promise<boolean> {
    return await this.talk(async (player) => {
      const [state] = await Promise.all([
        player.ask({ type: "status" }, "state"),
        player.ask({ type: "stop" }, "ack"),
      ]);
      return isBusy(state);
    });
  }

  /** Goes on so many sentences or texts later; gives whether anything is spoken. */
  async skip(n: number, unit: "sentence" | "item" = "sentence"): Promise<boolean> {
    return await this.talk(async (player) => {
      const [state] = await Promise.all([
        player.ask({ type: "status" }, "state"),
        player.ask({ type: "skip", unit, n }, "ack"),
      ]);
      return isBusy(state);
    });
  }

  /** Speaks once more what is spoken, or was last. */
  async repeat(): Promise<void> {
    await this.talk((player) => player.ask({ type: "repeat" }, "ack", { slow: true }));
  }

  /** Changes the speed by a step, as far as there are such speeds; gives the speed. */
  async faster(step: number): Promise<number> {
    return await this.talk(async (player) => {
      const { speed } = await player.ask({ type: "status" }, "state");
      const wanted = (speed ?? NATURAL_SPEED) + step;
      const changed = Math.round(Math.min(Math.max(wanted, MIN_SPEED), MAX_SPEED) * 100) / 100;
      await player.ask({ type: "configure", speed: changed }, "ack");
      return changed;
    });
  }

  /** Voice of what is not begun, and of texts that name none. */
  async useVoice(voice: string): Promise<void> {
    await this.talk((player) => player.ask({ type: "configure", voice }, "ack", { slow: true }));
  }

  /** What it does. */
  async glance(): Promise<Glance> {
    return await this.talk(async (player) => {
      const [state, queue] = await Promise.all([
        player.ask({ type: "status" }, "state"),
        player.ask({ type: "queue", op: "list" }, "queue"),
      ]);
      return { state, queue };
    });
  }

  /**
   * The voices of the engine, which the player does not list.
   *
   * For a view, which shows that it loads: an engine that computes may take its time.
   */
  async voices(): Promise<Voice[]> {
    const { voices } = await converse(
      access("engine", this.where),
      (engine) => engine.ask({ type: "voices" }, "voices"),
      { ...this.patience, quickMs: this.patience.engineMs },
    );
    return voices;
  }

  private async talk<T>(talk: (player: Conversation) => Promise<T>): Promise<T> {
    return await converse(access("player", this.where), talk, this.patience);
  }
}

function speech(text: string, { mode, voice, speed, markdown }: Manner) {
  const options = markdown && { markdown };
  return { type: "speak" as const, text, mode, voice, speed, options };
}

/** Whether anything is spoken, or waits to be. */
export function isBusy(state: State): boolean {
  return state.item != null;
}

/** A number as it is read. */
export function count(number: number): string {
  return number.toLocaleString("en-US");
}

/** So many characters. */
export function countOfCharacters(number: number): string {
  return `${count(number)} character${number === 1 ? "" : "s"}`;
}
