// What the page does with the engine: speaks, follows, stops, and goes on after a break. No DOM.
//
// One stream is heard at a time, others wait in line. How much is fetched of them is the fetcher's, how much
// text is sent the feeder's.

import { Lost, sentence } from "./connection.js";
import { Feeder } from "./feeder.js";
import { Fetcher } from "./fetcher.js";
import { Place } from "./place.js";
import { SAMPLE_RATE } from "./protocol.js";
import { Speech, Stream } from "./stream.js";
import { Text } from "./text.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./protocol.js").Frame} Frame */

/** A text up to so many code points is sent in one message; a longer one in pieces. */
const WHOLE = 4_000;

/** Begins the keys of this page's streams. */
const PAGE = `page-${crypto.randomUUID()}-`;

/** Close code of an engine that stops; it ends its streams first, but not so long before. */
const GOING_AWAY = 1001;
const LEAVES_MS = 1_500;

/** Streams of others that wait in line. */
const LINE = 8;

/**
 * What is going on.
 * @typedef {"idle" | "starting" | "filling" | "speaking" | "paused"} Activity
 */

/**
 * A request for a stream.
 * @typedef {{speech: Speech, from: number, whole: boolean, stream?: Stream}} Begun
 */

export class Session {
  /** What is heard, or was last. @type {Stream | undefined} */
  current;
  /** Whether all streams of everybody are followed. */
  listening = false;
  /** @type {Message | undefined} of the engine */
  ready;
  /** @type {Message[]} */
  voices = [];
  /** Milliseconds from the wish to the first sound heard, of the current stream. @type {number | undefined} */
  firstSoundMs;
  /** Since the page was opened. */
  gaps = 0;
  underruns = 0;

  #connection;
  #playback;
  /** Those that can still say something. @type {Map<number, Stream>} */
  #streams = new Map();
  /** @type {Stream[]} */
  #line = [];
  /** Numbers of streams that are not to be heard any more. @type {Set<number>} */
  #dropped = new Set();
  /** What is spoken, or is to be. @type {Speech | undefined} */
  #speech;
  /** Requests for a stream on their way, by its key. @type {Map<string, Begun>} */
  #begun = new Map();
  #keys = 0;
  #starting = false;
  #from = 0; // where in the speech
  /** A stream of ours that another ended, or an engine that stops: that shows in a moment.
   * @type {{stream: Stream, from: number, timer: ReturnType<typeof setTimeout>} | undefined} */
  #ended;
  #paused = false;
  #counted = 0; // underruns of the current stream that are counted
  #feeder;
  #fetcher;
  #place;

