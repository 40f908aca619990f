// A connection to the engine that is opened again when it ends. Shell.

import { PROTOCOL, decodeFrame, decodeMessage } from "./protocol.js";

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./protocol.js").Frame} Frame */

/** Pause before the first attempt to connect again; each later one is twice as long … */
const FIRST_PAUSE_MS = 250;
/** … but no longer than this. */
const LONGEST_PAUSE_MS = 8_000;
/** How long an attempt may take up to `ready`. */
const PATIENCE_MS = 10_000;
/** A connection that stood so long was a good one: the pauses begin anew. */
const STANDS_MS = 5_000;

/** What the engine refused; its message is a sentence. */
export class Refused extends Error {
  /** @param {Message} error as the engine sent it */
  constructor(error) {
    super(error.message);
    this.code = String(error.code);
    this.retryable = Boolean(error.retryable);
  }
}

/** The connection ended before the answer came. */
export class Lost extends Error {
  constructor() {
    super("The connection to the engine was lost.");
  }
}

/**
 * What is said to the listener of an error.
 * @param {unknown} error
 * @returns {string}
 */
export function sentence(error) {
  return error instanceof Error ? error.message : String(error);
}

/**
 * The engine's address for a page. One that came by https may not use ws; behind a proxy that has the
 * certificate, the engine is behind it too.
 * @param {string} protocol of the page, as `location` has it
 * @param {string} engine
 * @returns {string}
 */
export function addressFor(protocol, engine) {
  return protocol === "https:" ? engine.replace(/^ws:/, "wss:") : engine;
}

/**
 * How the connection is.
 * @typedef {"closed" | "connecting" | "open" | "waiting" | "locked"} State locked: a token is needed
 */

export class Connection {
  /** @type {WebSocket | undefined} */
  #socket;
  /** @type {Map<string, {resolve: (answer: Message) => void, reject: (error: Error) => void}>} */
  #asked = new Map();
  #asks = 0;
  #pause = FIRST_PAUSE_MS;
  #openedAt = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  #wanted = false;
  /** @type {string | undefined} what the last fatal error said */
  #fatal;
  /** @type {State} */
  state = "closed";

  /** Called when `state` has changed, with a sentence if that is bad. @type {(why?: string) => void} */
  onstate = () => {};
  /** Called with the first message of each connection. @type {(ready: Message) => void} */
  onready = () => {};
  /** Called with what answers nothing. @type {(message: Message) => void} */
  onmessage = () => {};
  /** Called when a connection has ended, with its close code. @type {(code: number) => void} */
  onclose = () => {};
  /** Called with sound. @type {(frame: Frame) => void} */
  onframe = () => {};
  /** Called with all that passes, for the log. @type {(direction: "sent" | "came", message: Message) => void} */
  ontraffic = () => {};

  /**
   * @param {string} url of the engine
   * @param {{token?: string, explain: () => Promise<string>}} options token: if the engine wants one;
   *   explain: finds out why there is no connection, as a browser does not tell pages
   */
  constructor(url, { token = "", explain }) {
    this.url = url;
    this.token = token;
    this.explain = explain;
  }

  /** Connects, now, and again whenever it ends. */
  open() {
    this.#wanted = true;
    if (this.state === "open" || this.state === "connecting") return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  /** Leaves. */
  close() {
    this.#wanted = false;
    clearTimeout(this.#timer);
    this.#socket?.close(1000);
    this.#set("closed");
  }

  /**
   * Says something that needs no answer; nothing happens without a connection.
   * @param {Message} message
   */
  send(message) {
    if (this.state !== "open") return;
    this.#write(message);
  }

  /**
   * Asks, and waits for the answer.
   * @param {Message} message without an id
   * @returns {Promise<Message>}
   * @throws {Refused} by the engine
   * @throws {Lost} there is no connection, or it ended
   */
  ask(message) {
    if (this.state !== "open") return Promise.reject(new Lost());
    this.#asks += 1;
    const id = `p${this.#asks}`;
    return new Promise((resolve, reject) => {
      this.#asked.set(id, { resolve, reject });
      this.#write({ ...message, id });
    });
  }

  /**
   * Asks for what may fail without harm.
   * @param {Message} message
   * @param {(answer: Message) => void} [then]
   */
  attempt(message, then = () => {}) {
    this.ask(message).then(then, (error) => {
      if (!(error instanceof Lost || error instanceof Refused)) throw error;
    });
  }

  /** @param {Message} message */
  #write(message) {
    this.#socket?.send(JSON.stringify(message));
    this.ontraffic("sent", message);
  }

  /**
   * @param {State} state
   * @param {string} [why]
   */
  #set(state, why) {
    this.state = state;
    this.onstate(why);
  }

  #connect() {
    this.#set("connecting");
    this.#fatal = undefined;
    const socket = new WebSocket(this.url, [PROTOCOL]);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#timer = setTimeout(() => socket.close(), PATIENCE_MS);
    socket.onopen = () => {
      if (this.token) socket.send(JSON.stringify({ type: "auth", token: this.token }));
    };
    socket.onmessage = ({ data }) => this.#came(socket, data);
    socket.onclose = ({ code, reason }) => this.#ended(socket, code, reason);
  }

  /**
   * @param {WebSocket} socket
   * @param {string | ArrayBuffer} data
   */
  #came(socket, data) {
    if (socket !== this.#socket) return;
    try {
      if (typeof data === "string") this.#read(decodeMessage(data));
      else this.onframe(decodeFrame(data));
    } catch (error) {
      // Once more would bring the same: this is another protocol, or a fault that must be seen.
      this.#fatal = sentence(error);
      socket.close(4000);
      console.error(error);
    }
  }

  /** @param {Message} message */
  #read(message) {
    this.ontraffic("came", message);
    if (message.type === "ready") {
      clearTimeout(this.#timer);
      this.#openedAt = performance.now();
      this.#set("open");
      this.onready(message);
      return;
    }
    if (message.type === "error" && message.fatal) this.#fatal = message.message;
    const asked = message.type === "warning" ? undefined : this.#asked.get(message.reply_to);
    if (!asked) {
      this.onmessage(message);
      return;
    }
    this.#asked.delete(message.reply_to);
    if (message.type === "error") asked.reject(new Refused(message));
    else asked.resolve(message);
  }

  /**
   * @param {WebSocket} socket
   * @param {number} code
   * @param {string} reason
   */
  async #ended(socket, code, reason) {
    if (socket !== this.#socket) return;
    clearTimeout(this.#timer);
    this.#socket = undefined;
    const stood = this.#openedAt > 0 && performance.now() - this.#openedAt > STANDS_MS;
    this.#openedAt = 0;
    for (const { reject } of this.#asked.values()) reject(new Lost());
    this.#asked.clear();
    this.onclose(code);
    if (!this.#wanted) return;
    if (code === 4401 || code === 4408) {
      this.#wanted = false;
      this.#set("locked", this.#fatal ?? reason);
      return;
    }
    if (stood) this.#pause = FIRST_PAUSE_MS;
    this.#set("waiting", this.#fatal ?? reason);
    this.#timer = setTimeout(() => this.#connect(), this.#pause * (0.8 + 0.4 * Math.random()));
    this.#pause = Math.min(2 * this.#pause, LONGEST_PAUSE_MS);
    if (!this.#fatal && !reason) {
      const why = await this.explain();
      if (this.state === "waiting") this.onstate(why);
    }
  }
}
