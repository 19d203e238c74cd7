// The play "draft": rounds of the small model or of a head, one at a time. Under each guess a bar
// as long as the chance that it is kept, and on it the draw: it lies inside, and the guess stays,
// or outside.

import {PLAYED_OUT} from '../engine/rules.mjs';
import {make, percent, readable} from './parts.mjs';

// Who guesses, by the names of the models.
export const GUESSER = {
  draft: {
    name: 'small model',
    short: 'small',
    told:
      'A language model of its own, with 0.2 million learnt numbers where the large one has 3.3. It ' +
      'reads the text and goes on.',
  },
  'target-head': {
    name: 'head',
    short: 'head',
    told:
      'No model of its own: one block on top of the large one, with 0.3 million learnt numbers. It ' +
      'takes over the large model’s inner states, guesses the next one, and goes on from its guess.',
  },
};

export const KEPT = {
  rejection:
    'The text need not be the one that the large model writes alone with this seed, but each ' +
    'token shall come as often. So a guess stays, unless it is made too often: then a draw throws out the surplus, and tokens that are guessed ' +
    'too seldom take its place.',
  block:
    'As rejection, but all guesses of a round are judged together: one that the large model ' +
    'likes more makes up for one before it that it likes less. More stay, and each token still ' +
    'comes as often as if the large model wrote alone.',
  match:
    'The large model draws its own token at each place; a guess stays if it is the same. ' +
    'So the text is the very one that the large model writes alone with this seed.',
  coupled:
    'As match, but guesses are drawn with the same dice, and so agree more often. Each token ' +
    'comes as often as if the large model wrote alone.',
};

export class Drafting {
  constructor(box, {decode, turn}) {
    Object.assign(this, {box, decode, turn});
    this.clear();
  }

  clear() {
    this.rounds = [];
    this.box.hidden = true;
  }

  begin(state, prompt) {
    this.clear();
    const {rule, temperature, drafter} = state;
    Object.assign(this, {rule, greedy: temperature === 0, guesser: GUESSER[drafter], prompt});
  }

  take(verdict) {
    this.rounds.push(verdict);
  }

  // Show a round, from 1; those after it have not happened yet.
  show(number) {
    const round = Math.max(1, Math.min(number, this.rounds.length));
    this.round = round;
    this.box.hidden = false;
    this.#text(round);
    const verdict = this.rounds[round - 1];
    this.#part('cards').replaceChildren(...this.#cards(verdict));
    this.#part('why').textContent = this.#why(verdict);
    this.#part('number').textContent = `Round ${round} of ${this.rounds.length}`;
    this.#part('count').textContent = this.#count(round);
    this.#part('back').disabled = round === 1;
    this.#part('on').disabled = round === this.rounds.length;
    this.turn(round);
  }

