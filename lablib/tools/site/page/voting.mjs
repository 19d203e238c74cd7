// The play "vote": many chains for one sum, their answers in bars, and the chains that led to each.

import {answerOf, stepsOf, tally} from '../engine/vote.mjs';
import {make, percent} from './parts.mjs';

export const SAMPLES = 64;
const ERRS =
  'A vote finds what is said most often, not what is true: it errs by chance, or where the ' +
  'model makes one mistake more often than it is right.';

export class Voting {
  constructor(box, {decode, choose}) {
    Object.assign(this, {box, decode, choose});
    this.bars = box.querySelector('[data-part=bars]');
    this.clear();
  }

  clear() {
    this.texts = [];
    this.chosen = '';
    this.box.hidden = true;
  }

  // Begin a vote on a sum; return whether the prompt is one.
  begin(prompt, chosen) {
    this.clear();
    this.prompt = prompt;
    this.chosen = chosen;
    const digits = prompt.match(/\d/g) ?? [];
    this.sum = digits.reduce((sum, digit) => sum + Number(digit), 0);
    this.right = String(this.sum % 10);
    this.added = `${digits.join('+')}=${this.sum}`;
    this.box.hidden = false;
    this.rows = Array.from({length: 10}, (_, digit) => this.#row(String(digit)));
    this.bars.replaceChildren(...this.rows.map(row => row.line));
    this.draw();
  }

  #row(digit) {
    const count = make('span', {className: 'play-count'});
    const fill = make('span', {className: 'play-fill', data: {'aria-hidden': 'true'}});
    const right =
      digit === this.right
        ? make('span', {className: 'play-right'}, `✓ the sum is ${this.sum}`)
        : '';
    const button = make('button', {type: 'button'}, make('strong', {}, digit), fill, count, right);
    button.addEventListener('click', () => this.see(digit));
    return {digit, count, fill, button, line: make('li', {}, button)};
  }

  take({stream, tokens}) {
    this.texts[stream] = this.decode(tokens);
  }

  // Return answers in the order of the samples, those that are there.
  #answers() {
    return Array.from(this.texts, text => (text === undefined ? null : answerOf(text)));
  }

  draw() {
    const drawn = this.texts.filter(text => text !== undefined).length;
    const votes = tally(this.#answers());
    const counts = new Map(votes.map(({answer, rows}) => [answer, rows.length]));
    for (const {digit, count, fill, button} of this.rows) {
      const votesFor = counts.get(digit) ?? 0;
      count.textContent = votesFor;
      fill.style.setProperty('--share', votesFor / SAMPLES);
      button.classList.toggle('is-leader', votes[0]?.answer === digit);
      button.setAttribute('aria-pressed', String(digit === this.chosen));
    }
    this.#part('told').textContent = this.#told(drawn, votes, counts);
    const shown = this.chosen || votes[0]?.answer || '';
    this.#chains(shown);
  }

  #told(drawn, votes, counts) {
    if (!votes.length) return `${drawn} of ${SAMPLES} chains are written.`;
    const found = counts.get(this.right) ?? 0;
    const {
      answer,
      rows: {length: most},
    } = votes[0];
    const won = answer === this.right;
    const said = `${drawn} of ${SAMPLES} chains: ${answer} leads and is ${won ? 'right' : 'wrong'} (${this.added}). `;
    const alone = `${found} chains are right, ${percent(found / drawn)}; `;
    if (won)
      return `${said}${alone}the largest group of wrong ones is ${votes[1]?.rows.length ?? 0}.`;
    return `${said}${alone}${most} end in ${answer}. ${drawn === SAMPLES ? ERRS : ''}`;
  }

  see(digit) {
    this.chosen = this.chosen === digit ? '' : digit;
    this.choose(this.chosen);
    this.draw();
  }

  // List the chains of an answer; steps that do not hold are marked.
  #chains(answer) {
    const led = this.texts.filter(text => text !== undefined && answerOf(text) === answer);
    const judged = led.map(text => stepsOf(this.prompt, text));
    const slipped = judged.flat().some(({right}) => !right) ? '; wrong steps are underlined' : '';
    const many = `${led.length} ${led.length === 1 ? 'chain ends' : 'chains end'}`;
    this.#part('head').textContent =
      answer === '' ? '' : `${many} in the digit ${answer}${slipped}`;
    this.#part('chains').replaceChildren(
      ...judged.map(told => {
        const steps = told.map(({step, right}) =>
          right
            ? make('span', {}, step)
            : make(
                'mark',
                {title: 'this step is wrong'},
                step,
                make('span', {className: 'play-hidden'}, ' (wrong)'),
              ),
        );
        return make('li', {}, ...steps, make('strong', {}, `#${answer}`));
      }),
    );
  }

  #part(name) {
    return this.box.querySelector(`[data-part=${name}]`);
  }
}
