// Sound out: the audio context, and the worklet that plays in it. Shell.
//
// One stream at a time. What was heard is told in samples of the stream, also behind a gap, and with
// what the device itself holds back (`outputLatency`) taken off.

import { SAMPLE_RATE } from "./protocol.js";

/**
 * What the worklet reports.
 * @typedef {object} Report
 * @property {number} generation which stream
 * @property {"idle" | "filling" | "playing" | "paused" | "drained"} state
 * @property {number} played samples that went out
 * @property {number} buffered samples that wait
 * @property {number} underruns how often it had nothing to play in the middle of the stream
 * @property {number} time of the context, when the next one goes out, in seconds
 */

/** Plays streams, one after the other. */
export class Playback {
  /** @type {AudioContext | undefined} */
  #context;
  /** @type {AudioWorkletNode | undefined} */
  #node;
  /** @type {Promise<void> | undefined} */
  #opening;
  /** What was to be told before there was a node. @type {{message: object, transferred: Transferable[]}[]} */
  #untold = [];
  #generation = 0;
  #pushed = 0;
  #heard = 0;
  /** Where in the stream the samples belong, from the n-th on that were pushed. */
  #anchors = [{ pushed: 0, sample: 0 }];
  /** @type {Report} */
  #report = { generation: 0, state: "idle", played: 0, buffered: 0, underruns: 0, time: 0 };

  /** Called when the worklet has told something. */
  onreport = () => {};
  /** Called when the browser lets sound out, or holds it back. */
  oncontext = () => {};

  /**
   * Why there can be no sound in this browser, or at this address; nothing, if there can.
   * @returns {string | undefined}
   */
  static obstacle() {
    if (!globalThis.isSecureContext) {
      return (
        "Browsers play this sound only on pages of this machine or over https: open the page as " +
        "http://localhost and this port, for instance through an SSH tunnel."
      );
    }
    if (!globalThis.AudioWorkletNode) {
      return "This browser has no AudioWorklet, which plays the sound; a current one has it.";
    }
    return undefined;
  }

  /**
   * Makes the context, once, and asks for sound. Call it inside a click or a key, else the browser holds the
   * sound back until there is one.
   */
  async open() {
    this.#opening ??= this.#make().catch((error) => {
      this.#opening = undefined; // the next click tries anew
      throw error;
    });
    const resumed = this.#context?.resume(); // at once: the click counts only for a moment
    await this.#opening;
    // A context that is held back keeps this promise open until a click: not waited for.
    resumed?.catch(() => {});
  }

  async #make() {
    const context = new AudioContext({ sampleRate: SAMPLE_RATE, latencyHint: "interactive" });
    this.#context = context;
    try {
      await this.#connect(context);
    } catch (error) {
      this.#context = undefined;
      await context.close(); // browsers let a page have few of them
      throw error;
    }
  }

  /** @param {AudioContext} context that the worklet is to play in */
  async #connect(context) {
    if (context.sampleRate !== SAMPLE_RATE) {
      throw new Error(`This browser does not play ${SAMPLE_RATE} samples a second.`);
    }
    context.onstatechange = () => this.oncontext();
    await context.audioWorklet.addModule(new URL("worklet.js", import.meta.url));
    const node = new AudioWorkletNode(context, "player", {
      numberOfInputs: 0,
      outputChannelCount: [1],
    });
    node.port.onmessage = ({ data }) => {
      if (data.generation !== this.#generation) return;
      this.#report = data;
      this.onreport();
    };
    node.connect(context.destination);
    for (const { message, transferred } of this.#untold) node.port.postMessage(message, transferred);
    this.#untold = [];
    this.#node = node;
  }

  /** Whether the browser holds the sound back. */
  get suspended() {
    return this.#context !== undefined && this.#context.state !== "running";
  }

  /** Whether there is a context yet. */
  get opened() {
    return this.#node !== undefined;
  }

  get state() {
    return this.#report.state;
  }

  get underruns() {
    return this.#report.underruns;
  }

  /** Whether any sample of the stream went out. */
  get begun() {
    return this.#report.played > 0;
  }

  /** What came and was not played yet, in milliseconds. */
  get bufferedMs() {
    if (this.#report.state === "idle") return 0;
    return ((this.#pushed - this.#played()) / SAMPLE_RATE) * 1000;
  }

  /** How long a sample takes from the worklet to the ear, in seconds. */
  get latency() {
    return this.#context?.outputLatency || this.#context?.baseLatency || 0;
  }

  /** When what the last report called the next sample is heard, by performance.now(). */
  get nextHeardAt() {
    const since = (this.#context?.currentTime ?? 0) - this.#report.time;
    return performance.now() + (this.latency - since) * 1000;
  }

  /** The sample of the stream that is heard now; never one before what was told already. */
  get heard() {
    const behind = this.state === "playing" ? this.latency * SAMPLE_RATE : 0;
    this.#heard = Math.max(this.#heard, this.#played() - behind);
    return this.#sampleAt(this.#heard);
  }

  #played() {
    const { played, buffered, state, time } = this.#report;
    if (state !== "playing" || !this.#context) return played;
    const since = Math.max(0, this.#context.currentTime - time) * SAMPLE_RATE;
    return played + Math.min(since, buffered);
  }

  /** @param {number} pushed */
  #sampleAt(pushed) {
    const anchor = this.#anchors.findLast((one) => one.pushed <= pushed) ?? this.#anchors[0];
    return Math.round(anchor.sample + pushed - anchor.pushed);
  }

  /** A new stream; what plays is cut off. */
  begin() {
    this.#generation += 1;
    this.#pushed = 0;
    this.#heard = 0;
    this.#anchors = [{ pushed: 0, sample: 0 }];
    this.#report = { ...this.#report, state: "filling", played: 0, buffered: 0, underruns: 0 };
    this.#tell("begin");
  }

  /**
   * More of the stream. Its memory goes to the worklet.
   * @param {Int16Array<ArrayBuffer>} pcm
   * @param {number} sample where it belongs in the stream
   */
  push(pcm, sample) {
    if (!pcm.length) return;
    const expected = this.#sampleAt(this.#pushed);
    if (sample !== expected) this.#anchors.push({ pushed: this.#pushed, sample });
    this.#pushed += pcm.length;
    this.#tell("push", { pcm }, [pcm.buffer]);
  }

  /** Nothing more will come of the stream. */
  end() {
    this.#tell("end");
  }

  pause() {
    this.#tell("pause");
  }

  resume() {
    this.#tell("resume");
  }

  /** Silence, and what was not played is gone. */
  stop() {
    this.#tell("stop");
    this.#generation += 1;
    this.#report = { ...this.#report, state: "idle", played: 0, buffered: 0 };
  }

  /**
   * @param {string} type
   * @param {object} [fields]
   * @param {Transferable[]} [transferred]
   */
  #tell(type, fields = {}, transferred = []) {
    const message = { type, generation: this.#generation, ...fields };
    if (this.#node) this.#node.port.postMessage(message, transferred);
    else this.#untold.push({ message, transferred });
  }
}
