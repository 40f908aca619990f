// The page's modules without a browser: a socket and a sound device of ours, and time that is told to pass.

import { afterEach, beforeEach, mock } from "node:test";
import { Connection } from "../../../http_compat/page/static/connection.js";
import { Playback } from "../../../http_compat/page/static/playback.js";
import { Session } from "../../../http_compat/page/static/session.js";

/** Samples that the device plays at a time. */
const BLOCK = 128;

/** How long the device takes from the worklet to the ear. */
export const LATENCY_MS = 30;

/** Samples since the world began. */
let frame = 0;

/** Milliseconds since then. */
export const now = () => frame / 24;

/** Has promises that can be kept, kept. */
export const settled = () => new Promise(setImmediate);

/** The connections that were tried, the last one last. @type {Socket[]} */
export const sockets = [];

/** Stands in for `WebSocket`; the engine's end of it is the test. */
class Socket {
  /** What the page said. */
  sent = [];

  constructor() {
    sockets.push(this);
  }

  send(text) {
    this.sent.push(JSON.parse(text));
  }

  close(code = 1005) {
    this.ends(code);
  }

  /** The engine says something. */
  says(message) {
    this.onmessage({ data: JSON.stringify(message) });
  }

  /** The engine lets the page in. */
  greets(instance = "one") {
    this.says({ type: "ready", server: { instance }, limits: { live_chars: 1_000_000 } });
  }

  /** The engine answers the last question of this type that has no answer yet. */
  async answers(type, answer) {
    await settled();
    const asked = this.sent.findLast((message) => message.type === type && !message.answered);
    if (!asked) throw new Error(`Nobody asked: ${type}`);
    asked.answered = true;
    this.says({ type: "ack", ...answer, reply_to: asked.id });
    await settled();
  }

  ends(code, reason = "") {
    this.onclose({ code, reason });
  }
}

// --- the sound device ---------------------------------------------------------------------------------

/** The processors that play. @type {{process: (inputs: never[], outputs: Float32Array[][]) => boolean}[]} */
let processors = [];
/** What the worklet's file registers, once. */
let Processor;
/** What came out, as int16: each value, and how many samples of it in a row; no silence. */
let out = [];

Object.assign(globalThis, {
  sampleRate: 24_000,
  registerProcessor: (_, kind) => (Processor = kind),
  AudioWorkletProcessor: class {
    port = ends.pop();
  },
  AudioContext: class {
    sampleRate = 24_000;
    state = "running";
    destination = {};
    outputLatency = LATENCY_MS / 1000;
    audioWorklet = { addModule: (url) => import(url) };

    get currentTime() {
      return frame / 24_000;
    }

    async resume() {}
  },
  AudioWorkletNode: class {
    constructor() {
      const near = { postMessage: (data) => queueMicrotask(() => far.onmessage({ data })) };
      const far = { postMessage: (data) => queueMicrotask(() => near.onmessage?.({ data })) };
      ends.push(far);
      this.port = near;
      processors.push(new Processor());
    }

    connect() {}
  },
});
Object.defineProperty(globalThis, "currentFrame", { get: () => frame });

/** Ports whose processor is being made. */
const ends = [];

/** Milliseconds pass, in which the device plays. */
export async function passes(ms) {
  for (const until = frame + ms * 24; frame < until;) {
    for (const processor of processors) {
      const block = new Float32Array(BLOCK);
      processor.process([], [[block]]);
      for (const sample of block) heard(Math.round(sample * 32_768));
    }
    await settled();
    mock.timers.tick(Math.floor((frame + BLOCK) / 24) - Math.floor(frame / 24));
    frame += BLOCK;
    await settled();
  }
}

function heard(value) {
  if (!value) return;
  if (out.at(-1)?.value === value) out.at(-1).samples += 1;
  else out.push({ value, samples: 1 });
}

/** What came out since this was asked last. */
export function sounded() {
  const before = out;
  out = [];
  return before;
}

// --- a page -------------------------------------------------------------------------------------------

/** A page that is connected and may sound. */
export async function page() {
  const playback = new Playback();
  const connection = new Connection("ws://engine/", { explain: async () => "Why not." });
  const session = new Session(connection, playback);
  const told = [];
  session.onnotice = (sentence) => told.push(sentence);
  session.onended = (how) => how && told.push(how);
  connection.open();
  const [engine] = sockets;
  engine.greets();
  await playback.open();
  session.opened();
  await settled();
  return { connection, engine, playback, session, told };
}

/** Sound of a stream: so many milliseconds of one value, in a frame. */
export function sound(connection, stream, { seq = 0, sample = 0, ms, value = 1, last = false }) {
  const pcm = new Int16Array(ms * 24).fill(value);
  connection.onframe({ stream, seq, sample, pcm, first: seq === 0, last });
}

beforeEach(() => {
  frame = 0;
  out = [];
  processors = [];
  sockets.length = 0;
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"] });
  mock.method(performance, "now", now);
  mock.method(Math, "random", () => 0.5);
  globalThis.WebSocket = Socket;
});

afterEach(() => {
  mock.timers.reset();
  mock.restoreAll();
});
