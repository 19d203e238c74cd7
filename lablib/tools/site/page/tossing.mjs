// Lesson 08: acceptance along the target's own texts, under every rule at every temperature. The
// texts are there, and what both models give their tokens; by Bayes' rule that tells which of them
// were kept drafts, and how often (lablib/course/replay/sampled.py). One toss of coins is drawn.

import {keyOf, uniform} from '../engine/random.mjs';
import {RULE, oneByOne} from '../engine/rules.mjs';
import {argmax, softmax} from '../engine/transforms.mjs';
import {LONGEST, wilson} from './counting.mjs';
import {fixed} from './marks.mjs';

const MOST_TOKENS = 72;
const WORDS = 4; // of a token have a row of their own
const COINS = 3; // a use of random numbers, beside those of a round
const YOUR_TEXT = 'your text';
const PLAYED = ['match', 'rejection']; // rules that judge each draft by a coin of its own

// `given`: the temperatures of the `grid` and of each in `at` what stands below, the names of the
// `rules`, γ of the `engine`, the `coins` of a toss, a row of numbers a text, and the texts' name
// if they are the reader's. Of a temperature: its `texts`, and under `counts` what the engine kept
// and judged, by rule. Of a text its `tokens`, and of each the target's `p`, the draft's `q`, the
// chance that `both` draw it with shared noise, and, in percent, Σ min(p, q) among `overlaps`, and
// the likely words, `best`; `judged` by such a rule, what a coin makes of it: how likely the draft
// is kept and where the coin fell, in percent, and, of a refused one, id, p and q. Of a word, p and
// q are in per mille.
export const tossing = {
  keeps: ['rule'], // lists that leave the reader's text

  async ask(lab, prompt, {constants, seed, say}, show) {
    const {grid, rules, engine} = constants,
      ids = lab.encode(prompt),
      at = [];
    const n = constants.rows; // as many texts as the lesson shows
    const coins = Array.from({length: n}, (_, row) => {
      const key = keyOf(seed, row, COINS);
      return Array.from({length: MOST_TOKENS}, (_, place) => uniform(key, place));
    });
    for (const temperature of grid) {
      say(`The target writes at temperature ${temperature} …`);
      at.push({texts: await this.texts(lab, ids, {temperature, seed, coins}), counts: {}});
    }
    const longest = Math.max(...at.flatMap(({texts}) => texts.map(text => text.tokens.length)));
    const given = {name: YOUR_TEXT, grid, rules, engine, at, coins};
    const dress = () => ({...constants, texts: n, longest: {[YOUR_TEXT]: longest}});
    show({...given, constants: dress()}, {drafter: 'draft model'});
    for (const [number, temperature] of grid.entries()) {
      say(`The engine writes at temperature ${temperature}, and counts what it keeps …`);
      for (const rule of namesOf(rules))
        at[number].counts[rule] = await this.count(
          lab,
          ids,
          {temperature, seed, rule, draft_tokens: engine},
          n,
        );
    }
    show({...given, constants: dress()});
  },

  // Have the target write a text for each row of coins, and both models read. At temperature 0 all
  // are one.
  async texts(lab, prompt, {temperature, seed, coins}) {
    const rows = [],
      found = [],
      n = coins.length;
    const run = {prompt, max_tokens: MOST_TOKENS, temperature, seed};
    await lab.samples(run, temperature ? n : 1, (stream, tokens) => {
      rows[stream] = tokens;
    });
    for (const tokens of rows) {
      const said = await lab.read([...prompt, ...tokens], prompt.length - 1, ['target', 'draft']);
      found.push(along(tokens, said, temperature));
    }
    return coins.map((thrown, row) => {
      const [text, drawn] = found[temperature ? row : 0],
        judged = {};
      for (const rule of PLAYED)
        judged[rule] = text.tokens.map((token, i) =>
          fate(rule, drawn[i], token, chancesFrom(text, rule, i, 1)[0], thrown[i]),
        );
      return {...text, judged};
    });
  },

  // Let the engine write n texts by a rule; return how many drafts it kept, and how many it judged.
  async count(lab, prompt, run, n) {
    const sum = [0, 0];
    for (let stream = 0; stream < (run.temperature ? n : 1); stream++) {
      const {accepted, reached} = await lab.write(
        {prompt, max_tokens: MOST_TOKENS, stream, ...run},
        'draft',
      );
      sum[0] += accepted;
      sum[1] += reached;
    }
    return sum;
  },

  frame(
    {name, grid, at, rules, engine, coins},
    {task, drafter, rule, draft_tokens: gamma, temperature},
  ) {
    const here = at[nearest(grid, temperature)],
      rows = here.texts.slice(0, coins.length);
    const found = followed(here.texts, rule, gamma),
      alpha = alphaOf(found),
      shares = sharesOf(found);
    const tosses = rows.map((text, row) => toss(text, rule, gamma, coins[row]));
    const data = {
      task: name ?? task,
      drafter: drafter ?? 'draft model',
      rule,
      draft_tokens: gamma,
      temperature,
      ...this.heat({at, rules}, gamma),
      tokens: rows.map(text => text.tokens),
      overlaps: rows.map(text => text.overlaps),
      best: rows.map(text => text.best),
      rounds: tosses.map(rounds => rounds.map(({drafted, kept}) => [drafted, kept])),
      judged: tosses.map((rounds, row) =>
        PLAYED.includes(rule)
          ? rounds.map(({start, drafted, kept}) =>
              rows[row].judged[rule].slice(start, start + Math.min(kept + 1, drafted)),
            )
          : [],
      ),
      columns: columnsOf(here.texts, rule),
      means: rows.map(text => rounded(yieldOf(sharesOf(followed([text], rule, gamma))), 3)),
      shares: shares.map(share => rounded(share, 4)),
      coins: [...Array.from({length: gamma}, (_, i) => (1 - alpha) * alpha ** i), alpha ** gamma],
      tokens_per_round: yieldOf(shares),
      alpha,
      counted: here.counts[rule] ?? null,
    };
    return [data, this.caption(data, engine)];
  },

  // Return α of each rule at every temperature: theory, and what the engine counted, if it has.
  heat({at, rules}, gamma) {
    const lines = {},
      points = {};
    for (const rule of namesOf(rules)) {
      lines[rule] = at.map(({texts}) => alphaOf(followed(texts, rule, gamma)));
      if (at.every(({counts}) => counts[rule]))
        points[rule] = at.map(({counts}) => pointOf(counts[rule]));
    }
    return {lines, points, others: {}};
  },

  caption({rule, draft_tokens, alpha, tokens_per_round, counted}, engine) {
    const [accepted, reached] = counted ?? [0, 0],
      told = counted && draft_tokens === engine;
    const kept = fixed(accepted / Math.max(1, reached), 2);
    return (
      `A round writes ${fixed(tokens_per_round, 2)} tokens: of the drafts that it judges, ` +
      `${rule} keeps α = ${fixed(alpha, 2)}.${told ? ` The engine kept ${kept}.` : ''}`
    );
  },
};

