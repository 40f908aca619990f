// The text that is read, with the sentence and the word that are heard marked.
//
// The text is one node, and the marks are ranges over it (the CSS Custom Highlight API): a text of a
// million characters costs nothing more, and a screen reader is not told of every word.

/** @typedef {import("./stream.js").Place} Place */

export class Reader {
  #element;
  #node = document.createTextNode("");
  #segment;
  #word;
  #marked = "";

  /** @param {HTMLElement} element that scrolls */
  constructor(element) {
    this.#element = element;
    element.replaceChildren(this.#node);
    this.#segment = highlight("segment");
    this.#word = highlight("word");
  }

  /**
   * Shows a text.
   * @param {string} text
   */
  show(text) {
    const shown = this.#node.data;
    if (text === shown) return;
    // A text that grows keeps its marks, and where it is scrolled to.
    if (shown && text.startsWith(shown)) {
      this.#node.appendData(text.slice(shown.length));
      return;
    }
    this.mark();
    this.#node.data = text;
    this.#element.scrollTop = 0;
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
    if (!place) return undefined;
    const range = document.createRange();
    const length = this.#node.length;
    range.setStart(this.#node, Math.min(place.from, length));
    range.setEnd(this.#node, Math.min(place.to, length));
    mark?.add(range);
    return range;
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
 * @param {string} name of the style
 * @returns {Highlight | undefined} nothing, in a browser without them: the text is read all the same
 */
function highlight(name) {
  if (!globalThis.CSS?.highlights) return undefined;
  const mark = new Highlight();
  CSS.highlights.set(name, mark);
  return mark;
}
