// x times the transpose of a matrix: nearly all of a model's time. WebAssembly multiplies four
// numbers at a time; its one function has some seventy instructions, which are put together here.

// The bytes of a module of WebAssembly. It has one function, dots(x, xEnd, w, stride, out): the
// products of x and four rows of w go to `out`. All are addresses in bytes.
function code() {
  // Instructions by their names (the specification of WebAssembly, 5.4).
  const number = value => (value < 128 ? [value] : [(value & 127) | 128, ...number(value >>> 7)]);
  const vector = (which, ...rest) => [0xfd, ...number(which), ...rest];
  const get = local => [0x20, local],
    set = local => [0x21, local];
  const load = vector(0, 2, 0),
    store = vector(11, 2, 0); // four floats, aligned to four bytes
  const plus = vector(0xe4),
    times = vector(0xe6);
  const advance = (local, more) => [get(local), more, 0x6a, set(local)];
  const fourFloats = [0x41, 16];
  const loop = [0x03, 0x40],
    isLess = 0x49,
    repeatIf = [0x0d, 0],
    end = 0x0b;
  // Take floats of two vectors: 0 to 3 are the first's, 4 to 7 the second's.
  const lanes = float => [0, 1, 2, 3].map(byte => 4 * float + byte);
  const take = floats => vector(13, ...floats.flatMap(lanes));

  const [x, xEnd, w, stride, out, row, a, b, c, d] = Array(10).keys();
  const multiply = sum => [
    get(sum),
    get(x),
    load,
    get(row),
    load,
    times,
    plus,
    set(sum),
    advance(row, get(stride)),
  ];
  // Add some floats of two vectors to others of them.
  const fold = (one, two, floats, others) => [
    get(one),
    get(two),
    take(floats),
    get(one),
    get(two),
    take(others),
    plus,
  ];
  const dots = [
    loop,
    get(w),
    set(row),
    [a, b, c, d].map(multiply),
    advance(w, fourFloats),
    advance(x, fourFloats),
    get(x),
    get(xEnd),
    isLess,
    repeatIf,
    end,
    fold(a, b, [0, 4, 1, 5], [2, 6, 3, 7]),
    set(a), // a0 + a2, b0 + b2, a1 + a3, b1 + b3
    fold(c, d, [0, 4, 1, 5], [2, 6, 3, 7]),
    set(c),
    get(out),
    fold(a, c, [0, 1, 4, 5], [2, 3, 6, 7]),
    store,
    end,
  ].flat(Infinity);

  const whole = 0x7f,
    body = [2, 1, whole, 4, 0x7b, ...dots]; // locals: row; a to d, vectors
  const m = [1, 'm'.charCodeAt(0)]; // a name
  const section = (id, content) => [id, ...number(content.length), ...content];
  return Uint8Array.from([
    0,
    ...[...'asm'].map(letter => letter.charCodeAt(0)),
    1,
    0,
    0,
    0,
    ...section(1, [1, 0x60, 5, ...Array(5).fill(whole), 0]), // a function of five numbers
    ...section(2, [1, ...m, ...m, 2, 0, 1]), // takes a memory
    ...section(3, [1, 0]),
    ...section(7, [1, ...m, 0, 0]), // gives the function
    ...section(10, [1, ...number(body.length), ...body]),
  ]);
}

const PAGE = 65536; // bytes
const CODE = code(),
  DESK = 16 * PAGE; // for x and the products, before the matrices
const kernels = new WeakMap(); // by the buffer in which a matrix lies

// Return an array for `count` floats of matrices, with which `linear` is fast.
export function roomFor(count) {
  const memory = new WebAssembly.Memory({initial: Math.ceil((DESK + 4 * count) / PAGE)});
  if (WebAssembly.validate(CODE)) {
    // not in a browser older than 2021 to 2023
    const {exports} = new WebAssembly.Instance(new WebAssembly.Module(CODE), {m: {m: memory}});
    kernels.set(memory.buffer, {
      dots: exports.m,
      desk: new Float32Array(memory.buffer, 0, DESK / 4),
    });
  }
  return new Float32Array(memory.buffer, DESK, count);
}

// Return x (rows, n) times weight's (m, n) transpose, plus bias: (rows, m). Widths: multiples of 4.
export function linear(x, rows, weight, bias) {
  const n = x.length / rows,
    m = weight.length / n;
  const out = new Float32Array(rows * m);
  const kernel = kernels.get(weight.buffer);
  const most = kernel ? Math.floor(DESK / 4 / (n + m)) : rows;
  for (let row = 0; row < rows; row += most) {
    const part = x.subarray(row * n, (row + most) * n);
    if (kernel) out.set(fast(kernel, part, n, weight, m), row * m);
    else plain(part, n, weight, m, out);
  }
  if (bias) for (let i = 0; i < out.length; i++) out[i] += bias[i % m];
  return out;
}

function fast({dots, desk}, x, n, weight, m) {
  desk.set(x);
  const stride = 4 * n,
    products = 4 * x.length; // bytes
  for (let j = 0; j < m; j += 4) {
    const w = weight.byteOffset + j * stride;
    for (let from = 0, out = products + 4 * j; from < products; from += stride, out += 4 * m)
      dots(from, from + stride, w, stride, out);
  }
  return desk.subarray(x.length, x.length + (x.length / n) * m);
}

function plain(x, n, weight, m, out) {
  for (let i = 0; i < out.length; i++) {
    const row = Math.floor(i / m) * n,
      at = (i % m) * n;
    for (let k = 0; k < n; k++) out[i] += x[row + k] * weight[at + k];
  }
}