  #part(name) {
    return this.box.querySelector(`[data-part=${name}]`);
  }

  // The text after this round, each token by who wrote it.
  #text(round) {
    const parts = [make('span', {className: 'play-given'}, this.prompt)];
    this.rounds.slice(0, round).forEach((verdict, i) =>
      verdict.tokens.forEach((token, at) => {
        const who = at < verdict.accepted ? 'kept' : 'own';
        const now = i === round - 1 ? ' is-now' : '';
        parts.push(make('span', {className: `play-${who}${now}`}, this.decode([token]) || '■'));
      }),
    );
    this.#part('text').replaceChildren(...parts);
  }

  #cards(verdict) {
    const cards = verdict.drafted.map((draft, i) => {
      const kind = i < verdict.accepted ? 'kept' : i < verdict.reached ? 'refused' : 'unread';
      return this.#card(draft, kind);
    });
    if (verdict.tokens.length > verdict.accepted) cards.push(this.#own(verdict));
    return cards;
  }

  #card(draft, kind) {
    const word = {kept: '✓ kept', refused: '✗ refused', unread: 'thrown away'}[kind];
    const seen = kind !== 'unread';
    const bar = make('span', {className: 'play-chance', data: {'aria-hidden': 'true'}});
    bar.style.setProperty('--chance', seen ? draft.chance : 0);
    if (seen && draft.coin !== undefined && draft.chance < 1) {
      bar.append(make('span', {className: 'play-coin'}));
      bar.style.setProperty('--coin', draft.coin);
    }
    const told = [
      [this.guesser.short, draft.q],
      ['large', draft.p],
    ].map(([who, chance]) => make('span', {}, `${who} ${percent(chance)}`));
    return make(
      'li',
      {className: `play-card is-${kind}`},
      make('strong', {}, readable(this.decode([draft.token]))),
      bar,
      make('span', {className: 'play-odds'}, ...told),
      make('span', {className: 'play-verdict'}, word),
      this.#coin(draft, seen),
    );
  }

  #coin(draft, seen) {
    if (!seen) return make('small', {}, 'it goes on from a refused one');
    if (draft.coin === undefined)
      return make('small', {}, `the large model drew ${readable(this.decode([draft.own]))}`);
    if (draft.chance >= 1)
      return make('small', {}, this.rule === 'block' ? 'sure to stay' : 'not guessed too often');
    const limit = draft.chance > 0.9995 ? '>99.9 %' : percent(draft.chance);
    return make('small', {}, `drew ${percent(draft.coin)}, limit ${limit}`);
  }

  #own(verdict) {
    const bonus = verdict.accepted === verdict.drafted.length;
    const word = verdict.drafted.length === 0 ? 'its own' : bonus ? 'bonus' : 'corrected';
    const why = bonus ? 'all were kept: one more, free' : 'in place of the refused one';
    return make(
      'li',
      {className: 'play-card is-own'},
      make('strong', {}, readable(this.decode([verdict.tokens.at(-1)]))),
      make('span', {className: 'play-odds'}, 'large model'),
      make('span', {className: 'play-verdict'}, word),
      make('small', {}, verdict.drafted.length ? why : 'no room for a guess'),
    );
  }

  // Say in a few sentences what decided the round.
  #why(verdict) {
    const {drafted, accepted, reached} = verdict;
    if (!drafted.length) return 'One place was left: the large model wrote it by itself.';
    const last = drafted[Math.min(reached, drafted.length) - 1];
    if (accepted === reached && verdict.tokens.length === accepted)
      return `The text ended with ${this.#name(last.token)}.`;
    if (accepted === drafted.length) return this.#whyAll(drafted);
    if (this.greedy || PLAYED_OUT.has(this.rule))
      return (
        `The large model itself drew ${this.#name(last.own)} where the ${this.guesser.name} had guessed ` +
        `${this.#name(last.token)}: what it drew stands.`
      );
    const more = reached < drafted.length ? '; guesses after it are thrown away' : '';
    const end = `The large model puts another token there${more}.`;
    if (this.rule === 'block')
      return (
        `${this.#name(last.token)} would stay up to ${percent(last.chance)}; it drew ` +
        `${percent(last.coin)} and goes. ${end}`
      );
    return `${this.#counted(last)} This one drew ${percent(last.coin)} and goes. ${end}`;
  }

  #whyAll(drafted) {
    const all = drafted.length === 1 ? 'The guess stays' : `All ${drafted.length} guesses stay`;
    const free = `${all}, and the same look of the large model gives one more token.`;
    if (this.greedy || this.rule !== 'rejection') return free;
    const tight = drafted.reduce((least, each) => (each.chance < least.chance ? each : least));
    const {guessed, wanted} = this.#counts(tight);
    if (guessed > wanted)
      return `${free} ${this.#counted(tight)} This one drew ${percent(tight.coin)} and stays.`;
    return `${free} None of them is guessed noticeably more often than the large model writes it.`;
  }

  // In how many places is a token guessed, and does the large model write it?
  #counts({p, q}) {
    const places = Math.min(p, q) < 0.01 ? 1_000_000 : 1_000;
    return {places, guessed: Math.round(places * q), wanted: Math.round(places * p)};
  }

  // Say of a guess how often each model comes to it, and so how often it may stay.
  #counted(draft) {
    const counts = Object.values(this.#counts(draft));
    const [places, guessed, wanted] = counts.map(count => count.toLocaleString('en'));
    return (
      `In ${places} such places the ${this.guesser.name} guesses ${this.#name(draft.token)} ` +
      `${guessed} times, and the large one writes it ${wanted} times. So ${wanted} of the ${guessed} may ` +
      `stay: those whose random number is up to ${percent(draft.chance)}.`
    );
  }

  #name(token) {
    return `“${readable(this.decode([token]))}”`;
  }

  #count(round) {
    const seen = this.rounds.slice(0, round);
    const tokens = seen.reduce((sum, verdict) => sum + verdict.tokens.length, 0);
    const kept = seen.reduce((sum, verdict) => sum + verdict.accepted, 0);
    const reached = seen.reduce((sum, verdict) => sum + verdict.reached, 0);
    return (
      `So far ${tokens} tokens in ${round} ${round === 1 ? 'look' : 'looks'} of the large model, ` +
      `${(tokens / round).toFixed(1)} a look; ${kept} of ${reached} guesses that were judged stayed.`
    );
  }
}