  /** Called when anything has changed but numbers. */
  onchange = () => {};
  /** Called when the shown text is another one, or has grown. */
  ontext = () => {};
  /** Called with a sentence for the listener. @type {(sentence: string) => void} */
  onnotice = () => {};
  /** Called when a stream was heard to its end, or stopped. @type {(how: string) => void} */
  onended = () => {};

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {import("./playback.js").Playback} playback
   */
  constructor(connection, playback) {
    this.#connection = connection;
    this.#playback = playback;
    this.#feeder = new Feeder(connection, () => this.#spoken());
    this.#feeder.onnotice = (sentence) => this.onnotice(sentence);
    this.#fetcher = new Fetcher(connection, (stream) => this.#inHand(stream));
    this.#fetcher.onlost = (stream) => this.#lostTrack(stream);
    this.#place = new Place(connection, playback);
    connection.onready = (ready) => this.#connected(ready);
    connection.onmessage = (message) => this.#told(message);
    connection.onclose = (code) => this.#disconnected(code);
    connection.onframe = (frame) => this.#frame(frame);
    playback.onreport = () => this.#reported();
    playback.oncontext = () => this.onchange();
    setInterval(() => this.#regulate(), 250);
  }

  /** @returns {Activity} */
  get activity() {
    const { state, begun } = this.#playback;
    const sounds = state === "filling" || state === "playing" || state === "paused";
    if (!sounds && !this.#starting) return "idle";
    if (this.#paused) return "paused";
    if (state === "playing") return "speaking";
    return begun && sounds ? "filling" : "starting";
  }

  /** Characters of a text that the engine takes at most. */
  get limit() {
    return this.ready?.limits.live_chars ?? 1_000_000;
  }

  // --- what the listener wants ----------------------------------------------------------------------

  /**
   * Speaks a text instead of what is spoken.
   * @param {string} text
   * @param {{voice: string, speed: number}} manner
   * @param {boolean} [grows] whether text will be added
   * @returns {Speech | undefined} nothing, if it is refused
   */
  speak(text, { voice, speed }, grows = false) {
    const whole = new Text(text);
    if (whole.length > this.limit) {
      const [length, limit] = [whole.length, this.limit].map((n) => n.toLocaleString("en"));
      this.onnotice(`This text has ${length} characters; the engine takes ${limit} at most.`);
      return undefined;
    }
    this.#leave();
    this.#speech = new Speech(whole, { voice, speed, complete: !grows });
    this.#speech.asked = performance.now();
    this.firstSoundMs = undefined;
    this.#paused = false;
    if (this.#connection.state !== "open") {
      this.#connection.open(); // at once, and the text follows
    }
    void this.#begin(this.#speech, 0);
    return this.#speech;
  }

  /**
   * Adds text to a speech that grows.
   * @param {Speech} speech
   * @param {string} text
   */
  append(speech, text) {
    speech.text.append(text);
    if (this.current?.speech === speech) this.ontext();
    void this.#feeder.feed();
  }

  /**
   * Has spoken what is there, without waiting for the end of the sentence.
   * @param {Speech} speech
   */
  flush(speech) {
    speech.flushes.push(speech.text.length);
    void this.#feeder.feed();
  }

  /**
   * All text of a speech is there.
   * @param {Speech} speech
   */
  end(speech) {
    speech.complete = true;
    void this.#feeder.feed();
  }

  /** Silence. A stream of ours is over for everybody; of another's only we hear no more. */
  stop() {
    if (this.activity === "idle") return;
    this.#leave();
    this.onended("Stopped.");
    this.#next();
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

  /**
   * Another voice or speed for the sentences that are not begun.
   * @param {{voice: string, speed: number}} manner
   */
  configure({ voice, speed }) {
    if (!this.#speech || this.activity === "idle") return;
    Object.assign(this.#speech, { voice, speed });
    const stream = this.current;
    if (stream?.own && !stream.complete) {
      this.#connection.attempt({ type: "configure", stream: stream.number, voice, speed });
    }
  }

  /**
   * Follows everything that is spoken, or no more.
   * @param {boolean} all
   */
  listen(all) {
    if (this.listening === all) return;
    this.listening = all;
    if (all) {
      this.#dropped.clear();
      this.#connection.attempt({ type: "subscribe", stream: "*" });
    } else {
      this.#connection.attempt({ type: "unsubscribe", stream: "*" });
      for (const stream of [...this.#streams.values()]) if (!stream.own) this.#drop(stream);
      this.#line = this.#line.filter((stream) => stream.own);
      if (this.current && !this.current.own && this.activity !== "idle") this.stop();
    }
    this.onchange();
  }

  // --- a speech, from its text to its streams --------------------------------------------------------

  /**
   * Opens a stream for what there is of a speech from a place on.
   * @param {Speech} speech
   * @param {number} from code point
   */
  async #begin(speech, from) {
    this.#starting = true;
    this.#from = from;
    this.onchange();
    const whole = speech.complete && speech.text.length - from <= WHOLE;
    const manner = { voice: speech.voice, speed: speech.speed, marks: true };
    const text = whole ? { type: "speak", text: speech.text.slice(from) } : { type: "open" };
    // What is told of the stream may come before the answer; it is known by its key.
    this.#keys += 1;
    const key = `${PAGE}${this.#keys}`;
    /** @type {Begun} */
    const begun = { speech, from, whole };
    this.#begun.set(key, begun);
    try {
      const { stream: number } = await this.#connection.ask({ ...text, ...manner, key });
      const stream = begun.stream ?? this.#adopt(number, begun);
      if (this.#speech !== speech) {
        this.#drop(stream); // stopped meanwhile
        return;
      }
      this.#starting = false;
      this.#play(stream);
    } catch (error) {
      if (error instanceof Lost) {
        if (begun.stream) this.#streams.delete(begun.stream.number);
        return; // `#connected` begins anew
      }
      if (this.#speech !== speech) return;
      this.#starting = false;
      this.#speech = undefined;
      this.onnotice(sentence(error));
      this.onended("");
      this.#next();
    } finally {
      this.#begun.delete(key);
    }
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
    return stream;
  }

  /** The stream of what is spoken, if it can still say something. */
  #spoken() {
    const speech = this.#speech;
    return speech && [...this.#streams.values()].find((stream) => stream.speech === speech);
  }

  // --- what the engine says --------------------------------------------------------------------------

  /** @param {Message} ready */
  #connected(ready) {
    const before = this.ready;
    const again = before?.server.instance === ready.server.instance;
    this.ready = ready;
    this.#connection.attempt({ type: "voices" }, (answer) => {
      this.voices = answer.voices;
      this.onchange();
    });
    if (before && !again) this.#forget();
    // By their numbers, and before all of them: those would begin anew.
    for (const stream of this.#streams.values()) if (!stream.complete) this.#fetcher.follow(stream);
    if (this.listening) this.#connection.attempt({ type: "subscribe", stream: "*" });
    if (this.#starting && this.#speech) void this.#begin(this.#speech, this.#from);
    else void this.#feeder.feed();
    this.onchange();
  }

  /** The engine was started anew, and knows none of the streams: ours are spoken on. */
  #forget() {
    const lost = [...this.#streams.values()].filter((stream) => !stream.complete);
    this.#streams.clear();
    this.#dropped.clear();
    for (const stream of lost) {
      const goesOn = stream.own && stream.speech === this.#speech;
      this.#lose(stream);
      if (goesOn) this.#continue(stream, "The engine was started anew");
      else if (stream === this.current) this.onnotice("The engine has lost the rest of this text.");
    }
  }

  /**
   * Has the rest of a stream of ours that is lost spoken in another one, which `#starting` asks for.
   * @param {Stream} stream
   * @param {string} why
   * @param {number} [from] code point of the speech
   */
  #continue(stream, why, from = stream.resumeAt) {
    const speech = /** @type {Speech} */ (stream.speech);
    if (speech.complete && from >= speech.text.length) return; // all of it came
    this.#from = from;
    speech.flushes = speech.flushes.filter((place) => place > from);
    this.#starting = true;
    this.onnotice(`${why}; reading goes on where it was cut off.`);
  }

  /**
   * Nothing more will come of a stream; what came is heard.
   * @param {Stream} stream
   */
  #lose(stream) {
    stream.complete = true;
    this.#finishPushing(stream);
  }

  /** @param {Message} message that is no answer */
  #told(message) {
    const number = message.stream;
    if (message.type === "warning") {
      this.#warned(message);
      return;
    }
    if (typeof number !== "number") {
      if (message.type === "error") this.onnotice(message.message);
      return;
    }
    if (message.type === "stream.opened" && !this.#streams.has(number)) this.#appeared(message);
    const stream = this.#streams.get(number);
    if (!stream) return;
    stream.note(message);
    switch (message.type) {
      case "stream.opened":
        this.#next();
        break;
      case "segment":
        if (stream === this.current && !stream.own) this.ontext();
        void this.#feeder.feed();
        break;
      case "error":
        stream.complete = true;
        this.#streams.delete(number);
        if (stream === this.current || stream.own) this.onnotice(message.message);
        this.#finishPushing(stream);
        break;
      case "stream.cancelled":
        this.#cancelled(stream);
        break;
      case "stream.done":
        stream.complete = true;
        this.#finishPushing(stream);
        this.#streams.delete(number);
    }
  }

  /** @param {Message} message */
  #warned(message) {
    const quiet = ["unknown_stream", "not_owner", "not_made_yet", "unknown_field", "unknown_type"];
    if (!quiet.includes(message.code)) this.onnotice(message.message);
  }

  /**
   * Somebody speaks: we, if the answer to our request is behind this, or another.
   * @param {Message} opened
   */
  #appeared(opened) {
    const { stream: number, key = "" } = opened;
    const ours = this.#begun.get(key);
    if (ours) {
      if (!ours.stream) this.#adopt(number, ours);
    } else if (key.startsWith(PAGE)) {
      this.#connection.attempt({ type: "cancel", stream: number }); // its request was repeated after a break
    } else if (this.#dropped.has(number) || this.#line.length >= LINE || !this.listening) {
      this.#connection.attempt({ type: "unsubscribe", stream: number });
    } else {
      const stream = new Stream(number);
      this.#streams.set(number, stream);
      this.#line.push(stream);
    }
  }

  /** @param {Stream} stream */
  #cancelled(stream) {
    this.#streams.delete(stream.number);
    this.#line = this.#line.filter((other) => other !== stream);
    stream.complete = true;
    if (stream !== this.current || this.activity === "idle") return;
    const from = stream.base + (stream.at(this.#playback.heard).start ?? 0);
    this.#playback.stop();
    if (stream.own) {
      const timer = setTimeout(() => this.#stoppedElsewhere(), LEAVES_MS);
      this.#ended = { stream, from, timer };
    } else {
      this.onended("Stopped elsewhere.");
    }
    this.#next();
  }

  #stoppedElsewhere() {
    this.#ended = undefined;
    this.#speech = undefined;
    this.onended("Stopped elsewhere.");
    this.#next();
  }

  /** @param {number} code */
  #disconnected(code) {
    if (!this.#ended || code !== GOING_AWAY) return;
    const { stream, from, timer } = this.#ended;
    clearTimeout(timer);
    this.#ended = undefined;
    this.#continue(stream, "The engine was stopped", from);
    this.onchange();
  }

  /** @param {Frame} frame */
  #frame(frame) {
    const stream = this.#streams.get(frame.stream);
    const before = stream?.gaps ?? 0;
    if (!stream?.take(frame)) return;
    this.gaps += stream.gaps - before;
    if (stream === this.current) this.#playback.push(frame.pcm, frame.sample);
    else stream.waiting.push(frame);
    if (frame.last) this.#finishPushing(stream);
    this.#fetcher.regulate(stream);
  }

  // --- what is heard ---------------------------------------------------------------------------------

  /** Plays the next one in line, if there is none. */
  #next() {
    this.onchange();
    if (this.#starting || this.activity !== "idle" || !this.#playback.opened) return;
    const stream = this.#line.shift();
    if (stream) this.#play(stream);
  }

  /** The sound can begin: what came before the first click waits in line. */
  opened() {
    this.#next();
  }

  /** @param {Stream} stream */
  #play(stream) {
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
    this.#finishPushing(stream);
    this.ontext();
    this.onchange();
    void this.#feeder.feed();
  }

  /** @param {Stream} stream */
  #finishPushing(stream) {
    if (stream.complete && stream === this.current) this.#playback.end();
  }

  #reported() {
    const stream = this.current;
    if (!stream) return;
    const { state, underruns, begun } = this.#playback;
    this.underruns += underruns - this.#counted;
    this.#counted = underruns;
    if (begun && this.firstSoundMs === undefined && stream.speech) {
      const heardAt = performance.now() + this.#playback.latency * 1000;
      this.firstSoundMs = heardAt - stream.speech.asked;
    }
    this.#place.tell(this.current, this.#paused);
    if (state === "drained") this.#drained(stream);
    this.onchange();
  }

