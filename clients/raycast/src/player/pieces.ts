/** Cuts a text into pieces that the player takes. */

/** Code points of a piece: `text_chars`, as kokoro-live has it unless it is set otherwise. */
export const PIECE_CHARS = 16_000;
/** Bytes of a piece as JSON: a message has at most 65,536, and its other fields need some. */
export const PIECE_BYTES = 60_000;

/** Where a text may be cut, best first; each matches what stands before the cut. */
const SEAMS = [/\n\s*\n\s*/gu, /\n\s*/gu, /[.!?…。！？]+["'”’»)\]]*\s*/gu, /\s+/gu];

/**
 * The pieces of a text, none of them over the limits; put together they are the text.
 *
 * A cut is in the second half of what fits: between paragraphs if there are some, else lines, else
 * sentences, else words. Half a surrogate pair, which is no text, becomes U+FFFD.
 */
export function pieces(text: string): string[] {
  const whole = Buffer.from(text, "utf8").toString("utf8");
  const cut: string[] = [];
  for (let at = 0; at < whole.length;) {
    const end = at + fitting(whole, at);
    const piece = whole.slice(at, end < whole.length ? seam(whole, at, end) : end);
    cut.push(piece);
    at += piece.length;
  }
  return cut;
}

/** How many UTF-16 units of a text, from one on, are within the limits. */
function fitting(text: string, from: number): number {
  let units = 0;
  let chars = 0;
  let bytes = 2;
  while (from + units < text.length) {
    const char = String.fromCodePoint(text.codePointAt(from + units)!);
    chars += 1;
    bytes += Buffer.byteLength(JSON.stringify(char)) - 2;
    if (chars > PIECE_CHARS || bytes > PIECE_BYTES) break;
    units += char.length;
  }
  return units;
}

/** The best place to cut, at `end` at the latest. */
function seam(text: string, from: number, end: number): number {
  const half = from + Math.floor((end - from) / 2);
  const window = text.slice(half, end);
  for (const pattern of SEAMS) {
    const found = [...window.matchAll(pattern)].pop();
    if (found) return half + found.index + found[0].length;
  }
  return end;
}

/** How many characters, as code points: half a pair is none. */
export function characters(text: string): number {
  return [...text].length;
}

/** Whether there is anything in a text that is spoken: pictures, dashes, dots and space are not. */
export function isSpoken(text: string): boolean {
  return /[\p{L}\p{N}\p{Sc}\p{Sm}&%@#°©®™]/u.test(text);
}
