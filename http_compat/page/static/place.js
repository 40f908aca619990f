// Tells the engine how far we are with a stream of ours, so that it knows how much time there is. No DOM.

/** @typedef {import("./stream.js").Stream} Stream */

/** Between two reports. */
const EVERY_MS = 250;

export class Place {
  #connection;
  #playback;
  #toldAt = 0;
  #playing = false;

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {import("./playback.js").Playback} playback
   */
  constructor(connection, playback) {
    this.#connection = connection;
    this.#playback = playback;
  }

  /** Another stream is heard. */
  begin() {
    this.#playing = false;
  }

  /**
   * Tells it, if it is another one by now than the engine thinks.
   * @param {Stream | undefined} stream which is heard
   * @param {boolean} paused
   */
  tell(stream, paused) {
    if (!stream?.own || stream.complete) return;
    if (!this.#playback.begun && !paused) return; // that much it thinks itself
    const playing = this.#playback.state === "playing" && !paused;
    const ms = performance.now();
    if (playing === this.#playing && ms - this.#toldAt < EVERY_MS) return;
    this.#toldAt = ms;
    this.#playing = playing;
    const sample = Math.min(this.#playback.heard, stream.samples);
    this.#connection.send({ type: "heard", stream: stream.number, sample, playing });
  }
}
