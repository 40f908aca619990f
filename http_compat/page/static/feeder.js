// Sends the text of a speech to its stream: in pieces, and no sooner than there is a use for them. No DOM.

import { Lost, Refused, sentence } from "./connection.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./stream.js").Speech} Speech */
/** @typedef {import("./stream.js").Stream} Stream */

/** A piece of a long text, in code points … */
const PIECE = 2_000;
/** … which is sent while no more than this waits to be spoken. */
const AHEAD = 4_000;

/** A stream of which nobody says anything for ten minutes has ended: a pause may be longer. */
const ALIVE_MS = 240_000;

export class Feeder {
  #connection;
  #spoken;
  #sending = false;
  #saidAt = 0;

  /** Called with a sentence for the listener. @type {(sentence: string) => void} */
  onnotice = () => {};

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {() => Stream | undefined} spoken gives the stream of what is spoken now
   */
  constructor(connection, spoken) {
    this.#connection = connection;
    this.#spoken = spoken;
  }

  /** Sends the next pieces of the text, as far as there is a use for them. */
  async feed() {
    const stream = this.#spoken();
    const speech = stream?.speech;
    if (!speech || stream.complete || stream.allSaid || this.#sending) return;
    this.#sending = true;
    try {
      for (let next; (next = nextSaying(speech, stream)); ) {
        await this.#connection.ask({ ...next.message, stream: stream.number });
        this.#saidAt = performance.now();
        if (this.#spoken() !== stream || stream.complete) break;
        next.said();
      }
    } catch (error) {
      // What was not answered is said again; and so is what the engine has no room for now.
      if (error instanceof Lost || (error instanceof Refused && error.retryable)) return;
      stream.allSaid = true;
      if (stream.complete) return;
      this.onnotice(sentence(error));
      // What is there is all of it: a stream that waits for more would never be over.
      this.#connection.attempt({ type: "end", stream: stream.number });
    } finally {
      this.#sending = false;
    }
  }

  /** Says nothing to a stream that waits for text, before the engine thinks it is forgotten. */
  keepAlive() {
    const stream = this.#spoken();
    if (!stream?.speech || stream.complete || stream.allSaid || this.#sending) return;
    if (performance.now() - this.#saidAt < ALIVE_MS) return;
    this.#saidAt = performance.now();
    const at = stream.speech.sent - stream.base;
    this.#connection.attempt({ type: "append", stream: stream.number, text: "", at });
  }
}

/**
 * What is to be said next to a stream, and what follows from it; nothing, if that can wait.
 * @param {Speech} speech
 * @param {Stream} stream
 * @returns {{message: Message, said: () => void} | undefined}
 */
function nextSaying(speech, stream) {
  const { sent, text, flushes, complete } = speech;
  if (flushes.length && flushes[0] <= sent) {
    return { message: { type: "flush" }, said: () => flushes.shift() };
  }
  if (sent < text.length) {
    // A text that is being written is spoken as it comes.
    if (complete && sent - stream.reached >= AHEAD) return undefined;
    const to = Math.min(sent + PIECE, text.length, flushes[0] ?? Infinity);
    const message = { type: "append", text: text.slice(sent, to), at: sent - stream.base };
    return { message, said: () => (speech.sent = to) };
  }
  if (!complete) return undefined;
  return { message: { type: "end" }, said: () => (stream.allSaid = true) };
}
