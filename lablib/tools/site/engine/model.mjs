// A Llama, from tokens to logits, with a KV cache (lablib/models/base.py has it with MLX). A row is
// a token and the cache of its text: rows of one text follow one another in it, and rows of many
// texts are read side by side.

import {linear} from './product.mjs';

// What the layers of a model have read of one text: keys and values, position after position.
export class Cache {
  constructor(model, room = 64) {
    this.width = model.width;
    this.length = 0;
    this.layers = model.blocks.map(() =>
      ['keys', 'values'].map(() => new Float32Array(room * model.width)),
    );
  }

  // Make room for more positions, twice as many as are needed.
  grow(more) {
    const needed = (this.length + more) * this.width;
    if (needed <= this.layers[0][0].length) return;
    this.layers = this.layers.map(layer =>
      layer.map(part => {
        const larger = new Float32Array(2 * needed);
        larger.set(part);
        return larger;
      }),
    );
  }

  // Forget all positions but the first: what is beyond is written over.
  trim(length) {
    this.length = Math.min(this.length, length);
  }

  copy(model) {
    const twin = new Cache(model, 0);
    twin.length = this.length;
    twin.layers = this.layers.map(layer => layer.map(part => part.slice()));
    return twin;
  }
}

// Return each row divided by its root mean square, times weight.
function rmsNorm(x, rows, weight, eps) {
  const n = x.length / rows;
  const out = new Float32Array(x.length);
  for (let from = 0; from < x.length; from += n) {
    let square = 0;
    for (let i = 0; i < n; i++) square += x[from + i] ** 2;
    const scale = 1 / Math.sqrt(square / n + eps);
    for (let i = 0; i < n; i++) out[from + i] = x[from + i] * scale * weight[i];
  }
  return out;
}

function add(x, more) {
  for (let i = 0; i < x.length; i++) x[i] += more[i];
}

export class Model {
  // `prefix` is what the names of its weights begin with.
  constructor(config, tensors, prefix = 'model.') {
    this.vocabSize = config.vocab_size;
    this.hiddenSize = config.hidden_size;
    this.heads = config.num_attention_heads;
    this.headDim = config.head_dim;
    this.width = this.heads * this.headDim;
    this.eps = config.rms_norm_eps;
    const part = name => tensors[`${prefix}${name}`];
    this.embeddings = part('embed_tokens.weight');
    this.blocks = Array.from({length: config.num_hidden_layers}, (_, i) => {
      const of = name => ({
        weight: part(`layers.${i}.${name}.weight`),
        bias: part(`layers.${i}.${name}.bias`),
      });
      return {
        q: of('self_attn.q_proj'),
        k: of('self_attn.k_proj'),
        v: of('self_attn.v_proj'),
        o: of('self_attn.o_proj'),
        gate: of('mlp.gate_proj'),
        up: of('mlp.up_proj'),
        down: of('mlp.down_proj'),
        before: of('input_layernorm').weight,
        between: of('post_attention_layernorm').weight,
      };
    });
    this.norm = part('norm.weight');
    this.speeds = Float32Array.from(config.speeds); // radians a token, of each pair of a head
  }