// Return the rules that are drawn: all others are compared with rejection.
const namesOf = rules =>
  Object.keys(RULE).filter(rule => rules.includes(rule) || rule === 'rejection');

const rounded = (value, digits) => Number(fixed(value, digits));

const inParts = (share, parts = 100) => rounded(parts * share, 0);

const nearest = (grid, value) =>
  grid.reduce(
    (best, each, i) => (Math.abs(each - value) < Math.abs(grid[best] - value) ? i : best),
    0,
  );

const pointOf = ([accepted, reached]) => [
  accepted / Math.max(1, reached),
  ...wilson(accepted, Math.max(1, reached)),
];

// Return what both models give the tokens of a text, and both distributions at each; at temperature
// 0 the likely words are those before the choice.
function along(tokens, {target, draft}, temperature) {
  const found = {tokens, p: [], q: [], both: [], overlaps: [], best: []},
    drawn = [];
  tokens.forEach((token, place) => {
    const said = [target[place], draft[place]].map(row =>
      softmax(Float64Array.from(row, score => score / (temperature || 1))),
    );
    const [p, q] = temperature ? said : said.map(greedily);
    let races = 0,
      overlap = 0;
    for (let id = 0; id < p.length; id++) {
      races += Math.max(p[id] * q[token], q[id] * p[token]);
      overlap += Math.min(p[id], q[id]);
    }
    found.p.push(p[token]);
    found.q.push(q[token]);
    found.both.push(races > 0 ? (p[token] * q[token]) / races : 0);
    found.overlaps.push(inParts(overlap));
    found.best.push(likely(token, ...said));
    drawn.push([p, q]);
  });
  return [found, drawn];
}

// Return, in percent, what a coin makes of the draft at a place; see _fate in
// lesson_08/dashboard.py.
function fate(rule, [p, q], token, chance, coin) {
  const kept = coin < chance;
  let draft = token,
    fell = kept ? coin / chance : (coin - chance) / (1 - chance);
  if (!kept) {
    const weights = Array.from(q, (each, id) =>
      rule === 'match' ? (id === token ? 0 : each) : Math.max(each - p[id], 0),
    );
    let left = fell * summed(weights);
    draft = weights.findIndex(weight => (left -= weight) < 0);
    if (draft < 0) return [];
    fell = 1 + left / weights[draft];
  }
  const keep = rule === 'match' ? p[draft] : Math.min(p[draft] / Math.max(q[draft], 1e-30), 1);
  const share = inParts(keep < 1 ? Math.min(keep, 0.99) : 1); // only what is sure has 100
  if (kept) return [share, Math.floor(100 * keep * fell)];
  return [
    share,
    Math.max(share, Math.floor(100 * (keep + (1 - keep) * fell))),
    draft,
    inParts(p[draft], 1000),
    inParts(q[draft], 1000),
  ];
}

