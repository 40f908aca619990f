// A text of ours becomes a stream of the engine, and goes on in another one if that is lost. No DOM.

import { Lost, sentence } from "./connection.js";
import { Stream } from "./stream.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./stream.js").Speech} Speech */

/** A text up to so many code points is sent in one message; a longer one in pieces. */
const WHOLE = 4_000;

/** Begins the keys of this page's streams. Not a UUID of the browser's, which makes none on pages that are
 * not safe; those too are to say what is the matter. */
const PAGE = `page-${crypto.getRandomValues(new Uint32Array(4)).join("-")}-`;

/** Close code of an engine that stops; it ends its streams first, but not so long before. */
const GOING_AWAY = 1001;
const LEAVES_MS = 1_500;

/**
 * A request for a stream.
 * @typedef {{speech: Speech, from: number, whole: boolean, voice: string, speed: number, stream?: Stream}} Begun
 */

export class Speaking {
  /** What is spoken, or is to be. @type {Speech | undefined} */
  speech;
  /** Whether a stream is asked for, or is to be with the next connection. */
  starting = false;

  #connection;
  #hearing;
  #streams;
  /** Requests for a stream on their way, by its key. @type {Map<string, Begun>} */
  #begun = new Map();
  #keys = 0;
  #from = 0; // where in the speech
  /** A stream of ours that another ended, or an engine that stops: that shows in a moment.
   * @type {{stream: Stream, from: number, paused: boolean, timer: ReturnType<typeof setTimeout>} | undefined} */
  #ended;

  /** Called when anything has changed but numbers. */
  onchange = () => {};
  /** Called with a sentence for the listener. @type {(sentence: string) => void} */
  onnotice = () => {};
  /** Called when a text is over before all of it was heard. @type {(how: string) => void} */
  onended = () => {};

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {import("./hearing.js").Hearing} hearing
   * @param {Map<number, Stream>} streams those that can still say something, by number: ours are put in
   */
  constructor(connection, hearing, streams) {
    this.#connection = connection;
    this.#hearing = hearing;
    this.#streams = streams;
  }

  /** The stream of what is spoken, if it can still say something. */
  get stream() {
    const { speech } = this;
    return speech && [...this.#streams.values()].find((stream) => stream.speech === speech);
  }

  /**
   * Speaks a text from its beginning.
   * @param {Speech} speech
   */
  speak(speech) {
    this.speech = speech;
    if (this.#connection.state !== "open") {
      this.#connection.open(); // at once, and the text follows
    }
    void this.#begin(speech, 0);
  }

  /** Asks for the stream that is waited for, with a new connection. */
  askAgain() {
    if (this.starting && this.speech) void this.#begin(this.speech, this.#from);
  }

  /**
   * Opens a stream for what there is of a speech from a place on.
   * @param {Speech} speech
   * @param {number} from code point
   */
  async #begin(speech, from) {
    this.starting = true;
    this.#from = from;
    this.onchange();
    const whole = speech.complete && speech.text.length - from <= WHOLE;
    const { voice, speed } = speech;
    const text = whole ? { type: "speak", text: speech.text.slice(from) } : { type: "open" };
    // What is told of the stream may come before the answer; it is known by its key.
    this.#keys += 1;
    const key = `${PAGE}${this.#keys}`;
    /** @type {Begun} */
    const begun = { speech, from, whole, voice, speed };
    this.#begun.set(key, begun);
    try {
      const message = { ...text, voice, speed, marks: true, key };
      const { stream: number } = await this.#connection.ask(message);
      const stream = begun.stream ?? this.#adopt(number, begun);
      if (this.speech !== speech) {
        this.cancel(stream); // stopped meanwhile
        return;
      }
      this.starting = false;
      this.#hearing.play(stream);
    } catch (error) {
      if (error instanceof Lost) {
        if (begun.stream) this.#streams.delete(begun.stream.number);
        return; // `askAgain` begins anew
      }
      if (this.speech !== speech) return;
      this.starting = false;
      this.onnotice(sentence(error));
      this.#over("");
    } finally {
      this.#begun.delete(key);
    }
  }

  /**
   * A stream is there of which nothing was known.
   * @param {Message} opened
   * @returns {boolean} whether it is one of ours: the answer to our request is behind this
   */
  appeared({ stream: number, key = "" }) {
    const begun = this.#begun.get(key);
    if (!begun && !key.startsWith(PAGE)) return false;
    if (!begun) {
      this.#connection.attempt({ type: "cancel", stream: number }); // its request was repeated after a break
    } else if (!begun.stream) {
      this.#adopt(number, begun);
    }
    return true;
  }

  /**
   * A stream of ours is there.
   * @param {number} number
   * @param {Begun} begun
   */
  #adopt(number, begun) {
    const { speech, from, whole } = begun;
    const stream = new Stream(number, speech, from);
    stream.allSaid = whole;
    speech.sent = whole ? speech.text.length : from;
    begun.stream = stream;
    this.#streams.set(number, stream);
    if (speech.voice !== begun.voice || speech.speed !== begun.speed) this.configure(stream);
    return stream;
  }

  /**
   * Has the rest of a stream of ours spoken as its speech is to be by now.
   * @param {Stream} stream
   */
  configure(stream) {
    const { voice, speed } = /** @type {Speech} */ (stream.speech);
    const message = { type: "configure", stream: stream.number, voice, speed };
    this.#connection.attempt(message, () => Object.assign(stream, { voice, speed }));
  }

  /**
   * Wants no more of a stream of ours.
   * @param {Stream} stream
   * @param {number} [played_samples] how much of it was heard
   */
  cancel(stream, played_samples) {
    this.#streams.delete(stream.number);
    if (stream.complete) return;
    this.#connection.attempt({ type: "cancel", stream: stream.number, played_samples });
  }

  /** Gives up what is spoken, or is to be. */
  giveUp() {
    clearTimeout(this.#ended?.timer);
    this.#ended = undefined;
    this.starting = false;
    this.speech = undefined;
  }

  /** @param {string} how it ended */
  #over(how) {
    this.speech = undefined;
    this.onended(how);
    this.#hearing.next();
  }

  // --- a stream that is lost -------------------------------------------------------------------------

  /**
   * Has the rest of a stream of ours that is lost spoken in another one, for which `askAgain` asks.
   * @param {Stream} stream
   * @param {string} why
   * @param {number} [from] code point of the speech
   */
  goOn(stream, why, from = stream.resumeAt) {
    const speech = /** @type {Speech} */ (stream.speech);
    if (speech.complete && from >= speech.text.length) return; // all of it came
    this.#from = from;
    speech.flushes = speech.flushes.filter((place) => place > from);
    this.starting = true;
    this.onnotice(`${why}; reading goes on where it was cut off.`);
  }

  /**
   * The stream of ours that was heard has ended: another wanted that, if the engine does not leave now.
   * @param {Stream} stream
   * @param {number} from code point of the speech, to go on with
   * @param {boolean} paused whether the listener had halted it
   */
  cancelled(stream, from, paused) {
    const timer = setTimeout(() => {
      this.#ended = undefined;
      this.#over("Stopped elsewhere.");
    }, LEAVES_MS);
    this.#ended = { stream, from, paused, timer };
  }

  /** @param {number} code with which the connection ended */
  disconnected(code) {
    if (!this.#ended || code !== GOING_AWAY) return;
    const { stream, from, paused, timer } = this.#ended;
    clearTimeout(timer);
    this.#ended = undefined;
    this.goOn(stream, "The engine was stopped", from);
    if (paused) this.#hearing.pause();
    this.onchange();
  }
}
