// What the page does with the engine: speaks, follows, stops, and goes on after a break. No DOM.
//
// It joins the parts. What is heard and what waits is the hearing's, our own texts are the speaking's; how
// much is fetched is the fetcher's, how much text is sent the feeder's.

import { Feeder } from "./feeder.js";
import { Fetcher } from "./fetcher.js";
import { Hearing, LINE } from "./hearing.js";
import { Speaking } from "./speaking.js";
import { Speech, Stream } from "./stream.js";
import { Text } from "./text.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./protocol.js").Frame} Frame */

/** Between two looks at how much is fetched and sent. */
const REGULATE_MS = 250;

export class Session {
  /** Whether all streams of everybody are followed. */
  listening = false;
  /** @type {Message | undefined} of the engine */
  ready;
  /** @type {Message[]} */
  voices = [];
  /** Since the page was opened. */
  gaps = 0;

  #connection;
  /** Those that can still say something. @type {Map<number, Stream>} */
  #streams = new Map();
  /** Numbers of streams of others that are not to be heard any more. @type {Set<number>} */
  #dropped = new Set();
  /** Whether the listener knows that texts were left out. */
  #toldFull = false;
  #hearing;
  /** @type {Speaking} */
  #speaking;
  #feeder;
  #fetcher;

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
    this.#hearing = new Hearing(connection, playback, () => this.#speaking.starting);
    this.#speaking = new Speaking(connection, this.#hearing, this.#streams);
    this.#feeder = new Feeder(connection, () => this.#speaking.stream);
    this.#fetcher = new Fetcher(connection, (stream) => this.#hearing.inHand(stream));
    this.#hearing.onchange = () => this.onchange();
    this.#hearing.onbegun = () => this.#begun();
    this.#hearing.onheard = (stream) => this.#heard(stream);
    this.#speaking.onchange = () => this.onchange();
    this.#speaking.onnotice = (sentence) => this.onnotice(sentence);
    this.#speaking.onended = (how) => this.onended(how);
    this.#feeder.onnotice = (sentence) => this.onnotice(sentence);
    this.#fetcher.onlost = (stream) => this.#lostTrack(stream);
    connection.onready = (ready) => this.#connected(ready);
    connection.onmessage = (message) => this.#told(message);
    connection.onclose = (code) => this.#speaking.disconnected(code);
    connection.onframe = (frame) => this.#frame(frame);
    setInterval(() => this.#regulate(), REGULATE_MS);
  }

  get activity() {
    return this.#hearing.activity;
  }

  /** What is heard, or was last. */
  get current() {
    return this.#hearing.current;
  }

  /** Milliseconds from the wish to the first sound heard, of the current stream. */
  get firstSoundMs() {
    return this.#hearing.firstSoundMs;
  }

