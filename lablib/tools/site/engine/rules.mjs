// Which drafts stay, and what follows them, so that nothing is lost: the four rules of
// lablib/inference/speculation/rules.py, for one text. `p` are the target's distributions at γ + 1
// places, `q` the draft's at γ, `drafts` the γ tokens. An outcome has `kept`, the chance of each
// number of kept drafts, and `following(n)`, the distribution of the token after n of them.

const zero = p => new Float64Array(p.length);

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

const ratio = (p, q, draft) => q[draft] > 0 ? p[draft] / q[draft] : 0;

// Keep a draft while the target's own sample equals it: with probability p.
export function match(p, q, drafts) {
  const accept = drafts.map((draft, i) => q[i][draft] > 0 ? p[i][draft] : 0);
  const following = n => scaled(p[n].map((weight, id) => id === drafts[n] ? 0 : weight), p[n]);
  return {accept, kept: oneByOne(accept), following};
}

// The same, but both models draw with the same noise: see `race` of rules.py for its numbers.
export function coupled(p, q, drafts) {
  const races = drafts.map((_, i) => twoRaces(p[i], q[i]));
  const accept = drafts.map((draft, i) => q[i][draft] > 0
    ? Math.min(1, races[i].bid[draft] / races[i].most[draft]) : 0);
  const following = n => {
    if (n === drafts.length) return p[n];
    const area = races[n].area;
    return scaled(p[n].map((weight, id) => weight * Math.max(0, area[id] - area[drafts[n]])), p[n]);
  };
  return {accept, kept: oneByOne(accept), following};
}

// Return s = p/(p+q) of each token, N(s) = Σ max(s q, (1-s) p), and the integral of 1/N² up to s.
function twoRaces(p, q) {
  const bid = Float64Array.from(p, (weight, id) => weight + q[id] > 0 ? weight / (weight + q[id]) : 0);
  const ids = Array.from(p, (_, id) => id).sort((a, b) => bid[a] - bid[b] || a - b);
  const most = zero(p), area = zero(p);
  let before = 0, after = p.reduce((sum, weight) => sum + weight, 0);
  let s = 0, edge = 1, sum = 0;
  for (const id of ids) {
    before += q[id];
    after -= p[id];
    most[id] = Math.max(bid[id] * before + (1 - bid[id]) * after, 0.5);
    sum += (bid[id] - s) / (most[id] * edge);
    area[id] = sum;
    [s, edge] = [bid[id], most[id]];
  }
  return {bid, most, area};
}

// Keep a draft with probability min(1, p/q); after a refusal draw from what q has not covered.
export function rejection(p, q, drafts) {
  const accept = drafts.map((draft, i) => Math.min(1, ratio(p[i], q[i], draft)));
  return {accept, kept: oneByOne(accept), following: n => residual(p[n], q[n], 1)};
}

// Return max(w p - q, 0), scaled; after the last draft there is no q, and it is p.
function residual(p, q, w) {
  return q ? scaled(p.map((weight, id) => Math.max(w * weight - q[id], 0)), p) : p;
}

// Judge all drafts together: one that p likes more makes up for one before it that p likes less.
export function block(p, q, drafts) {
  const covered = [1];
  drafts.forEach((draft, i) => covered.push(Math.min(1, covered[i] * ratio(p[i], q[i], draft))));
  const keep = covered.map((w, n) => {
    if (n === 0) return 1;
    const rest = p[n].reduce((sum, weight, id) => sum + Math.max(w * weight - (q[n]?.[id] ?? 0), 0), 0);
    return rest + 1 - w > 0 ? rest / (rest + 1 - w) : 0;
  });
  const kept = [];
  let later = 1;  // the chance that no longer prefix is kept
  for (let n = drafts.length; n >= 0; n--) {
    kept[n] = keep[n] * later;
    later *= 1 - keep[n];
  }
  return {accept: conditional(kept), kept, following: n => residual(p[n], q[n], covered[n])};
}

// Return the chance that each draft stays, given that those before it do.
function conditional(kept) {
  const atLeast = kept.map((_, n) => kept.slice(n).reduce((sum, chance) => sum + chance, 0));
  return atLeast.slice(1).map((chance, n) => atLeast[n] > 0 ? chance / atLeast[n] : 0);
}

export const RULE = {match, coupled, rejection, block};
export const PLAYED_OUT = new Set(['match', 'coupled']);  // the target's own tokens decide
