// Which drafts stay, and what follows them, so that nothing is lost: the four rules of
// lablib/inference/speculation/rules.py, for one text. `p` are the target's distributions at γ + 1
// places, `q` the drafter's at γ, `drafts` the γ tokens. An outcome has `accept`, the chance that
// each draft stays if those before it do. Where it is drawn from, it also has `kept`, the chance of
// each number of kept drafts, and `following(n)`, the distribution of the token after n of them.

// Scale weights to sum 1. All zeros belong to a length of probability 0: make it p.
function scaled(rest, p) {
  const total = rest.reduce((sum, weight) => sum + weight, 0);
  return total > 0 ? rest.map(weight => weight / total) : p;
}

// Turn the chance of each draft into that of each length: the first refusal ends it.
export function oneByOne(accept) {
  const kept = [];
  let reach = 1;
  for (const chance of accept) {
    kept.push(reach * (1 - chance));
    reach *= chance;
  }
  return [...kept, reach];
}

const ratio = (p, q, draft) => (q[draft] > 0 ? p[draft] / q[draft] : 0);

// Keep a draft while the target's own sample equals it: with probability p.
export function match(p, q, drafts) {
  return {accept: drafts.map((draft, i) => (q[i][draft] > 0 ? p[i][draft] : 0))};
}

// The same, but both models draw with the same noise: `coupled` of rules.py says when both draw x.
export function coupled(p, q, drafts) {
  const accept = drafts.map((draft, i) => {
    const [px, qx] = [p[i][draft], q[i][draft]];
    const races = p[i].reduce((sum, weight, id) => sum + Math.max(weight * qx, q[i][id] * px), 0);
    return qx > 0 ? Math.min(1, px / races) : 0;
  });
  return {accept};
}

// Keep a draft with probability min(1, p/q); after a refusal draw from what q has not covered.
export function rejection(p, q, drafts) {
  const accept = drafts.map((draft, i) => Math.min(1, ratio(p[i], q[i], draft)));
  return {accept, kept: oneByOne(accept), following: n => residual(p[n], q[n], 1)};
}

// Return max(w p - q, 0), scaled; after the last draft there is no q, and it is p.
function residual(p, q, w) {
  return q
    ? scaled(
        p.map((weight, id) => Math.max(w * weight - q[id], 0)),
        p,
      )
    : p;
}

// Judge all drafts together: one that p likes more makes up for one before it that p likes less.
export function block(p, q, drafts) {
  const covered = [1];
  drafts.forEach((draft, i) => covered.push(Math.min(1, covered[i] * ratio(p[i], q[i], draft))));
  const keep = covered.map((w, n) => {
    if (n === 0) return 1;
    const rest = p[n].reduce(
      (sum, weight, id) => sum + Math.max(w * weight - (q[n]?.[id] ?? 0), 0),
      0,
    );
    return rest + 1 - w > 0 ? rest / (rest + 1 - w) : 0;
  });
  const kept = [];
  let later = 1; // the chance that no longer prefix is kept
  for (let n = drafts.length; n >= 0; n--) {
    kept[n] = keep[n] * later;
    later *= 1 - keep[n];
  }
  return {accept: conditional(kept), kept, following: n => residual(p[n], q[n], covered[n])};
}

// Return the chance that each draft stays, given that those before it do.
function conditional(kept) {
  const atLeast = kept.map((_, n) => kept.slice(n).reduce((sum, chance) => sum + chance, 0));
  return atLeast.slice(1).map((chance, n) => (atLeast[n] > 0 ? chance / atLeast[n] : 0));
}

export const RULE = {match, coupled, rejection, block};
export const PLAYED_OUT = new Set(['match', 'coupled']); // the target's own tokens decide
