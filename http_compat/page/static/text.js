// Text that is measured in code points, as the protocol does, where JavaScript counts UTF-16. No DOM.

/** Code points between two remembered places: what has to be walked through at most. */
const STRIDE = 256;

/** A text that grows at its end. */
export class Text {
  #text = "";
  #length = 0;
  /** UTF-16 offset of every STRIDE-th code point. */
  #places = [0];

  /** @param {string} [text] */
  constructor(text = "") {
    this.append(text);
  }

  /**
   * Adds text at the end. A half of a surrogate pair, which no message can carry, becomes U+FFFD;
   * so do not cut between the halves of one.
   * @param {string} text
   */
  append(text) {
    let at = this.#text.length;
    const added = text.toWellFormed();
    this.#text += added;
    for (const character of added) {
      at += character.length;
      this.#length += 1;
      if (this.#length % STRIDE === 0) this.#places.push(at);
    }
  }

  /** Code points. */
  get length() {
    return this.#length;
  }

  /** All of it. */
  toString() {
    return this.#text;
  }

  /**
   * Where a code point begins in the string.
   * @param {number} codePoint its index; one outside the text counts as the end nearest to it
   * @returns {number} in UTF-16 units
   */
  unitsAt(codePoint) {
    const wanted = Math.max(0, Math.min(codePoint, this.#length));
    const stride = Math.floor(wanted / STRIDE);
    let at = this.#places[stride];
    for (let left = wanted - stride * STRIDE; left > 0; left -= 1) {
      at += /** @type {number} */ (this.#text.codePointAt(at)) > 0xffff ? 2 : 1;
    }
    return at;
  }

  /**
   * A part of it.
   * @param {number} from in code points
   * @param {number} [to] in code points; the end, if it is left out
   */
  slice(from, to = this.#length) {
    return this.#text.slice(this.unitsAt(from), this.unitsAt(to));
  }
}

/**
 * Cuts a text into pieces as a language model writes: short words whole, long ones in parts, the
 * space with the word behind it.
 * @param {string} text
 * @returns {string[]} which are the text, put together
 */
export function tokens(text) {
  return text.match(/\s*[^\s]{1,6}|\s+$/gu) ?? [];
}

/**
 * A name for a language, for people.
 * @param {string} code such as en-us or cmn
 */
export function languageName(code) {
  try {
    const [language, region] = code.split("-");
    const tag = region ? `${language}-${region.toUpperCase()}` : language;
    return new Intl.DisplayNames(["en"], { type: "language" }).of(tag) ?? code;
  } catch {
    return code;
  }
}
