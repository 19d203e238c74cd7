// From a row of logits to scores that can be sampled, and the draw. The order is part of the
// contract: penalties, temperature 0 or top-k, less the best, temperature, top-p, min-p. Of equal
// scores the smaller id comes first. (lablib/inference/sampling/transforms.py; here for one row.)

export const NEUTRAL = {
  temperature: 1,
  top_p: 1,
  min_p: 0,
  top_k: 0,
  repeat_last_n: 64,
  repeat_penalty: 1,
  presence_penalty: 0,
  frequency_penalty: 0,
};

// Make the latest tokens of a text less likely.
export function penalize(scores, text, options) {
  const window =
    options.repeat_last_n < 0 ? text : text.slice(-options.repeat_last_n || text.length);
  const counts = new Map();
  if (options.repeat_last_n)
    for (const token of window) counts.set(token, (counts.get(token) ?? 0) + 1);
  const repeat = options.repeat_penalty > 0 ? options.repeat_penalty : 1;
  const out = scores.slice();
  for (const [token, count] of counts) {
    const score = out[token] > 0 ? out[token] / repeat : out[token] * repeat;
    out[token] = score - options.presence_penalty - options.frequency_penalty * count;
  }
  return out;
}

export const largest = scores => scores.reduce((best, score) => Math.max(best, score), -Infinity);

export function argmax(scores) {
  return scores.indexOf(largest(scores));
}

// Keep the best token only: temperature 0.
export function greedy(scores) {
  const best = argmax(scores);
  return scores.map((score, id) => (id === best ? score : -Infinity));
}

// Return the ids of a row, the best first.
export function order(scores) {
  const ids = Array.from(scores, (_, id) => id);
  return ids.sort((a, b) => scores[b] - scores[a] || a - b);
}

// Keep the k best.
export function topK(scores, k) {
  const out = scores.slice();
  for (const id of order(scores).slice(k)) out[id] = -Infinity;
  return out;
}

// Sharpen (t < 1) or flatten (t > 1).
export function temperature(scores, t) {
  return scores.map(score => score / t);
}

// Keep a token while the mass before it, best first, is below p.
export function topP(scores, p) {
  const best = largest(scores);
  const weights = scores.map(score => Math.exp(score - best));
  const limit = Math.fround(p * weights.reduce((sum, weight) => Math.fround(sum + weight), 0));
  const out = new Float32Array(scores.length).fill(-Infinity);
  let before = 0;
  for (const id of order(scores)) {
    if (before >= limit || scores[id] === -Infinity) break;
    out[id] = scores[id];
    before = Math.fround(before + weights[id]);
  }
  return out;
}

// Drop what is less likely than m times the best.
export function minP(scores, m) {
  const floor = Math.fround(largest(scores) + Math.fround(Math.log(m)));
  return scores.map(score => (score >= floor ? score : -Infinity));
}

// Apply all transforms to the logits after a text; the best has 0 then, what was cut -Infinity.
export function cut(logits, text, options) {
  let scores = penalize(logits, text, options);
  if (options.temperature === 0) scores = greedy(scores);
  else if (options.top_k > 0 && options.top_k < scores.length) scores = topK(scores, options.top_k);
  const best = largest(scores);
  scores = scores.map(score => score - best);
  if (options.temperature === 0) return scores;
  if (options.temperature !== 1) scores = temperature(scores, options.temperature);
  if (options.top_p > 0 && options.top_p < 1) scores = topP(scores, options.top_p);
  if (options.min_p > 0) scores = minP(scores, options.min_p);
  return scores;
}

export function softmax(scores) {
  const best = largest(scores);
  const weights = scores.map(score => Math.exp(score - best));
  const total = weights.reduce((sum, weight) => sum + weight, 0);
  return weights.map(weight => weight / total);
}

// Draw a token: the first whose cumulative weight exceeds u times the total.
export function draw(weights, u) {
  let total = 0;
  for (const weight of weights) total = Math.fround(total + weight);
  const threshold = Math.fround(u * total);
  let sum = 0;
  for (let id = 0; id < weights.length; id++) {
    sum = Math.fround(sum + weights[id]);
    if (sum > threshold) return id;
  }
  throw new RangeError('weights must have a positive sum');
}

// Draw by a race: token i arrives after noise[i] / weights[i], and the first one wins.
export function race(weights, noise) {
  return argmax(weights.map((weight, id) => weight / noise[id]));
}
