// How much is fetched of a stream. No DOM.
//
// A WebSocket in a browser takes whatever comes, so this page would always be far ahead of who plays the
// same stream at the pace of sound, and hours of a long text would lie in its memory. So it stops following
// a stream of which it has much, and goes on when it has little.

import { Lost } from "./connection.js";
import { SAMPLE_RATE } from "./protocol.js";

/** @typedef {import("./stream.js").Stream} Stream */

/** With so much sound in hand a stream is no longer followed … */
const PLENTY = 20 * SAMPLE_RATE;
/** … and again with so little. */
const LITTLE = 10 * SAMPLE_RATE;

export class Fetcher {
  #connection;
  #inHand;

  /** Called when the engine does not have a stream any more. @type {(stream: Stream) => void} */
  onlost = () => {};

  /**
   * @param {import("./connection.js").Connection} connection
   * @param {(stream: Stream) => number} inHand gives the samples that came of a stream and were not heard
   */
  constructor(connection, inHand) {
    this.#connection = connection;
    this.#inHand = inHand;
  }

  /**
   * Leaves a stream or follows it again, as it is time to.
   * @param {Stream} stream
   */
  regulate(stream) {
    if (stream.complete || this.#connection.state !== "open") return;
    const samples = this.#inHand(stream);
    if (stream.follows === "yes" && samples > PLENTY) {
      stream.follows = "leaving";
      const message = { type: "unsubscribe", stream: stream.number };
      this.#connection.attempt(message, () => (stream.follows = "no"));
    } else if (stream.follows === "no" && samples < LITTLE) {
      this.follow(stream);
    }
  }

  /**
   * Follows a stream behind what came of it.
   * @param {Stream} stream
   */
  follow(stream) {
    stream.follows = "asking";
    this.#connection
      .ask({ type: "subscribe", stream: stream.number, from_seq: stream.nextSeq })
      .then(() => (stream.follows = "yes"))
      .catch((error) => {
        // Lost: with the next connection it is followed anew.
        if (!(error instanceof Lost) && !stream.complete) this.onlost(stream);
      });
  }
}
