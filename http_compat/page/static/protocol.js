// kokoro.v1 on the wire: how a frame of sound is read. No DOM, no sockets; see docs/protocol.md.

export const PROTOCOL = "kokoro.v1";

/** Samples a second of everything the engine sends. */
export const SAMPLE_RATE = 24_000;

const HEADER_BYTES = 20;
const VERSION = 1;
const PCM_S16LE = 0;
const FIRST = 1;
const LAST = 2;
const DISCONTINUITY = 4;
const SEGMENT_FIRST = 8;

/**
 * A control message: its type, and the fields that docs/protocol.md lists for it.
 * @typedef {{type: string, [field: string]: any}} Message
 */

/**
 * One frame of sound.
 * @typedef {object} Frame
 * @property {number} stream number from `stream.opened`
 * @property {number} seq 0, 1, 2 … of its stream
 * @property {number} sample samples of the stream before this frame
 * @property {boolean} first first of its stream
 * @property {boolean} last last of its stream
 * @property {boolean} discontinuity frames before it were left out
 * @property {boolean} segmentFirst first of a segment
 * @property {Int16Array<ArrayBuffer>} pcm mono; shares the message's memory
 */

/**
 * Reads a binary message.
 * @param {ArrayBuffer} data as it came
 * @returns {Frame}
 * @throws {Error} with a sentence, if it is no frame of this version
 */
export function decodeFrame(data) {
  if (data.byteLength < HEADER_BYTES) {
    throw new Error(`A frame has a header of ${HEADER_BYTES} bytes; this one has ${data.byteLength}.`);
  }
  const header = new DataView(data, 0, HEADER_BYTES);
  const version = header.getUint8(0);
  if (version !== VERSION) throw new Error(`Frames of version ${version} are not understood.`);
  const kind = header.getUint8(1);
  if (kind !== PCM_S16LE) throw new Error(`Frames of kind ${kind} are not understood.`);
  if (data.byteLength % 2) throw new Error("A frame ends in the middle of a sample.");
  const flags = header.getUint16(2, true);
  return {
    stream: header.getUint32(4, true),
    seq: header.getUint32(8, true),
    sample: Number(header.getBigUint64(12, true)),
    first: Boolean(flags & FIRST),
    last: Boolean(flags & LAST),
    discontinuity: Boolean(flags & DISCONTINUITY),
    segmentFirst: Boolean(flags & SEGMENT_FIRST),
    // A view, as the header leaves it on an even place; every platform with a browser is little-endian.
    pcm: new Int16Array(data, HEADER_BYTES),
  };
}

/**
 * Reads a text message.
 * @param {string} data as it came
 * @returns {Message}
 * @throws {Error} with a sentence, if it is none
 */
export function decodeMessage(data) {
  let message;
  try {
    message = JSON.parse(data);
  } catch {
    throw new Error("The engine sent something that is no JSON.");
  }
  if (typeof message?.type !== "string") throw new Error("The engine sent a message without a type.");
  return message;
}
