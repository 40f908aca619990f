// Draws assets/icon.png, 512 x 512: five bars of sound on a rounded square. No art but arithmetic.
//
// Every pixel is the mean of 4 x 4 points, so that edges are smooth.

import { writeFileSync } from "node:fs";
import { deflateSync } from "node:zlib";

const SIZE = 512;
const POINTS = 4;
const CORNER = 112;
const TOP = [86, 72, 222];
const BOTTOM = [22, 150, 196];
const BAR = { half: 22, apart: 76, heights: [70, 150, 230, 120, 50] };

/** Whether a point, as seen from the middle of a rounded rectangle, is in it. */
function inside(x, y, halfWidth, halfHeight, corner) {
  const dx = Math.max(Math.abs(x) - (halfWidth - corner), 0);
  const dy = Math.max(Math.abs(y) - (halfHeight - corner), 0);
  return dx <= corner && dy <= corner && Math.hypot(dx, dy) <= corner;
}

/** Red, green, blue and opacity at a point, 0-255. */
function colour(x, y) {
  const [left, up] = [x - SIZE / 2, y - SIZE / 2];
  if (!inside(left, up, SIZE / 2, SIZE / 2, CORNER)) return [0, 0, 0, 0];
  const bars = BAR.heights.some((height, at) =>
    inside(left - (at - 2) * BAR.apart, up, BAR.half, height / 2 + BAR.half, BAR.half),
  );
  if (bars) return [255, 255, 255, 255];
  const part = (x + 2 * y) / (3 * SIZE);
  return [...TOP.map((from, at) => from + (BOTTOM[at] - from) * part), 255];
}

function pixel(column, row) {
  const sum = [0, 0, 0, 0];
  for (let point = 0; point < POINTS ** 2; point++) {
    const x = column + ((point % POINTS) + 0.5) / POINTS;
    const y = row + (Math.floor(point / POINTS) + 0.5) / POINTS;
    const [red, green, blue, opacity] = colour(x, y);
    sum[0] += red * opacity;
    sum[1] += green * opacity;
    sum[2] += blue * opacity;
    sum[3] += opacity;
  }
  const opacity = sum[3] || 1;
  return [...sum.slice(0, 3).map((value) => Math.round(value / opacity)), sum[3] / POINTS ** 2];
}

function crc32(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

function chunk(type, data) {
  const body = Buffer.concat([Buffer.from(type), data]);
  const framed = Buffer.alloc(body.length + 8);
  framed.writeUInt32BE(data.length, 0);
  body.copy(framed, 4);
  framed.writeUInt32BE(crc32(body), body.length + 4);
  return framed;
}

const header = Buffer.alloc(13);
header.writeUInt32BE(SIZE, 0);
header.writeUInt32BE(SIZE, 4);
header.set([8, 6], 8); // bits a channel; red, green, blue and opacity
const rows = Buffer.alloc(SIZE * (1 + 4 * SIZE)); // each row begins with its filter, which is none
for (let row = 0; row < SIZE; row++) {
  for (let column = 0; column < SIZE; column++) {
    rows.set(pixel(column, row), row * (1 + 4 * SIZE) + 1 + 4 * column);
  }
}
const png = Buffer.concat([
  Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]),
  chunk("IHDR", header),
  chunk("IDAT", deflateSync(rows, { level: 9 })),
  chunk("IEND", Buffer.alloc(0)),
]);
writeFileSync(new URL("../assets/icon.png", import.meta.url), png);
