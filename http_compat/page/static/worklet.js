// Plays one stream on the audio thread: a ring of samples, and the rules of when it sounds.
//
// Told by messages, in this order: begin, then any number of push, then end; and pause, resume,
// stop at any time. What is told of an older generation is ignored, so that a frame that was on its way when
// the listener stopped is not heard. Tells how things are some 20 times a second, and at once when
// the state changes.
//
//   idle      nothing to play
//   filling   waits until there is enough to begin, or to go on after an underrun
//   playing
//   paused    keeps what it has
//   drained   the stream was played to its end
//
// The samples of the stream go out as they are, int16 / 32768, but for the ramps at a stop, and at a
// pause and behind it. A file of its own, because a worklet cannot import in every browser.

/** What must be there before sound begins: 100 ms. After each underrun it is twice as much … */
const PREBUFFER = 2400;
/** … up to 1.6 s: few long halts are easier to bear than many short ones. */
const PREBUFFER_MOST = 16 * PREBUFFER;

/** Length of the ramps that keep a stop from clicking: 5 ms. */
const RAMP = 120;

/** Frames between two reports: 50 ms. */
const REPORT = 1200;

/** Room at first: 43 s. It grows by doubling, and never overwrites. */
const ROOM = 2 ** 20;

/** Samples in a circle; the size is a power of two. */
class Ring {
  #samples = new Int16Array(ROOM);
  #read = 0;
  count = 0;

  /** @param {Int16Array} pcm */
  push(pcm) {
    while (this.count + pcm.length > this.#samples.length) this.#grow();
    const size = this.#samples.length;
    const write = (this.#read + this.count) & (size - 1);
    const head = Math.min(pcm.length, size - write);
    this.#samples.set(pcm.subarray(0, head), write);
    this.#samples.set(pcm.subarray(head), 0);
    this.count += pcm.length;
  }

  /**
   * The sample that is `offset` behind the next one.
   * @param {number} offset less than `count`
   */
  peek(offset) {
    return this.#samples[(this.#read + offset) & (this.#samples.length - 1)];
  }

  /** @param {number} count of samples that are done with */
  drop(count) {
    this.#read = (this.#read + count) & (this.#samples.length - 1);
    this.count -= count;
  }

  clear() {
    this.#read = 0;
    this.count = 0;
    if (this.#samples.length > ROOM) this.#samples = new Int16Array(ROOM);
  }

  #grow() {
    const grown = new Int16Array(2 * this.#samples.length);
    for (let n = 0; n < this.count; n += 1) grown[n] = this.peek(n);
    this.#samples = grown;
    this.#read = 0;
  }
}

class Player extends AudioWorkletProcessor {
  #ring = new Ring();
  #generation = 0;
  /** @type {"idle" | "filling" | "playing" | "paused" | "drained"} */
  #state = "idle";
  #ended = false;
  #played = 0;
  #underruns = 0;
  #enough = PREBUFFER;
  #rise = 0; // how much of the ramp behind a pause is still to come
  /** @type {Float32Array} what is left to say of a sound that was cut off */
  #tail = new Float32Array(0);
  #reported = 0;

  constructor() {
    super();
    this.port.onmessage = ({ data }) => this.#told(data);
  }

  /** @param {{type: string, generation: number, pcm?: Int16Array}} message */
  #told(message) {
    if (message.type === "begin") {
      this.#cut();
      this.#ring.clear();
      this.#generation = message.generation;
      this.#ended = false;
      this.#played = 0;
      this.#underruns = 0;
      this.#enough = PREBUFFER;
      this.#rise = 0;
      this.#become("filling");
    }
    if (message.generation !== this.#generation) return;
    switch (message.type) {
      case "push":
        this.#ring.push(/** @type {Int16Array} */ (message.pcm));
        break;
      case "end":
        this.#ended = true;
        break;
      case "pause":
        this.#cut();
        if (this.#state === "playing" || this.#state === "filling") this.#become("paused");
        break;
      case "resume":
        if (this.#state !== "paused") break;
        this.#rise = this.#played ? RAMP : 0;
        // What was enough once is enough: it need not be waited for again.
        this.#become(this.#played && this.#ring.count ? "playing" : "filling");
        break;
      case "stop":
        this.#cut();
        this.#ring.clear();
        this.#become("idle");
    }
  }

  /** Keeps a ramp down from where the sound is; it is heard though the samples stay or go. */
  #cut() {
    if (this.#state !== "playing") return;
    this.#tail = Float32Array.from({ length: Math.min(RAMP, this.#ring.count) }, (_, n) => {
      return (this.#ring.peek(n) / 32_768) * (1 - (n + 1) / RAMP);
    });
  }

  /** @param {"idle" | "filling" | "playing" | "paused" | "drained"} state */
  #become(state) {
    this.#state = state;
    this.#report();
  }

  #report() {
    this.#reported = currentFrame;
    this.port.postMessage({
      generation: this.#generation,
      state: this.#state,
      played: this.#played,
      buffered: this.#ring.count,
      underruns: this.#underruns,
      // when the next sample that is played goes out
      time: currentFrame / sampleRate,
    });
  }

  /**
   * Plays the next block.
   * @param {Float32Array[][]} _inputs none
   * @param {Float32Array[][]} outputs one, mono, zeros at first
   * @returns {boolean} true: a silent player may be told to play again
   */
  process(_inputs, outputs) {
    const out = outputs[0][0];
    if (this.#tail.length) {
      const faded = Math.min(this.#tail.length, out.length);
      out.set(this.#tail.subarray(0, faded));
      this.#tail = this.#tail.subarray(faded);
    }
    if (this.#state === "filling" && (this.#ended || this.#ring.count >= this.#enough)) {
      this.#become("playing");
    }
    if (this.#state === "playing") this.#play(out);
    if (currentFrame - this.#reported >= REPORT) this.#report();
    return true;
  }

  /** @param {Float32Array} out */
  #play(out) {
    const count = Math.min(out.length, this.#ring.count);
    for (let n = 0; n < count; n += 1) {
      let value = this.#ring.peek(n) / 32_768;
      if (this.#rise > 0) {
        value *= 1 - this.#rise / RAMP;
        this.#rise -= 1;
      }
      out[n] += value;
    }
    this.#ring.drop(count);
    this.#played += count;
    if (this.#ring.count) return;
    if (this.#ended) {
      this.#become("drained");
    } else if (count < out.length) {
      this.#underruns += 1;
      this.#enough = Math.min(2 * this.#enough, PREBUFFER_MOST);
      this.#become("filling");
    }
  }
}

registerProcessor("player", Player);
