// The text that is read, with the sentence and the word that are heard marked.
//
// The marks are ranges over the text (the CSS Custom Highlight API): it costs nothing more however many
// words there are, and a screen reader is not told of every one.

/** @typedef {import("./stream.js").Place} Place */

/**
 * UTF-16 units of a text node at most. For each line Chromium looks through all of its node that is drawn in
 * another font, so a paragraph of 100,000 characters with emoji took two seconds as one node.
 */
const NODE = 1_000;

export class Reader {
  #element;
  #shown = "";
  /** @type {Text[]} */
  #nodes = [];
  /** Where each node begins in the text. @type {number[]} */
  #starts = [];
  #segment;
  #word;
  #marked = "";

  /** @param {HTMLElement} element that scrolls */
  constructor(element) {
    this.#element = element;
    this.#segment = highlight("segment");
    this.#word = highlight("word");
  }

  /**
   * Shows a text.
   * @param {string} text
   */
  show(text) {
    const shown = this.#shown;
    if (text === shown) return;
    this.#shown = text;
    // A text that grows keeps its marks, and where it is scrolled to.
    if (shown && text.startsWith(shown)) {
      this.#append(text.slice(shown.length));
      return;
    }
    this.mark();
    this.#nodes = [];
    this.#starts = [];
    this.#element.replaceChildren();
    this.#append(text);
    this.#element.scrollTop = 0;
  }

  /** @param {string} added to what is shown */
  #append(added) {
    const last = this.#nodes.at(-1);
    if (last && last.length + added.length <= NODE) {
      last.appendData(added);
      return;
    }
    let start = last ? /** @type {number} */ (this.#starts.at(-1)) + last.length : 0;
    for (const part of parts(added)) {
      const node = document.createTextNode(part);
      this.#nodes.push(node);
      this.#starts.push(start);
      this.#element.append(node);
      start += part.length;
    }
  }

  /**
   * Marks what is heard, and keeps it in sight.
   * @param {Place} [segment]
   * @param {Place} [word]
   */
  mark(segment, word) {
    const marks = `${segment?.from},${segment?.to},${word?.from},${word?.to}`;
    if (marks === this.#marked) return;
    this.#marked = marks;
    this.#set(this.#segment, segment);
    const range = this.#set(this.#word, word);
    const seen = range ?? this.#set(this.#segment, segment);
    if (seen) this.#scrollTo(seen);
  }

  /**
   * @param {Highlight | undefined} mark
   * @param {Place} [place]
   * @returns {Range | undefined}
   */
  #set(mark, place) {
    mark?.clear();
    if (!place || !this.#nodes.length) return undefined;
    const range = document.createRange();
    range.setStart(...this.#at(place.from));
    range.setEnd(...this.#at(place.to));
    mark?.add(range);
    return range;
  }

  /**
   * @param {number} offset in the text; one behind its end counts as the end
   * @returns {[Text, number]} the node, and the offset in that
   */
  #at(offset) {
    const behind = this.#starts.findIndex((start) => start > offset);
    const at = (behind < 0 ? this.#nodes.length : behind) - 1;
    const node = this.#nodes[at];
    return [node, Math.min(offset - this.#starts[at], node.length)];
  }

  /** @param {Range} range */
  #scrollTo(range) {
    const box = range.getBoundingClientRect();
    const frame = this.#element.getBoundingClientRect();
    const line = box.height ? Math.min(box.height, 48) : 0;
    if (!line || (box.top >= frame.top && box.top + 2 * line <= frame.bottom)) return;
    this.#element.scrollTop += box.top - frame.top - frame.height / 3;
  }
}

/**
 * Cuts a text for nodes: behind spaces, where there are any, and in no surrogate pair.
 * @param {string} text
 * @returns {Generator<string>}
 */
function* parts(text) {
  for (let from = 0; from < text.length; ) {
    let part = text.slice(from, from + NODE);
    if (from + NODE < text.length) {
      const space = Math.max(part.lastIndexOf(" "), part.lastIndexOf("\n"));
      if (space >= 0) part = part.slice(0, space + 1);
      else if (!part.isWellFormed()) part = part.slice(0, -1);
    }
    yield part;
    from += part.length;
  }
}

/**
 * @param {string} name of the style
 * @returns {Highlight | undefined} nothing, in a browser without them: the text is read all the same
 */
function highlight(name) {
  if (!globalThis.CSS?.highlights) return undefined;
  const mark = new Highlight();
  CSS.highlights.set(name, mark);
  return mark;
}
