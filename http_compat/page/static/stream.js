// What is known of one stream: its text, where its words are, what came of it. No DOM, no sockets.

import { Text } from "./text.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./protocol.js").Frame} Frame */

/**
 * A place in a text, by UTF-16 offsets.
 * @typedef {{from: number, to: number}} Place
 */

/**
 * A sentence or a part of one, as the engine speaks it.
 * @typedef {object} Segment
 * @property {number} index
 * @property {number} sample where it begins
 * @property {number} start code point of the stream's text
 * @property {number} end
 * @property {Place} place where it stands in the shown text
 * @property {boolean} done whether all of it came
 */

/**
 * A word with its time.
 * @typedef {{start: number, end: number, sample: number, samples: number}} Word
 */

/** Code points of a text that a sentence about it holds at most. */
const TOLD = 60;

/**
 * A text to be spoken, which may still grow, and how it is sent.
 *
 * It outlives a stream: if the engine is started anew, another stream goes on with it.
 */
export class Speech {
  /**
   * @param {Text} text
   * @param {{voice: string, speed: number, complete: boolean}} manner complete: whether all text is there
   */
  constructor(text, { voice, speed, complete }) {
    this.text = text;
    this.voice = voice;
    this.speed = speed;
    this.complete = complete;
    /** Code points that the engine has, of all of the text. */
    this.sent = 0;
    /** Places in the text at which what is there is to be spoken at once. */
    this.flushes = /** @type {number[]} */ ([]);
    this.asked = 0; // when, by performance.now()
  }
}

/** One stream of the engine, ours or another's. */
export class Stream {
  /** Of the next frame. */
  nextSeq = 0;
  /** Samples up to the next frame. */
  samples = 0;
  /** How often frames were missing. */
  gaps = 0;
  /** Whether the last frame came, or none will. */
  complete = false;
  /** Whether the engine sends us what it makes. @type {"yes" | "asking" | "leaving" | "no"} */
  follows = "yes";
  /** Frames that came before it was this stream's turn. @type {Frame[]} */
  waiting = [];
  /** @type {Segment[]} */
  segments = [];
  /** Computing per audio; unknown at first. @type {number | undefined} */
  rtf;
  /** Request to first sound, as the engine says. @type {number | undefined} */
  ttfaMs;
  /** Whether the engine has all text of a stream of ours, or wants no more. */
  allSaid = false;
  voice = "";
  speed = 1;
  /** @type {Word[]} */
  #words = [];
  #marked = -1;
  #computeMs = 0;
  #doneSamples = 0;
  #shown = new Text();

  /**
   * @param {number} number
   * @param {Speech} [speech] of a stream of ours
   * @param {number} [base] code point of the speech at which the stream's text begins
   */
  constructor(number, speech, base = 0) {
    this.number = number;
    this.speech = speech;
    this.base = base;
  }

  /** Whether this page speaks it. */
  get own() {
    return this.speech !== undefined;
  }

  /** The text to show: all of ours; of another's what was told so far. */
  get shown() {
    return this.speech?.text ?? this.#shown;
  }

  /**
   * Notes a frame.
   * @param {Frame} frame
   * @returns {boolean} whether it is new; one that came twice is not
   */
  take(frame) {
    const begun = this.nextSeq > 0 || this.gaps > 0;
    if (frame.seq < this.nextSeq) return false;
    // Who comes late begins in the middle, and has missed nothing that he was to hear.
    if (frame.seq > this.nextSeq && (begun || this.own)) this.gaps += 1;
    this.nextSeq = frame.seq + 1;
    this.samples = frame.sample + frame.pcm.length;
    this.complete ||= frame.last;
    return true;
  }

