// Writes a text as a language model does: in small pieces, unevenly, with a halt between paragraphs.

import { tokens } from "./text.js";

/** Between two pieces, on average: 30 a second, which is a fast model. */
const PIECE_MS = 33;

/** Before a new paragraph. */
const HALT_MS = 350;

/**
 * Writes a text in the background.
 * @param {string} text
 * @param {{append: (piece: string) => void, flush: () => void, end: () => void}} to flush: before a halt
 * @returns {() => void} stops it
 */
export function write(text, { append, flush, end }) {
  const pieces = tokens(text);
  /** @type {ReturnType<typeof setTimeout>} */
  let timer;
  const step = () => {
    const piece = pieces.shift();
    if (piece === undefined) {
      end();
      return;
    }
    append(piece);
    const halts = pieces[0]?.includes("\n\n") ?? false;
    if (halts) flush();
    timer = setTimeout(step, halts ? HALT_MS : PIECE_MS * (0.4 + 1.2 * Math.random()));
  };
  step();
  return () => clearTimeout(timer);
}