  /** Since the page was opened. */
  get underruns() {
    return this.#hearing.underruns;
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
   * @param {boolean} [live] whether it comes by `append`, piece by piece
   * @returns {Speech | undefined} nothing, if it is refused: what is spoken goes on
   */
  speak(text, { voice, speed }, live = false) {
    const whole = new Text(text);
    if (whole.length > this.limit) {
      const [length, limit] = [whole.length, this.limit].map((n) => n.toLocaleString("en"));
      this.onnotice(`This text has ${length} characters; the engine takes ${limit} at most.`);
      return undefined;
    }
    this.#leave();
    const speech = new Speech(live ? new Text() : whole, { voice, speed, complete: !live });
    speech.asked = performance.now();
    this.#hearing.firstSoundMs = undefined;
    this.#speaking.speak(speech);
    return speech;
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

  /** Silence, also of what waits. A stream of ours is over for everybody; of others' only we hear no more. */
  stop() {
    if (this.activity === "idle") return;
    this.#leave();
    for (const stream of this.#hearing.takeOut(() => true)) this.#drop(stream);
    this.#toldFull = false;
    this.onended("Stopped.");
    this.#hearing.next();
  }

  pause() {
    this.#hearing.pause();
  }

  resume() {
    this.#hearing.resume();
  }

  /**
   * Another voice or speed for the sentences that are not begun.
   * @param {{voice: string, speed: number}} manner
   */
  configure({ voice, speed }) {
    const { speech, stream } = this.#speaking;
    if (!speech || this.activity === "idle") return;
    Object.assign(speech, { voice, speed });
    if (stream && !stream.complete) this.#speaking.configure(stream);
  }

  /**
   * Follows everything that is spoken, or no more.
   * @param {boolean} all
   */
  listen(all) {
    if (this.listening === all) return;
    this.listening = all;
    this.#toldFull = false;
    if (all) {
      this.#dropped.clear();
      this.#connection.attempt({ type: "subscribe", stream: "*" });
    } else {
      this.#connection.attempt({ type: "unsubscribe", stream: "*" });
      for (const stream of [...this.#streams.values()]) if (!stream.own) this.#drop(stream);
      this.#hearing.takeOut((stream) => !stream.own);
      if (this.current && !this.current.own && this.activity !== "idle") this.stop();
    }
    this.onchange();
  }

  /** The sound can begin: what came before the first click waits in line. */
  opened() {
    this.#hearing.next();
  }

  /** Gives up what is heard or asked for, and is silent. */
  #leave() {
    const { current } = this;
    this.#speaking.giveUp();
    for (const stream of this.#hearing.takeOut(({ own }) => own)) this.#speaking.cancel(stream);
    if (current && !current.complete) {
      if (current.own) this.#speaking.cancel(current, this.#hearing.sample);
      else this.#drop(current);
      current.complete = true;
    }
    this.#hearing.stop();
  }

  /**
   * Wants no more of a stream of another's, and no sound of it.
   * @param {Stream} stream
   */
  #drop(stream) {
    this.#streams.delete(stream.number);
    if (stream.complete) return;
    this.#dropped.add(stream.number);
    this.#connection.attempt({ type: "unsubscribe", stream: stream.number });
  }

  // --- what is heard ---------------------------------------------------------------------------------

  #begun() {
    this.ontext();
    this.onchange();
    void this.#feeder.feed();
  }

  /** @param {Stream} stream */
  #heard(stream) {
    if (stream.own) this.#speaking.speech = undefined;
    this.onended(stream.samples ? "Finished." : "");
  }

  #regulate() {
    for (const stream of this.#streams.values()) this.#fetcher.regulate(stream);
    void this.#feeder.feed();
    this.#feeder.keepAlive();
  }

  // --- a connection, and what is lost with one -------------------------------------------------------

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
    this.#speaking.askAgain();
    void this.#feeder.feed();
    this.onchange();
  }

  /** The engine was started anew, and knows none of the streams: ours are spoken on. */
  #forget() {
    const lost = [...this.#streams.values()].filter((stream) => !stream.complete);
    this.#streams.clear();
    this.#dropped.clear();
    for (const stream of lost) this.#lose(stream, "The engine was started anew");
  }

  /**
   * The engine does not have a stream any more, though it goes on.
   * @param {Stream} stream
   */
  #lostTrack(stream) {
    this.#streams.delete(stream.number);
    if (this.#lose(stream, "The connection was gone for too long")) this.#speaking.askAgain();
  }

  /**
   * Nothing more will come of a stream: what came is heard, and the rest of ours is spoken in another one.
   * @param {Stream} stream
   * @param {string} why
   * @returns {boolean} whether it is what we have spoken
   */
  #lose(stream, why) {
    stream.complete = true;
    this.#hearing.finish(stream);
    const spoken = stream.own && stream.speech === this.#speaking.speech;
    if (spoken) this.#speaking.goOn(stream, why);
    else if (stream === this.current) this.onnotice("The engine has lost the rest of this text.");
    return spoken;
  }

  // --- what the engine says --------------------------------------------------------------------------

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
        this.#hearing.next();
        break;
      case "segment":
        if (stream === this.current && !stream.own) this.ontext();
        void this.#feeder.feed();
        break;
      case "error":
        if (stream === this.current || stream.own) this.onnotice(message.message);
        this.#over(stream);
        break;
      case "stream.cancelled":
        this.#cancelled(stream);
        break;
      case "stream.done":
        this.#over(stream);
    }
  }

  /** @param {Message} message */
  #warned(message) {
    const quiet = ["unknown_stream", "not_owner", "not_made_yet", "unknown_field", "unknown_type"];
    if (quiet.includes(message.code)) return;
    const stream = this.#streams.get(message.stream);
    const { message: sentence, char_start: start, char_end: end } = message;
    const about = stream?.speech && end > start ? stream.told(start, end) : "";
    this.onnotice(about ? `${sentence} “${about}”` : sentence);
  }

  /**
   * Somebody speaks: we or another.
   * @param {Message} opened
   */
  #appeared(opened) {
    const number = opened.stream;
    if (this.#speaking.appeared(opened)) return;
    const heard = this.listening && !this.#dropped.has(number);
    if (!heard || this.#hearing.full) {
      this.#connection.attempt({ type: "unsubscribe", stream: number });
      if (heard && !this.#toldFull) this.onnotice(`Only ${LINE} texts can wait here; further ones are left out.`);
      this.#toldFull ||= heard;
      return;
    }
    const stream = new Stream(number);
    this.#streams.set(number, stream);
    this.#hearing.wait(stream);
  }

  /**
   * The engine has said all of a stream.
   * @param {Stream} stream
   */
  #over(stream) {
    stream.complete = true;
    this.#streams.delete(stream.number);
    this.#hearing.finish(stream);
  }

  /** @param {Stream} stream */
  #cancelled(stream) {
    this.#streams.delete(stream.number);
    this.#hearing.takeOut((other) => other === stream);
    stream.complete = true;
    if (stream !== this.current || this.activity === "idle") return;
    const from = stream.base + (stream.at(this.#hearing.sample).start ?? 0);
    const paused = this.activity === "paused";
    this.#hearing.stop();
    if (stream.own) this.#speaking.cancelled(stream, from, paused);
    else this.onended("Stopped elsewhere.");
    this.#hearing.next();
  }

  /** @param {Frame} frame */
  #frame(frame) {
    const stream = this.#streams.get(frame.stream);
    const before = stream?.gaps ?? 0;
    if (!stream?.take(frame)) return;
    this.gaps += stream.gaps - before;
    this.#hearing.push(stream, frame);
    this.#fetcher.regulate(stream);
  }
}
