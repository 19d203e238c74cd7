// A text that grows, round by round (lablib/inference/decoding/decoder.py). In a round a draft
// model or a head proposes tokens, the target reads them all at once, a rule says which of them
// stay, and the caches forget the others. Without a drafter a round is one token of the target.

import {Cache} from './model.mjs';
import {exponentials, keyOf, uniform} from './random.mjs';
import {PLAYED_OUT, RULE} from './rules.mjs';
import {NEUTRAL, argmax, cut, draw, race, softmax} from './transforms.mjs';

const ACCEPT = 0,
  FOLLOW = 1,
  DRAFT = 2; // the uses of a round's random numbers
export const STOP = 2; // </s>

export class Writer {
  // `told`: prompt (ids), max_tokens, seed, stream, stop, and the sampler's options. `draft`, a
  // model or a head, may be given with a rule and the number of drafts in a round; `cache` has read
  // the prompt but its last token.
  constructor(target, told, {draft = null, rule = 'rejection', draft_tokens = 4, cache} = {}) {
    this.target = target;
    this.drafter = draft;
    this.rule = rule;
    this.draftTokens = draft_tokens;
    this.options = {...NEUTRAL, ...told};
    this.prompt = told.prompt;
    this.stream = told.stream ?? 0;
    this.text = [...told.prompt];
    this.left = told.max_tokens;
    this.stop = told.stop ?? STOP;
    this.key = keyOf(told.seed ?? 0, this.stream);
    this.cache = cache ?? new Cache(target);
    this.draftCache = draft && new Cache(draft);
    this.states = null; // the target's, before each token that a head has not read
    this.round = 0;
  }

  get position() {
    return this.text.length - this.prompt.length;
  }

  get coupled() {
    return this.drafter !== null && this.rule === 'coupled' && this.options.temperature !== 0;
  }

  // Run a round and return what was decided; null when the text has ended.
  next() {
    if (this.left <= 0) return null;
    const behind = this.text.slice(this.cache.length, -1); // the prompt, before the first round
    if (behind.length) this.states = this.target.hidden(behind, this.cache);
    const most = this.drafter ? Math.min(this.draftTokens, this.left - 1) : 0;
    const drafted = most > 0 ? this.#propose(most) : [];
    const tokens = [this.text.at(-1), ...drafted.map(each => each.token)];
    const states = this.target.hidden(tokens, this.cache);
    const verdict = this.finish(drafted, this.target.logits(states));
    this.states = states.subarray(0, verdict.tokens.length * this.target.hiddenSize);
    return verdict;
  }

  // Decide a round: `logits` of the target are after the text, and after each draft.
  finish(drafted, logits) {
    const drafts = drafted.map(each => each.token);
    const scores = logits.map((row, i) =>
      cut(row, [...this.text, ...drafts.slice(0, i)], this.options),
    );
    const verdict = drafted.length ? this.#judge(drafted, scores) : this.#plain(scores[0]);
    const end = verdict.tokens.slice(0, verdict.accepted).indexOf(this.stop) + 1;
    if (end) {
      // an accepted stop token: those after it were never reached
      verdict.tokens.length = end;
      verdict.accepted = verdict.reached = end;
    }
    verdict.logits = logits.slice(0, verdict.tokens.length);
    this.text.push(...verdict.tokens);
    this.round += 1;
    this.left = this.text.at(-1) === this.stop ? 0 : this.left - verdict.tokens.length;
    this.cache.trim(this.text.length - 1);
    this.draftCache?.trim(this.text.length - 1);
    return verdict;
  }

  #number(use) {
    return uniform(keyOf(this.key, 1 + this.round), this.position + use);
  }

  // Return the noise of the position after `ahead` tokens of the round: the same for both models.
  #noise(ahead) {
    return exponentials(keyOf(this.key, 0, this.position + ahead), this.target.vocabSize);
  }

  // Return the target's own token, with the random number of its position.
  #own(scores, ahead) {
    if (this.coupled) return race(softmax(scores), this.#noise(ahead));
    return draw(scores.map(Math.exp), uniform(this.key, this.position + ahead));
  }

  #plain(scores) {
    return {drafted: [], accepted: 0, reached: 0, tokens: [this.#own(scores, 0)]};
  }

  // Draw drafts one after the other; each has its token, and q, what it was drawn from. A head
  // reads each token with the state before it: the target's, which it has after the first token,
  // and then its own.
  #propose(most) {
    const {drafter, draftCache} = this;
    const drafted = [];
    let unread = this.text.slice(draftCache.length + (drafter.readsStates ? 1 : 0));
    let before = this.states;
    for (let i = 0; i < most && unread.length; i++) {
      const states = drafter.hidden(unread, draftCache, before);
      before = states.subarray(-drafter.hiddenSize);
      const context = [...this.text, ...drafted.map(each => each.token)];
      const q = softmax(cut(drafter.logits(before)[0], context, this.options));
      const token = this.#draft(q, i);
      drafted.push({token, q});
      unread = [token];
    }
    if (drafter.readsStates) draftCache.trim(this.text.length - 1); // guessed states are no text's
    return drafted;
  }

  #draft(q, i) {
    if (this.options.temperature === 0) return argmax(q);
    return this.coupled ? race(q, this.#noise(i)) : draw(q, this.#number(DRAFT + i));
  }

  // Judge the drafts by the rule, and say what it saw: p, q, the chance and the coin of each.
  #judge(drafted, scores) {
    const drafts = drafted.map(each => each.token);
    const q = drafted.map(each => each.q);
    const p = scores.map(softmax);
    const outcome = RULE[this.rule](p, q, drafts);
    const playedOut = PLAYED_OUT.has(this.rule) || this.options.temperature === 0;
    const own = playedOut ? scores.map((row, i) => this.#own(row, i)) : [];
    const u = this.#number(ACCEPT);
    const accepted = playedOut ? countMatches(drafts, own) : draw(outcome.kept, u);
    const token = playedOut
      ? own[accepted]
      : draw(outcome.following(accepted), this.#number(FOLLOW));
    const coins = playedOut ? [] : coinsOf(outcome.kept, u);
    const seen = drafts.map((draft, i) => ({
      token: draft,
      p: p[i][draft],
      q: q[i][draft],
      chance: outcome.accept[i],
      coin: coins[i],
      own: own[i],
    }));
    const reached = Math.min(accepted + 1, drafts.length);
    return {drafted: seen, accepted, reached, tokens: [...drafts.slice(0, accepted), token]};
  }
}

// Count the drafts that equal the target's own tokens, up to the first that does not.
export function countMatches(drafts, tokens) {
  const n = drafts.findIndex((draft, i) => draft !== tokens[i]);
  return n < 0 ? drafts.length : n;
}

// Return a coin for each draft, in (0, 1]: it stays while its coin is at most its chance. All are
// made from the one number u of the round: what is left of it where the drafts before it stayed.
function coinsOf(kept, u) {
  let before = 0;
  return kept.slice(0, -1).map(chance => {
    const coin = (1 - u) / (1 - before);
    before += chance;
    return coin;
  });
}
