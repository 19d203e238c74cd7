// Lesson 07: the rounds of greedy speculation along texts that the target wrote. No draft changes
// such a text, so it is enough to know where the draft's best token is the text's own.

import {argmax, softmax} from '../engine/transforms.mjs';
import {LONGEST, expectedTokens, wilson} from './counting.mjs';
import {fixed, visible} from './marks.mjs';

const MOST_ROWS = 12;
const YOURS = 'your texts';

// `given`: the texts, their name if they are the reader's, and what forwards cost. Of a text
// `agree`: where the draft is right; `tokens`, their `classes`, and the draft's `guess` at each
// place, with the target's `p` and the draft's `q` of it, and Σ min(p, q), the `overlap`.
export const weaving = {
  async ask(lab, prompt, {constants, before}, show) {
    const ids = lab.encode(prompt);
    const {tokens} = await lab.write({prompt: ids, max_tokens: 60, temperature: 0, seed: 0});
    if (tokens.length <= LONGEST)
      throw new Error(
        `After it the target writes ${tokens.length} tokens: a whole round may need ${LONGEST + 1}.`,
      );
    const said = await lab.read([...ids, ...tokens], ids.length - 1, ['target', 'draft']);
    const texts = [...(before?.texts ?? []), this.compared(lab, tokens, said)].slice(-MOST_ROWS);
    const missed = texts.some(({agree}) => agree.includes(false));
    const about = {counted: texts.length, missed, ...hardestOf(texts), grows: true};
    const dressed = {
      ...constants,
      tasks: {[YOURS]: texts},
      about: {[YOURS]: about},
      rows: texts.length,
    };
    show({name: YOURS, texts, prices: constants.prices, constants: dressed});
    return 'Your next text is a row below. Reset brings the lesson’s picture back.';
  },

  // Compare the models at each token of a text.
  compared(lab, ids, {target, draft}) {
    const [p, q] = [target, draft].map(rows => rows.slice(0, -1).map(row => softmax(row)));
    const best = q.map(argmax),
      words = ids.map(id => lab.decode([id]));
    const overlap = p.map((row, i) =>
      row.reduce((sum, chance, id) => sum + Math.min(chance, q[i][id]), 0),
    );
    return {
      tokens: words.map(visible),
      classes: words.map(kindOf),
      overlap,
      guess: best.map(id => visible(lab.decode([id]))),
      agree: best.map((id, i) => id === ids[i]),
      p: best.map((id, i) => p[i][id]),
      q: best.map((id, i) => q[i][id]),
    };
  },

  frame({name, texts, prices}, {draft_tokens: gamma, task}) {
    const tallies = Array.from({length: LONGEST}, (_, i) => tallied(texts, i + 1));
    const {alpha, classes, rounds, tokens} = tallies[gamma - 1];
    const names = new Set(tallies.flatMap(each => [...each.classes.keys()]));
    const data = {
      gamma,
      task: name ?? task,
      alpha,
      low: null,
      high: null,
      rounds: texts.slice(0, MOST_ROWS).map(text => roundsOf(text.agree, gamma)),
      columns: columnsOf(texts, gamma),
      classes: [...names].sort().map(each => [each, ...shareOf(...(classes.get(each) ?? [0, 0]))]),
      tokens: tallies.map(each => each.tokens / Math.max(1, each.rounds)),
      theory: tallies.map((_, i) => expectedTokens(alpha, i + 1)),
      time: {
        plain: tokens,
        reading: rounds * (prices?.read[gamma] ?? 1),
        drafting: rounds * gamma * (prices?.draft ?? 0),
      },
    };
    return [data, this.caption(data)];
  },

  caption({task, gamma, alpha, classes, tokens}) {
    const kept = each => (each[4] ? each[1] : 2); // a class that was not judged is not the hardest
    const [name, share] = classes.reduce((least, each) =>
      kept(each) < kept(least) ? each : least,
    );
    const head = `On ${task} α is ${fixed(alpha, 2)}, and a round writes ${fixed(tokens[gamma - 1], 2)} tokens`;
    if (share === 1) return `${head}: no draft that is judged is refused.`;
    return `${head}; drafts of class '${name}' are kept least, ${fixed(share, 2)} of them.`;
  },
};

// Return the class of a token that no task tells more of: by its last letter, as spaces come first.
function kindOf(text) {
  if (!text) return 'end';
  if (/\d$/.test(text)) return 'digit';
  if (!/\p{L}$/u.test(text)) return 'sign';
  return text.startsWith(' ') ? 'new word' : 'word goes on';
}

// Return the rounds along a text: where each starts, how many drafts it keeps, and whether it is
// whole: near the end of the text rounds are cut short.
function roundsOf(agree, gamma) {
  const found = [];
  for (let start = 0; start < agree.length; ) {
    const miss = agree.slice(start, start + gamma).indexOf(false);
    const kept = miss < 0 ? Math.min(gamma, agree.length - start) : miss;
    found.push([start, kept, start + gamma < agree.length]);
    start += kept + 1;
  }
  return found;
}

const wholeRounds = (text, gamma) => roundsOf(text.agree, gamma).filter(each => each[2]);

// Count the whole rounds of texts.
function tallied(texts, gamma) {
  const found = {rounds: 0, tokens: 0, classes: new Map()};
  let accepted = 0,
    reached = 0;
  for (const text of texts)
    for (const [start, kept] of wholeRounds(text, gamma)) {
      const judged = Math.min(kept + 1, gamma);
      found.rounds += 1;
      found.tokens += kept + 1;
      accepted += kept;
      reached += judged;
      for (let i = 0; i < judged; i++) {
        const name = text.classes[start + i],
          [right, all] = found.classes.get(name) ?? [0, 0];
        found.classes.set(name, [right + (i < kept), all + 1]);
      }
    }
  return {...found, alpha: accepted / Math.max(1, reached)};
}

// Return of each place of the texts how many drafts were kept and judged there.
function columnsOf(texts, gamma) {
  const columns = Array.from({length: Math.max(...texts.map(text => text.agree.length))}, () => [
    0, 0,
  ]);
  for (const text of texts)
    for (const [start, kept] of wholeRounds(text, gamma))
      for (let i = 0; i < Math.min(kept + 1, gamma); i++) {
        columns[start + i][0] += i < kept;
        columns[start + i][1] += 1;
      }
  return columns;
}

// Return the class at whose tokens the models disagree most often, and the places that are of it in
// most texts; none if the models never disagree.
function hardestOf(texts) {
  const found = new Map();
  texts.forEach(({classes, agree}) =>
    classes.forEach((name, i) => {
      const [right, all] = found.get(name) ?? [0, 0];
      found.set(name, [right + agree[i], all + 1]);
    }),
  );
  const share = name => found.get(name)[0] / found.get(name)[1];
  const hardest = [...found.keys()].reduce((least, each) =>
    share(each) < share(least) ? each : least,
  );
  const all = [...Array(Math.max(...texts.map(text => text.classes.length))).keys()];
  const here = place =>
    2 * texts.filter(text => text.classes[place] === hardest).length > texts.length;
  return {hardest, places: share(hardest) < 1 ? all.filter(here) : []};
}

// Return a class's share, its interval, and how many were judged.
const shareOf = (kept, judged) =>
  judged ? [kept / judged, ...wilson(kept, judged), judged] : [0, 0, 1, 0];
