// The play "write": the story comes token by token, coloured by how surprised the model was. A
// token that is pointed at, or reached with the arrows, has the chart show what could have stood
// there.

import {softmax} from '../engine/transforms.mjs';
import {bits, make, percent, readable, tint} from './parts.mjs';

const PACE = 45; // ms a token, for eyes; the model is faster
const STILL = matchMedia('(prefers-reduced-motion: reduce)');

export class Writing {
  // `look(place, number)` hears which token is looked at; its number, from 1, if it was chosen.
  // `decode` turns ids into text.
  constructor(box, {look, decode}) {
    Object.assign(this, {box, look, decode});
    box.addEventListener('keydown', event => this.#key(event));
    this.clear();
  }

  clear() {
    clearTimeout(this.timer);
    this.timer = undefined; // the next text begins at once
    this.places = []; // token, logits it was drawn from, and the text before
    this.waiting = [];
    this.ended = null;
    this.box.replaceChildren();
  }

  // Begin a text: its prompt stands before what comes.
  begin(prompt, text) {
    this.clear();
    this.before = [...prompt];
    this.box.append(make('span', {className: 'play-given'}, text));
  }

  // Take what a round decided.
  take(verdict) {
    verdict.tokens.forEach((token, i) => this.waiting.push({token, logits: verdict.logits[i]}));
    if (!this.timer) this.#show();
  }

  // The last round has come: resolve when the last token is shown.
  end() {
    return new Promise(resolve => {
      this.ended = resolve;
      if (!this.timer) this.#show();
    });
  }

  // What is not shown yet stays unsaid.
  stop() {
    this.waiting = [];
    this.ended = null;
  }

  #show() {
    this.timer = undefined;
    do {
      const next = this.waiting.shift();
      if (!next) return this.ended?.();
      this.#add(next);
    } while (STILL.matches);
    this.timer = setTimeout(() => this.#show(), PACE);
  }

  #add({token, logits}) {
    const place = this.places.length;
    const text = this.decode([token]);
    const share = softmax(logits)[token];
    const told = `${readable(text)}: ${percent(share)}, ${bits(share).toFixed(1)} bits of surprise`;
    const space = /^ ./.test(text) ? ' ' : ''; // before the mark: a line may break there
    const mark = make(
      'span',
      {
        className: text ? 'play-token' : 'play-token is-end',
        title: told,
        tabIndex: place ? -1 : 0,
        data: {role: 'button', 'aria-label': `${text.trim() || readable(text)}, ${percent(share)}`},
      },
      text.slice(space.length) || '■',
    );
    tint(mark, bits(share));
    for (const event of ['click', 'focus']) mark.addEventListener(event, () => this.see(place));
    this.places.push({token, logits, text: [...this.before], mark, surprise: bits(share)});
    this.before.push(token);
    this.box.append(space, mark);
    if (this.follows) this.see(place, true);
  }

  // Look at a token; while the story comes, the last one is looked at.
  see(place, follows = false) {
    this.follows = follows;
    for (const {mark} of this.places) {
      mark.tabIndex = -1;
      mark.removeAttribute('aria-current');
    }
    const mark = this.places[place]?.mark;
    if (!mark) return;
    mark.tabIndex = 0;
    mark.setAttribute('aria-current', 'true');
    this.look(this.places[place], follows ? 0 : place + 1);
  }

  // Look at the token that surprised most: there the sliders change most.
  seeSurprise() {
    const surprises = this.places.map(({surprise}) => surprise);
    this.see(surprises.indexOf(Math.max(...surprises)), true);
  }

  #key(event) {
    const at = this.places.findIndex(({mark}) => mark === document.activeElement);
    const to = {ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.places.length - 1}[
      event.key
    ];
    if (at < 0 || !this.places[to]) return;
    event.preventDefault();
    this.places[to].mark.focus();
  }
}