  /**
   * Notes what the engine tells about it.
   * @param {Message} message with its number
   */
  note(message) {
    switch (message.type) {
      case "stream.opened":
        this.voice = message.voice;
        this.speed = message.speed;
        break;
      case "segment":
        this.#segment(message);
        break;
      case "marks":
        if (message.index <= this.#marked) break; // told again behind a break
        this.#marked = message.index;
        this.#words.push(
          ...message.words.map((/** @type {Message} */ word) => ({
            start: word.char_start,
            end: word.char_end,
            sample: word.sample,
            samples: word.samples,
          })),
        );
        break;
      case "segment.done": {
        const segment = this.segments.at(-1);
        if (!segment || segment.done) break;
        segment.done = true;
        this.#computeMs += message.compute_ms;
        this.#doneSamples += message.samples;
        if (this.#doneSamples) this.rtf = this.#computeMs / (this.#doneSamples / 24);
        break;
      }
      case "progress":
        this.rtf = message.rtf ?? this.rtf;
        break;
      case "stream.done":
        this.ttfaMs = message.ttfa_ms;
    }
  }

  /** @param {Message} message */
  #segment(message) {
    const { index, char_start: start, char_end: end, sample } = message;
    if (index <= (this.segments.at(-1)?.index ?? -1)) return; // told again behind a break
    let place;
    if (this.own) {
      const text = this.shown;
      place = { from: text.unitsAt(this.base + start), to: text.unitsAt(this.base + end) };
    } else {
      // What stands between two segments of another's text is not told; only how long the pause is.
      if (this.#shown.length) this.#shown.append(message.pause === "paragraph" ? "\n\n" : " ");
      const from = this.#shown.toString().length;
      this.#shown.append(message.text);
      place = { from, to: this.#shown.toString().length };
    }
    this.segments.push({ index, sample, start, end, place, done: false });
  }

  /**
   * A part of our text, for a sentence about it.
   * @param {number} start code point of the stream's text
   * @param {number} end
   */
  told(start, end) {
    const [from, to] = [this.base + start, this.base + end];
    const part = this.shown.slice(from, Math.min(to, from + TOLD));
    return to > from + TOLD ? `${part}…` : part;
  }

  /**
   * What is spoken at a sample.
   * @param {number} sample
   * @returns {{segment?: Place, word?: Place, start?: number}} start: where the segment begins, a code
   *   point of the stream's text
   */
  at(sample) {
    const segment = lastBy(this.segments, sample);
    if (!segment) return {};
    const word = lastBy(this.#words, sample);
    // Behind a word is a pause: the word is over, but nothing else is spoken yet, so it stays marked
    // until the next, if that is of the same segment.
    const within = word && word.sample >= segment.sample && word.start >= segment.start;
    return {
      segment: segment.place,
      word: within ? this.#place(word, segment) : undefined,
      start: segment.start,
    };
  }

  /**
   * @param {Word} word
   * @param {Segment} segment that it belongs to
   * @returns {Place | undefined} nothing, if it stands where another's text was not told
   */
  #place(word, segment) {
    const text = this.shown;
    if (this.own) {
      return { from: text.unitsAt(this.base + word.start), to: text.unitsAt(this.base + word.end) };
    }
    const shown = new Text(text.toString().slice(segment.place.from, segment.place.to));
    if (word.end - segment.start > shown.length) return undefined;
    return {
      from: segment.place.from + shown.unitsAt(word.start - segment.start),
      to: segment.place.from + shown.unitsAt(word.end - segment.start),
    };
  }

  /**
   * Where in our text to go on, if this stream is lost: at the segment that did not come whole.
   * @returns {number} code point of the speech
   */
  get resumeAt() {
    const cut = this.segments.find((segment) => !segment.done);
    if (cut) return this.base + cut.start;
    const last = this.segments.at(-1);
    return last ? this.base + last.end : this.base;
  }

  /** Code points of the speech that were made into sound, or are being. */
  get reached() {
    return this.base + (this.segments.at(-1)?.end ?? 0);
  }
}

/**
 * The last of those that begin at a sample or before; by halves, as a long text has very many.
 * @template {{sample: number}} T
 * @param {T[]} list in order
 * @param {number} sample
 * @returns {T | undefined}
 */
function lastBy(list, sample) {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].sample <= sample) low = middle + 1;
    else high = middle;
  }
  return list[low - 1];
}
