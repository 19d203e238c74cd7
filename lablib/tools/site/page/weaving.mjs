// Lesson 07: the rounds of greedy speculation along texts that the target wrote. No draft changes
// such a text, so it is enough to know where the draft's best token is the text's own.

import {argmax, softmax} from '../engine/transforms.mjs';
import {LONGEST} from './counting.mjs';
import {fixed, visible} from './marks.mjs';

const MOST_ROWS = 5;
const YOURS = 'your texts';

// `given`: the texts, and their name if they are the reader's. Of a text `agree`: where the draft is
// right; `tokens`, their `classes`, and the draft's `guess` at each place, with the target's `p`
// and the draft's `q` of it.
export const weaving = {
  async ask(lab, prompt, {before}, show) {
    const ids = lab.encode(prompt);
    const {tokens} = await lab.write({prompt: ids, max_tokens: 60, temperature: 0, seed: 0});
    if (tokens.length <= LONGEST)
      throw new Error(
        `After it the target writes ${tokens.length} tokens: a whole round may need ${LONGEST + 1}.`,
      );
    const said = await lab.read([...ids, ...tokens], ids.length - 1, ['target', 'draft']);
    const texts = [...(before?.texts ?? []), this.compared(lab, tokens, said)].slice(-MOST_ROWS);
    const constants = {tasks: {[YOURS]: texts}, counted: {[YOURS]: texts.length}};
    show({name: YOURS, texts, constants});
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
    const data = {
      task: name ?? task,
      sides: [gamma, gamma + 1].map(length => sideOf(texts, length)),
    };
    return [data, this.caption(data)];
  },

  caption({task, sides: [few, more]}) {
    return (
      `On ${task} a round writes ${fixed(few.tokens, 2)} tokens with γ = ${few.gamma}, ` +
      `and ${fixed(more.tokens, 2)} with γ = ${more.gamma}. In these rows ${few.refused} ` +
      `drafts are refused, and then ${more.refused}.`
    );
  },
};

// Return the rounds of the rows, what became of their drafts, and the mean of all texts.
function sideOf(texts, gamma) {
  const rounds = texts.map(text => roundsOf(text.agree, gamma)),
    whole = of => of.flat().filter(each => each[2]),
    all = whole(rounds),
    shown = whole(rounds.slice(0, MOST_ROWS));
  const bonus = shown.filter(([, kept]) => kept === gamma).length;
  return {
    gamma,
    tokens: all.reduce((sum, [, kept]) => sum + kept + 1, 0) / Math.max(1, all.length),
    rounds: rounds.slice(0, MOST_ROWS),
    refused: shown.length - bonus,
    bonus,
  };
}

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
