// Counter-based random numbers: a number is a hash of (seed, stream, position), not a state. So the
// same seed gives the same text here and in Python (lablib/inference/sampling/random_numbers.py),
// and a number can be had again. The hash is SplitMix64 (Steele, Lea and Flood 2014).

const STEP = 0x9e3779b97f4a7c15n;
const FIRST = 0xbf58476d1ce4e5b9n;
const SECOND = 0x94d049bb133111ebn;

const word = z => BigInt.asUintN(64, z);

// Mix the bits of a number below 2^64: SplitMix64's finaliser.
function mix(z) {
  z = word((z ^ (z >> 30n)) * FIRST);
  z = word((z ^ (z >> 27n)) * SECOND);
  return z ^ (z >> 31n);
}

// Return the key of one stream of random numbers; `path` tells it from the seed's other streams.
export function keyOf(seed, ...path) {
  const whole = BigInt(seed);
  let state = 0n;
  for (const part of [whole, whole >> 64n, ...path.map(BigInt)]) {
    state = mix(state ^ word(part));
    state = mix(word(state + STEP));
  }
  return state;
}

// Return the number of a position, in [0, 1): a multiple of 2^-24, which float32 holds exactly.
export function uniform(key, position) {
  const bits = mix(word(key + BigInt(position + 1) * STEP)) >> 40n;
  return Number(bits) / 2 ** 24;
}

// Return n numbers of an exponential distribution of rate 1, none of them 0.
export function exponentials(key, n) {
  const numbers = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const bits = mix(word(key + BigInt(i + 1) * STEP)) >> 12n;
    numbers[i] = -Math.log((Number(bits) + 0.5) / 2 ** 52);
  }
  return numbers;
}
