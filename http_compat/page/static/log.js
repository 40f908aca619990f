// The event log: what passed between page and engine, the newest first. Made only while it is open.

/** @typedef {import("./protocol.js").Message} Message */
/** @typedef {import("./protocol.js").Frame} Frame */

/** Entries that are kept. */
const KEPT = 300;

/** Characters of an entry that are shown. */
const SHOWN = 4_000;

/** @type {Record<string, string>} */
const ARROWS = { sent: "→", came: "←" };

/** @type {Record<string, string>} */
const SPOKEN = { sent: "sent", came: "received" };

/**
 * @typedef {object} Entry
 * @property {number} ms since the page was opened
 * @property {"sent" | "came"} direction
 * @property {string} type
 * @property {string} gist
 * @property {object} content
 * @property {HTMLElement} [element]
 */

export class Log {
  #folder;
  #list;
  #count;
  /** @type {Entry[]} */
  #entries = [];
  #total = 0;
  #frames = { stream: 0, first: 0, last: 0, samples: 0 };

  /**
   * @param {HTMLDetailsElement} folder
   * @param {HTMLElement} list
   * @param {HTMLElement} count
   */
  constructor(folder, list, count) {
    this.#folder = folder;
    this.#list = list;
    this.#count = count;
    folder.addEventListener("toggle", () => this.#draw());
  }

  /**
   * Notes a message.
   * @param {"sent" | "came"} direction
   * @param {Message} message
   */
  message(direction, message) {
    this.#add({
      ms: performance.now(),
      direction,
      type: message.type,
      gist: gist(message),
      content: message,
    });
  }

  /**
   * Notes a frame; those in a row are one entry.
   * @param {Frame} frame
   */
  frame({ stream, seq, sample, pcm, ...flags }) {
    const last = this.#entries[0];
    const run = this.#frames;
    const goesOn = last?.type === "frames" && run.stream === stream && seq === run.last + 1;
    if (!goesOn) Object.assign(run, { stream, first: seq, samples: 0 });
    run.last = seq;
    run.samples += pcm.length;
    const told = Object.entries(flags).flatMap(([name, set]) => (set ? [name] : []));
    const gist = `stream ${stream} · ${run.first}–${seq} · ${Math.round(run.samples / 24)} ms`;
    const content = { stream, seq, sample, samples: pcm.length, flags: told };
    if (goesOn) {
      Object.assign(last, { gist, content });
      const shown = last.element?.querySelector(".gist");
      if (shown) shown.textContent = gist;
    } else {
      this.#add({ ms: performance.now(), direction: "came", type: "frames", gist, content });
    }
  }

  /** @param {Entry} entry */
  #add(entry) {
    this.#total += 1;
    this.#entries.unshift(entry);
    const gone = this.#entries.length > KEPT ? this.#entries.pop() : undefined;
    this.#count.textContent = String(this.#total);
    if (!this.#folder.open) return;
    gone?.element?.remove();
    this.#list.prepend(this.#element(entry));
  }

  #draw() {
    const entries = this.#folder.open ? this.#entries : [];
    this.#list.replaceChildren(...entries.map((entry) => this.#element(entry)));
  }

  /** @param {Entry} entry */
  #element(entry) {
    const item = document.createElement("li");
    const folder = document.createElement("details");
    const summary = document.createElement("summary");
    const arrow = part("span", ARROWS[entry.direction]);
    arrow.setAttribute("role", "img");
    arrow.setAttribute("aria-label", SPOKEN[entry.direction]);
    summary.append(
      part("time", (entry.ms / 1000).toFixed(3)),
      arrow,
      part("span", entry.type),
      part("span", entry.gist, "gist"),
    );
    const content = document.createElement("pre");
    folder.append(summary, content);
    folder.addEventListener("toggle", () => {
      const text = folder.open ? JSON.stringify(entry.content, null, 2) : "";
      content.textContent = text.length > SHOWN ? `${text.slice(0, SHOWN)} …` : text;
    });
    item.append(folder);
    entry.element = item;
    return item;
  }
}

/**
 * @param {string} name
 * @param {string} text
 * @param {string} [style]
 */
function part(name, text, style = "") {
  const element = document.createElement(name);
  element.className = style;
  element.textContent = text;
  return element;
}

/**
 * A few words about a message.
 * @param {Message} message
 */
function gist(message) {
  const words = [];
  if (message.stream !== undefined) words.push(`stream ${message.stream}`);
  if (message.code) words.push(message.code);
  const text = message.text ?? message.message;
  if (text) words.push(text.length > 80 ? `${text.slice(0, 80)}…` : text);
  return words.join(" · ");
}