  // Return the states (rows, hidden) after embeddings x; row i extends caches[i].
  run(x, caches) {
    const rows = caches.length;
    const positions = this.#places(caches);
    this.blocks.forEach((block, number) => {
      const normed = rmsNorm(x, rows, block.before, this.eps);
      const [q, k, v] = [block.q, block.k, block.v].map(each =>
        linear(normed, rows, each.weight, each.bias),
      );
      this.#rotate(q, positions);
      this.#rotate(k, positions);
      const read = this.#attend(
        q,
        k,
        v,
        caches.map(cache => cache.layers[number]),
        positions,
      );
      add(x, linear(read, rows, block.o.weight, block.o.bias));
      const again = rmsNorm(x, rows, block.between, this.eps);
      const gate = linear(again, rows, block.gate.weight);
      const up = linear(again, rows, block.up.weight);
      for (let i = 0; i < gate.length; i++) gate[i] *= up[i] / (1 + Math.exp(-gate[i]));
      add(x, linear(gate, rows, block.down.weight));
    });
    for (const cache of caches) cache.length += 1;
    return rmsNorm(x, rows, this.norm, this.eps);
  }

  // Make room, and return the position of each row: one cache may have several, in order.
  #places(caches) {
    const ahead = new Map();
    const positions = caches.map(cache => {
      const before = ahead.get(cache) ?? 0;
      ahead.set(cache, before + 1);
      return cache.length + before;
    });
    for (const [cache, more] of ahead) cache.grow(more);
    return positions;
  }

  // Turn each pair (i, i + D/2) of a head by its position times the pair's speed (RoPE).
  #rotate(x, positions) {
    const half = this.headDim / 2;
    positions.forEach((position, row) => {
      for (let i = 0; i < half; i++) {
        const angle = Math.fround(position * this.speeds[i]);
        const cos = Math.cos(angle),
          sin = Math.sin(angle);
        for (let head = 0; head < this.heads; head++) {
          const at = row * this.width + head * this.headDim + i;
          const a = x[at],
            b = x[at + half];
          x[at] = a * cos - b * sin;
          x[at + half] = b * cos + a * sin;
        }
      }
    });
  }

  // Let each row's cache take its key and value; return what the row reads from all so far.
  #attend(q, k, v, layers, positions) {
    const {width, headDim} = this;
    const out = new Float32Array(q.length);
    const weights = new Float32Array(Math.max(...positions) + 1);
    positions.forEach((position, row) => {
      const [keys, values] = layers[row];
      const from = row * width;
      keys.set(k.subarray(from, from + width), position * width);
      values.set(v.subarray(from, from + width), position * width);
      for (let head = 0; head < this.heads; head++)
        this.#readHead(
          q,
          from + head * headDim,
          head * headDim,
          keys,
          values,
          weights,
          position,
          out,
        );
    });
    return out;
  }

  // Read with one head: softmax of the scores of all positions, and their values' mean.
  #readHead(q, from, head, keys, values, weights, position, out) {
    const {width, headDim} = this;
    const scale = 1 / Math.sqrt(headDim);
    let largest = -Infinity;
    for (let s = 0; s <= position; s++) {
      let score = 0;
      for (let i = 0, at = s * width + head; i < headDim; i++) score += q[from + i] * keys[at + i];
      weights[s] = score * scale;
      if (weights[s] > largest) largest = weights[s];
    }
    let total = 0;
    for (let s = 0; s <= position; s++) total += weights[s] = Math.exp(weights[s] - largest);
    for (let s = 0; s <= position; s++) {
      const share = weights[s] / total;
      for (let i = 0, at = s * width + head; i < headDim; i++)
        out[from + i] += share * values[at + i];
    }
  }

  // Return the embeddings of tokens (rows, hidden).
  embed(tokens) {
    const n = this.hiddenSize;
    const x = new Float32Array(tokens.length * n);
    tokens.forEach((token, row) =>
      x.set(this.embeddings.subarray(token * n, token * n + n), row * n),
    );
    return x;
  }

  // Return the states of tokens: of one text, after what its cache has read, or of a text each.
  hidden(tokens, cache) {
    const caches = Array.isArray(cache) ? cache : tokens.map(() => cache);
    return this.run(this.embed(tokens), caches);
  }

  // Return the logits of states, a row of V each; the output layer is the embeddings.
  logits(states) {
    const rows = states.length / this.hiddenSize;
    const all = linear(states, rows, this.embeddings);
    return Array.from({length: rows}, (_, row) =>
      all.subarray(row * this.vocabSize, (row + 1) * this.vocabSize),
    );
  }
}

// A draft head of a target: from the state that predicted a token, and that token, one block
// guesses the state that predicts the next (lablib/models/head.py). Embeddings and output layer are
// the target's.
export class Head extends Model {
  readsStates = true;

  constructor(config, tensors, target) {
    super(config, {...tensors, 'blocks.embed_tokens.weight': target.embeddings}, 'blocks.');
    this.join = tensors['join.weight'];
  }

  // Return the states after tokens of one text; `before` are those before each of them.
  hidden(tokens, cache, before) {
    const n = this.hiddenSize;
    const embedded = this.embed(tokens);
    const pairs = new Float32Array(2 * before.length);
    for (let from = 0; from < before.length; from += n) {
      pairs.set(before.subarray(from, from + n), 2 * from);
      pairs.set(embedded.subarray(from, from + n), 2 * from + n);
    }
    return this.run(
      linear(pairs, tokens.length, this.join),
      tokens.map(() => cache),
    );
  }
}
