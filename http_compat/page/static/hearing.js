// What is heard: one stream at a time, while others wait in line. No DOM, no sockets.

import { Place } from "./place.js";
import { SAMPLE_RATE } from "./protocol.js";

/** @typedef {import("./protocol.js").Frame} Frame */
/** @typedef {import("./stream.js").Stream} Stream */

/** Streams that wait in line at most. */
export const LINE = 8;

/**
 * What is going on.
 * @typedef {"idle" | "starting" | "filling" | "speaking" | "paused"} Activity
 */

export class Hearing {
  /** What is heard, or was last. @type {Stream | undefined} */
  current;
  /** Milliseconds from the wish to the first sound heard, of the current stream. @type {number | undefined} */
  firstSoundMs;
  /** Since the page was opened. */
  underruns = 0;

  #playback;
  #place;
  #awaited;
  /** @type {Stream[]} */
  #line = [];
  #paused = false;
  #counted = 0; // underruns of the current stream that are counted

  /** Called when anything has changed but numbers. */
  onchange = () => {};
  /** Called when another stream is heard from now on. */
  onbegun = () => {};
  /** Called when a stream was heard, and none goes on with its text. @type {(stream: Stream) => void} */
  onheard = () => {};

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {import("./playback.js").Playback} playback
   * @param {() => boolean} awaited tells whether a stream of ours is asked for: it goes before the line
   */
  constructor(connection, playback, awaited) {
    this.#playback = playback;
    this.#place = new Place(connection, playback);
    this.#awaited = awaited;
    playback.onreport = () => this.#reported();
    playback.oncontext = () => this.onchange();
  }

  /** @returns {Activity} */
  get activity() {
    const { state, begun } = this.#playback;
    const sounds = state === "filling" || state === "playing" || state === "paused";
    if (!sounds && !this.#awaited()) return "idle";
    if (this.#paused) return "paused";
    if (state === "playing") return "speaking";
    return begun && sounds ? "filling" : "starting";
  }

  /** The sample of the current stream that is heard now. */
  get sample() {
    return Math.min(this.#playback.heard, this.current?.samples ?? 0);
  }

  // --- the line --------------------------------------------------------------------------------------

  /** Whether nobody else can wait in line. */
  get full() {
    return this.#line.length >= LINE;
  }

  /**
   * Puts a stream at the end of the line.
   * @param {Stream} stream
   */
  wait(stream) {
    this.#line.push(stream);
  }

  /**
   * Takes streams out of the line.
   * @param {(stream: Stream) => boolean} which
   * @returns {Stream[]} these
   */
  takeOut(which) {
    const out = this.#line.filter(which);
    this.#line = this.#line.filter((stream) => !out.includes(stream));
    return out;
  }

  /** Plays the next one in line, if there is none. */
  next() {
    this.onchange();
    // What comes before the first click, which lets the sound out, stays in line.
    if (this.activity !== "idle" || !this.#playback.opened) return;
    const stream = this.#line.shift();
    if (stream) this.play(stream);
    else this.#paused = false; // it ends with the text that it halts
  }

  // --- what plays ------------------------------------------------------------------------------------

  /**
   * Plays a stream: now, or behind what plays of the same text.
   * @param {Stream} stream
   */
  play(stream) {
    if (this.activity !== "idle") {
      // It goes on with what plays, of which what came is heard first.
      const place = this.#line.findIndex((other) => other.speech !== stream.speech);
      this.#line.splice(place < 0 ? this.#line.length : place, 0, stream);
      return;
    }
    this.current = stream;
    this.#counted = 0;
    this.#place.begin();
    if (!stream.own) this.firstSoundMs = undefined;
    this.#playback.begin();
    if (this.#paused) this.#playback.pause();
    for (const frame of stream.waiting) this.#playback.push(frame.pcm, frame.sample);
    stream.waiting = [];
    this.finish(stream);
    this.onbegun();
  }

  /**
   * More of a stream.
   * @param {Stream} stream
   * @param {Frame} frame
   */
  push(stream, frame) {
    if (stream === this.current) this.#playback.push(frame.pcm, frame.sample);
    else stream.waiting.push(frame);
    this.finish(stream);
  }

  /**
   * Nothing more will come of a stream, if it is complete; what came is heard.
   * @param {Stream} stream
   */
  finish(stream) {
    if (stream.complete && stream === this.current) this.#playback.end();
  }

  /**
   * How much came of a stream and was not heard yet.
   * @param {Stream} stream
   * @returns {number} samples
   */
  inHand(stream) {
    if (stream !== this.current) {
      return stream.waiting.reduce((sum, frame) => sum + frame.pcm.length, 0);
    }
    return (this.#playback.bufferedMs / 1000) * SAMPLE_RATE;
  }

  /** Silence: the rest of what plays is not heard any more. A pause stays one, for what goes on with it. */
  cut() {
    this.#playback.stop();
  }

  /** Silence, and no pause. */
  stop() {
    this.#paused = false;
    if (this.current) this.cut();
  }

  pause() {
    if (this.activity === "idle" || this.#paused) return;
    this.#paused = true;
    this.#playback.pause();
    this.#place.tell(this.current, this.#paused);
    this.onchange();
  }

  resume() {
    if (!this.#paused) return;
    this.#paused = false;
    this.#playback.resume();
    this.#place.tell(this.current, this.#paused);
    this.onchange();
  }

  #reported() {
    const stream = this.current;
    if (!stream) return;
    const { state, underruns } = this.#playback;
    this.underruns += underruns - this.#counted;
    this.#counted = underruns;
    // Told when the first sample goes out; later reports have played more.
    if (state === "playing" && this.firstSoundMs === undefined && stream.speech) {
      this.firstSoundMs = this.#playback.nextHeardAt - stream.speech.asked;
    }
    this.#place.tell(this.current, this.#paused);
    if (state === "drained") this.#drained(stream);
    this.onchange();
  }

  /** @param {Stream} stream */
  #drained(stream) {
    this.cut();
    const goesOn = this.#awaited() || this.#line[0]?.speech === stream.speech;
    if (!stream.own || !goesOn) this.onheard(stream);
    this.next();
  }
}