  /** @param {Stream} stream */
  #drained(stream) {
    this.#playback.stop();
    const goesOn = this.#starting || this.#line[0]?.speech === stream.speech;
    if (!stream.own || !goesOn) {
      if (stream.own) this.#speech = undefined;
      this.onended(stream.samples ? "Finished." : "");
    }
    this.#next();
  }

  /** Gives up what is heard or asked for, and is silent. */
  #leave() {
    const stream = this.current;
    clearTimeout(this.#ended?.timer);
    this.#ended = undefined;
    this.#starting = false;
    this.#paused = false;
    this.#speech = undefined;
    this.#line = this.#line.filter((other) => !other.own || this.#drop(other));
    if (!stream) return;
    if (stream.own && !stream.complete) {
      const played_samples = Math.min(this.#playback.heard, stream.samples);
      this.#connection.attempt({ type: "cancel", stream: stream.number, played_samples });
      this.#streams.delete(stream.number);
    } else if (!stream.complete) {
      this.#drop(stream);
    }
    stream.complete = true;
    this.#playback.stop();
  }

  /**
   * Wants no more of a stream, and no sound of it.
   * @param {Stream} stream
   * @returns {false}
   */
  #drop(stream) {
    this.#streams.delete(stream.number);
    if (!stream.complete) {
      this.#dropped.add(stream.number);
      this.#connection.attempt({ type: stream.own ? "cancel" : "unsubscribe", stream: stream.number });
    }
    return false;
  }

  // --- how much is fetched ---------------------------------------------------------------------------

  /** @param {Stream} stream */
  #inHand(stream) {
    if (stream !== this.current) {
      return stream.waiting.reduce((sum, frame) => sum + frame.pcm.length, 0);
    }
    return (this.#playback.bufferedMs / 1000) * SAMPLE_RATE;
  }

  #regulate() {
    for (const stream of this.#streams.values()) this.#fetcher.regulate(stream);
    void this.#feeder.feed();
    this.#feeder.keepAlive();
  }

  /**
   * The engine does not have a stream any more: ours is spoken on in another one.
   * @param {Stream} stream
   */
  #lostTrack(stream) {
    this.#streams.delete(stream.number);
    this.#lose(stream);
    if (!stream.speech || stream.speech !== this.#speech) {
      if (stream === this.current) this.onnotice("The engine has lost the rest of this text.");
      return;
    }
    this.#continue(stream, "The connection was gone for too long");
    if (this.#starting) void this.#begin(stream.speech, this.#from);
  }
}
