// Runs in the page before its own modules: listens to what the worklet gives to the device.

/* global AudioWorkletProcessor, currentFrame, registerProcessor */

if (globalThis.AudioWorkletProcessor) {
  class Tap extends AudioWorkletProcessor {
    process([[samples]]) {
      // Without an input, before anything is connected, there is silence.
      this.port.postMessage({ frame: currentFrame, samples: samples?.slice() });
      return true;
    }
  }
  registerProcessor("tap", Tap);
} else {
  const blocks = [];
  const connect = AudioNode.prototype.connect;
  const add = Highlight.prototype.add;
  globalThis.tap = {
    ready: false,
    context: undefined,
    /** Each word that was marked: when by the clock of the context, and where in the text. */
    words: [],
    /** What the engine told of words, read by other code than the page's. */
    marks: [],
    /** What the page told the engine, and when. */
    sent: [],
    /** When frames came. */
    frames: [],
    /** Frames to come that the page shall not get. */
    drop: 0,
    read() {
      const length = blocks.reduce((sum, { samples }) => sum + samples.length, 0);
      const all = new Float32Array(length);
      let at = 0;
      for (const { samples } of blocks) {
        all.set(samples, at);
        at += samples.length;
      }
      return [new Uint8Array(all.buffer).toBase64(), blocks[0].frame];
    },
  };
  globalThis.WebSocket = class extends WebSocket {
    constructor(...how) {
      super(...how);
      this.addEventListener("message", (event) => {
        const message = typeof event.data === "string" ? JSON.parse(event.data) : undefined;
        if (message?.type === "marks") globalThis.tap.marks.push(...message.words);
        if (!message) globalThis.tap.frames.push(performance.now());
        if (message || !globalThis.tap.drop) return;
        globalThis.tap.drop -= 1;
        event.stopImmediatePropagation();
      });
    }

    send(data) {
      globalThis.tap.sent.push({ ms: performance.now(), ...JSON.parse(data) });
      super.send(data);
    }
  };
  AudioNode.prototype.connect = function (target, ...rest) {
    if (target instanceof AudioDestinationNode) void listen(this, target);
    return connect.call(this, target, ...rest);
  };
  async function listen(node, target) {
    const { context } = node;
    await context.audioWorklet.addModule("/test/tap.js");
    const tapping = new AudioWorkletNode(context, "tap", { channelCount: 1, channelCountMode: "explicit" });
    tapping.port.onmessage = ({ data: { frame, samples } }) => {
      blocks.push({ frame, samples: samples ?? new Float32Array(128) });
      globalThis.tap.ready = true;
    };
    connect.call(node, tapping);
    connect.call(tapping, target); // silence: its output is never written
    globalThis.tap.context = context;
  }
  /** Where a place is in all of the text, which is in several nodes. */
  function offset(node, within) {
    for (let one = node.previousSibling; one; one = one.previousSibling) within += one.length;
    return within;
  }
  Highlight.prototype.add = function (range) {
    if (globalThis.tap.context && CSS.highlights.get("word") === this) {
      const { currentTime, outputLatency } = globalThis.tap.context;
      const seen = { time: currentTime, latency: outputLatency };
      const from = offset(range.startContainer, range.startOffset);
      const to = offset(range.endContainer, range.endOffset);
      globalThis.tap.words.push({ ...seen, from, to });
    }
    return add.call(this, range);
  };
}