function greedily(row) {
  const best = argmax(row);
  return row.map((_, id) => (id === best ? 1 : 0));
}

// Return id, p and q of the text's own token, either model's best, and those with most of p + q;
// see _likely in lesson_08/dashboard.py.
function likely(own, p, q) {
  const weight = p.map((chance, id) => chance + q[id]),
    found = [];
  for (const id of [own, argmax(p), argmax(q)]) weight[id] += 2;
  while (found.length < WORDS) {
    const id = argmax(weight);
    weight[id] = -1;
    found.push([id, inParts(p[id], 1000), inParts(q[id], 1000)]);
  }
  return found.sort((a, b) => b[1] - a[1] || b[2] - a[2] || a[0] - b[0]);
}

// Return the chance that each token was a kept draft, in a round of so many drafts from a place on.
// It is given that those before it in the round were kept.
function chancesFrom({p, q, both}, rule, start, drafted) {
  let cover = 1; // of block: what the drafts before it left of the target's mass
  return Array.from({length: drafted}, (_, i) => {
    const place = start + i,
      chance = p[place] > 0 ? p[place] : 1,
      guess = q[place];
    if (rule === 'match') return guess;
    if (rule === 'coupled') return Math.min(both[place] / chance, 1);
    if (rule === 'rejection') return Math.min(guess / chance, 1);
    const wanted = cover * chance;
    cover = Math.min(wanted / Math.max(guess, 1e-30), 1);
    return Math.min(guess / wanted, 1);
  });
}

// Return how many drafts a round has: none past the end, and none for the last token that has room.
const offered = (length, start, gamma) =>
  Math.min(gamma, LONGEST, length - start, MOST_TOKENS - start - 1);

// Follow all rounds through texts at once: how many keep 0 ... γ drafts on average, how many of
// them are whole, and how many drafts are judged.
function followed(texts, rule, gamma) {
  const zeros = () => Array(gamma + 1).fill(0),
    found = {kept: zeros(), whole: zeros(), judged: 0};
  for (const text of texts) {
    const {length} = text.tokens,
      begins = Array(length + gamma + 1).fill(0);
    begins[0] = 1;
    for (let start = 0; start < length; start++) {
      const chances = chancesFrom(text, rule, start, offered(length, start, gamma));
      let reach = begins[start];
      for (const chance of chances) {
        found.judged += reach;
        reach *= chance;
      }
      oneByOne(chances).forEach((chance, count) => {
        const share = begins[start] * chance;
        begins[start + count + 1] += share;
        found.kept[count] += share;
        if (start + gamma < length) found.whole[count] += share;
      });
    }
  }
  return found;
}

const summed = (values, weight = () => 1) =>
  values.reduce((sum, value, i) => sum + weight(i) * value, 0);

const alphaOf = found => summed(found.kept, count => count) / Math.max(found.judged, 1e-30);

const sharesOf = found => found.whole.map(rounds => rounds / Math.max(summed(found.whole), 1e-30));

const yieldOf = shares => 1 + summed(shares, count => count);

// Return of each place how often this rule, and rejection, keep a draft there, in percent, and in
// how many texts there is one.
function columnsOf(texts, rule) {
  const longest = Math.max(...texts.map(text => text.tokens.length));
  return Array.from({length: longest}, (_, place) => {
    const some = texts.filter(text => offered(text.tokens.length, place, 1) > 0);
    const mean = name =>
      summed(some.map(text => chancesFrom(text, name, place, 1)[0])) / Math.max(1, some.length);
    return [inParts(mean(rule)), inParts(mean('rejection')), some.length];
  });
}

// Follow rounds through a text as one throw of its coins has it: a draft stays if its chance is
// larger.
function toss(text, rule, gamma, coins) {
  const found = [];
  for (let start = 0; start < text.tokens.length; ) {
    const drafted = offered(text.tokens.length, start, gamma);
    const chances = chancesFrom(text, rule, start, drafted);
    const miss = chances.findIndex((chance, i) => coins[start + i] >= chance);
    const stay = miss < 0 ? drafted : miss;
    found.push({start, drafted, kept: stay});
    start += stay + 1;
  }
  return found;
}
