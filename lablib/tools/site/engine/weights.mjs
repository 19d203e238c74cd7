// The weights as the page gets them: printable text in a script, since a page that was opened from
// a disk may load scripts and nothing else. What was packed (lablib/tools/site/play.py) are float16
// numbers, first the high bytes of all, which repeat, then the low ones; deflated; then four bytes
// in five of 85 letters (Z85, ZeroMQ's RFC 32), where base64 takes 5.33. Nothing is rounded.

import {roomFor} from './product.mjs';

const LETTERS =
  '0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#';

// Return the bytes of a text in Z85.
export function bytesOf(text) {
  const digits = new Uint8Array(128);
  for (let i = 0; i < 85; i++) digits[LETTERS.charCodeAt(i)] = i;
  const bytes = new Uint8Array((text.length / 5) * 4);
  for (let from = 0, to = 0; from < text.length; from += 5, to += 4) {
    let four = 0;
    for (let i = 0; i < 5; i++) four = four * 85 + digits[text.charCodeAt(from + i)];
    bytes[to] = four >>> 24;
    bytes[to + 1] = four >>> 16;
    bytes[to + 2] = four >>> 8;
    bytes[to + 3] = four;
  }
  return bytes;
}

async function inflate(blob) {
  const stream = blob.stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Return the value of a float16 by its bits.
function halfValue(bits) {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// Return tensors by name, float32: `told` has their names and shapes in order, `parts` the bytes.
export async function unpack(told, parts) {
  const values = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) values[bits] = halfValue(bits);
  const bytes = await inflate(new Blob(parts).slice(0, told.bytes));
  const count = bytes.length / 2;
  const room = roomFor(count);
  const tensors = {};
  let from = 0;
  for (const [name, shape] of told.tensors) {
    const size = shape.reduce((product, width) => product * width, 1);
    const tensor = (tensors[name] = room.subarray(from, from + size));
    for (let i = 0; i < size; i++, from++)
      tensor[i] = values[(bytes[from] << 8) | bytes[count + from]];
  }
  return tensors;
}
