// Many completions of one prompt, and what most of them say (lablib/inference/voting/vote.py). The
// prompt is read once; row i draws from stream i of the seed, so that more rows extend a vote.

import {Cache} from './model.mjs';
import {Writer} from './rounds.mjs';

// Yield the writers of n completions as they end, `together` rows side by side; `stream` is a row's
// number.
export function* samples(model, told, n, together = 4) {
  const shared = new Cache(model);
  const start = told.prompt.slice(0, -1);
  if (start.length) model.hidden(start, shared);
  for (let first = 0; first < n; first += together) {
    let rows = Array.from({length: Math.min(together, n - first)}, (_, i) => {
      const cache = shared.copy(model);
      return new Writer(model, {...told, stream: first + i}, {cache});
    });
    while (rows.length) {
      const states = model.hidden(
        rows.map(row => row.text.at(-1)),
        rows.map(row => row.cache),
      );
      const logits = model.logits(states);
      rows.forEach((row, i) => row.finish([], [logits[i]]));
      yield* rows.filter(row => row.left <= 0);
      rows = rows.filter(row => row.left > 0);
    }
  }
}

// Return the answer of a sum: the one digit after # that ends the text; null if there is none.
export function answerOf(text) {
  return /#(\d)$/.exec(text)?.[1] ?? null;
}

// Count answers, the most frequent first, equals in the order of their first row. Rows without an
// answer cast no vote.
export function tally(answers) {
  const rows = new Map();
  answers.forEach((answer, row) => {
    if (answer === null) return;
    rows.set(answer, [...(rows.get(answer) ?? []), row]);
  });
  return [...rows]
    .map(([answer, of]) => ({answer, rows: of}))
    .sort((a, b) => b.rows.length - a.rows.length || a.rows[0] - b.rows[0]);
}

// Return whether each written step of a sum's chain holds: t + x = n, from a digit of the prompt,
// with digits that are not used up (lablib/course/tasks/sums.py).
export function stepsOf(prompt, text) {
  const left = prompt.match(/\d/g) ?? [];
  const use = digit => {
    const at = left.indexOf(digit);
    return at >= 0 && left.splice(at, 1).length > 0;
  };
  let total = null;
  return (text.split('#')[0].match(/[^;]*;/g) ?? []).map(step => {
    const [, t, x, n] = /^(\d)\+(\d)=(\d);$/.exec(step) ?? [];
    if (t === undefined) return {step, right: false};
    const begun = total === null ? use(t) : t === total;
    const given = use(x);
    const right = begun && given && Number(n) === (Number(t) + Number(x)) % 10;
    total = n;
    return {step, right};
  });
}
