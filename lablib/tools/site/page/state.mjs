// The state of the page, which is its link: what stands after # is all that differs from here.

import {isSum} from './parts.mjs';

export const START = {
  play: 'write',
  prompt: 'On a sunny day, Mia finds',
  seed: 12,
  temperature: 1,
  top_p: 1,
  min_p: 0,
  top_k: 0,
  rule: 'rejection',
  draft_tokens: 4,
  drafter: 'draft',
  // The play that has run, and where one looks: a token of the text, a round, an answer.
  shown: '',
  token: 0,
  round: 1,
  answer: '',
};
export const SUM = 'sum 8 6 7 5 6 5:';
const CHOICES = {
  play: ['write', 'draft', 'vote'],
  rule: ['match', 'coupled', 'rejection', 'block'],
  shown: ['', 'write', 'draft', 'vote'],
  drafter: ['draft', 'target-head'],
};
const RANGES = {
  seed: [0, Number.MAX_SAFE_INTEGER],
  temperature: [0, 2],
  top_p: [0.05, 1],
  min_p: [0, 0.5],
  top_k: [0, 50],
  draft_tokens: [1, 8],
  round: [1, 1000],
  token: [0, 1000],
};
const WHOLE = new Set(['seed', 'top_k', 'draft_tokens', 'round', 'token']);

// Read a link; what it says wrongly is as at the start.
export function readLink(hash) {
  const state = {...START};
  for (const [name, text] of new URLSearchParams(hash.replace(/^#/, ''))) {
    if (!(name in START)) continue;
    if (name in RANGES) {
      const [least, most] = RANGES[name];
      const value = Number(text);
      const fits = text !== '' && value >= least && value <= most;
      if (fits && (!WHOLE.has(name) || Number.isInteger(value))) state[name] = value;
    } else if (CHOICES[name]?.includes(text) ?? true) state[name] = text;
  }
  if (state.play === 'vote' && !isSum(state.prompt)) state.prompt = SUM;
  return state;
}

export function writeLink(state) {
  const changed = Object.entries(state).filter(([name, value]) => value !== START[name]);
  return new URLSearchParams(changed.map(([name, value]) => [name, String(value)])).toString();
}

export function optionsOf({temperature, top_p, min_p, top_k, seed}) {
  return {temperature, top_p, min_p, top_k, seed};
}
