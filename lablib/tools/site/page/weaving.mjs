// Lesson 07: the rounds of greedy speculation along texts that the target wrote. No draft changes
// such a text, so it is enough to know where the draft's best token is the text's own.

import {argmax, softmax} from '../engine/transforms.mjs';
import {LONGEST} from './counting.mjs';
import {fixed, visible} from './marks.mjs';

const MOST_ROWS = 5;
const YOURS = 'your texts';

// `given`: the texts, and their name if they are the reader's. Of a text `agree`: where the draft is
// right; `tokens`, their `classes`, and the draft's `guess` at each place, with the target's `p` and
// the draft's `q` of it.
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
    const dressed = {...constants, tasks: {[YOURS]: texts}};
    show({name: YOURS, texts, constants: dressed});
    return 'Your next text is a row below. Reset brings the lesson’s picture back.';
  },

  // Compare the models at each token of a text.
  compared(lab, ids, {target, draft}) {
    const [p, q] = [target, draft].map(rows => rows.slice(0, -1).map(row => softmax(row)));
    const best = q.map(argmax),
      words = ids.map(id => lab.decode([id]));
    return {
      tokens: words.map(visible),
      classes: words.map(kindOf),
      guess: best.map(id => visible(lab.decode([id]))),
      agree: best.map((id, i) => id === ids[i]),
      p: best.map((id, i) => p[i][id]),
      q: best.map((id, i) => q[i][id]),
    };
  },

  frame({name, texts}, {draft_tokens: gamma, task}) {
    const lengths = [gamma, gamma + 1],
      counted = lengths.map(each => tallied(texts, each));
    const data = {
      gamma,
      task: name ?? task,
      rounds: lengths.map(each =>
        texts.slice(0, MOST_ROWS).map(text => roundsOf(text.agree, each)),
      ),
      alpha: counted.map(each => each.alpha),
      tokens: counted.map(each => each.tokens / Math.max(1, each.rounds)),
    };
    return [data, this.caption(data)];
  },

  caption({task, gamma, alpha, tokens}) {
    const said = tokens.map(
      (each, i) =>
        `with γ = ${gamma + i} a round writes ${fixed(each, 2)} tokens, and ` +
        `${(100 * (1 - alpha[i])).toFixed(0)}% of the reached drafts are rejected`,
    );
    return `On ${task}: ${said.join('; ')}.`;
  },
};

// Return the class of a token that no task tells more of: by its last letter, as spaces come first.
function kindOf(text) {
  if (!text) return 'end';
  if (/\d$/.test(text)) return 'digit';
  if (!/\p{L}$/u.test(text)) return 'sign';
  return text.startsWith(' ') ? 'new word' : 'word goes on';
}

// Return the rounds along a text: where each starts, and how many drafts it keeps.
function roundsOf(agree, gamma) {
  const found = [];
  for (let start = 0; start < agree.length; ) {
    const miss = agree.slice(start, start + gamma).indexOf(false);
    const kept = miss < 0 ? Math.min(gamma, agree.length - start) : miss;
    found.push([start, kept]);
    start += kept + 1;
  }
  return found;
}

// Count the whole rounds of texts: near the end of a text rounds are cut short.
function tallied(texts, gamma) {
  let [rounds, tokens, accepted, reached] = [0, 0, 0, 0];
  for (const {agree} of texts)
    for (const [start, kept] of roundsOf(agree, gamma)) {
      if (start + gamma >= agree.length) continue;
      rounds += 1;
      tokens += kept + 1;
      accepted += kept;
      reached += Math.min(kept + 1, gamma);
    }
  return {rounds, tokens, alpha: accepted / Math.max(1, reached)};
}
