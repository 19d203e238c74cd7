// The page: its controls, its link, and which play is on.

import {Tokenizer} from '../engine/tokenizer.mjs';
import {Drafting, GUESSER, KEPT} from './drafting.mjs';
import {Models} from './models.mjs';
import {drawChart, isSum, nextTokens} from './parts.mjs';
import {python} from './python.mjs';
import {START, SUM, optionsOf, readLink, writeLink} from './state.mjs';
import {Trying} from './trying.mjs';
import {SAMPLES, Voting} from './voting.mjs';
import {Writing} from './writing.mjs';

const MOST_TOKENS = {write: 80, draft: 80, vote: 40};
const MOST_PROMPT = 600; // tokens; the models' context has 1,024
// Parts of the state that drafts alone have.
const OF_DRAFTS = new Set(['rule', 'draft_tokens', 'drafter']);
const PRESS = {
  write: 'Press Write.',
  draft: 'Press Draft, then go from round to round.',
  vote: 'Press Vote with 64 chains.',
};

class Page {
  constructor(root, told) {
    this.root = root;
    this.tokenizer = new Tokenizer(told.tokenizer);
    this.state = readLink(location.hash);
    this.ready = false;
    const decode = ids => this.tokenizer.decode(ids);
    this.writing = new Writing(this.part('story'), {
      look: (place, number) => this.#see(place, number),
      decode,
    });
    this.drafting = new Drafting(this.part('rounds'), {decode, turn: round => this.set({round})});
    this.voting = new Voting(this.part('votes'), {decode, choose: answer => this.set({answer})});
    this.trying = new Trying(this.part('try'), told.tasks);
    this.models = new Models(told.models, {
      say: (...far) => this.#arriving(...far),
      ready: () => this.#arrived(),
      fail: reason => this.#failed(reason),
    });
    this.#listen();
    if (!location.hash) this.state.shown = this.state.play; // who comes first sees it write
    this.#wear();
    this.#bring();
  }

  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  field(name) {
    return this.root.querySelector(`[name="${name}"]`);
  }

  say(text) {
    this.part('status').textContent = text;
  }

  // --- the models come ---

  // Return the names of the models that the state needs: a head only if it drafts.
  #needed() {
    const {play, drafter} = this.state;
    return ['target', 'draft', ...(play === 'draft' ? [drafter] : [])];
  }

  // See whether they are here.
  #check() {
    this.ready = this.models.hold(this.#needed());
    if (!this.ready) return;
    this.part('progress').hidden = true;
    this.part('again').hidden = true;
  }

  #bring() {
    this.#check();
    if (!this.ready) this.models.bring(this.#needed());
  }

  #arriving(done, all, size) {
    if (this.ready) return; // they are not waited for any more
    Object.assign(this.part('progress'), {value: done, max: all, hidden: false});
    const what = this.models.hold(['target']) ? 'The head is' : 'The models are';
    this.say(`${what} coming: ${done} of ${all} parts, ${size} in all.`);
  }

  #arrived() {
    if (this.ready) return;
    this.#check();
    if (this.ready) this.#begin();
  }

  // All is here: show what the link says.
  #begin() {
    this.root.dataset.ready = 'yes';
    this.say(`The models are here. ${PRESS[this.state.play]}`);
    if (this.state.shown === this.state.play) this.run();
    else this.#next();
  }

  #failed(reason) {
    const part = reason.split('/').at(-1);
    const stopped = part.endsWith('.js');
    if (stopped && this.ready) return;
    this.part('again').hidden = false;
    this.say(
      stopped
        ? `The download stopped (${part}). What came is kept: “Go on” asks for the rest.`
        : `The models can’t run in this browser: ${reason}.`,
    );
  }

  // --- controls ---

  #listen() {
    this.root.addEventListener('input', ({target}) => this.#input(target));
    this.root.addEventListener('click', ({target}) => {
      const button = target.closest('[data-do]');
      if (button) this.act(button.dataset.do, button);
    });
    this.root.addEventListener('submit', event => event.preventDefault());
    this.part('tabs').addEventListener('keydown', event => this.#tabKey(event));
    this.field('prompt').addEventListener('keydown', event => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.run();
    });
    window.addEventListener('hashchange', () => {
      if (writeLink(this.state) === location.hash.slice(1)) return;
      this.state = readLink(location.hash);
      this.#wear();
      this.#bring();
      if (this.ready) this.#begin();
    });
  }

  #input(target) {
    const name = target.name;
    if (!name || !(name in START)) return;
    const value = typeof START[name] === 'number' ? Number(target.value) : target.value;
    if (name === 'seed' && !(Number.isSafeInteger(value) && value >= 0)) return;
    this.set({[name]: value});
    this.#read();
    if (['temperature', 'top_p', 'min_p', 'top_k'].includes(name)) this.#chart();
    if (name === 'prompt') this.#next();
    if (name === 'drafter') this.#bring();
    if (!OF_DRAFTS.has(name)) this.#outdate();
    else if (this.state.shown === 'draft') this.run();
  }

  // What stands there was drawn before a change: say so, and that it can be drawn anew.
  #outdate() {
    if (!this.ready || this.state.shown !== this.state.play) return;
    this.stop();
    this.set({shown: ''});
    this.say(`That was drawn before your change. ${PRESS[this.state.play]}`);
  }

  act(what, button) {
    const steps = {
      run: () => {
        this.set({token: 0, round: 1, answer: ''});
        this.run();
        this.#reveal();
      },
      stop: () => this.stop(),
      again: () => this.#bring(),
      tab: () => this.turnTo(button.dataset.play),
      dice: () => this.#dice(),
      reset: () => this.#reset(),
      prompt: () => this.change({prompt: button.dataset.prompt}),
      back: () => this.drafting.show(this.drafting.round - 1),
      on: () => this.drafting.show(this.drafting.round + 1),
      copy: () => this.#copy(button),
    };
    steps[what]();
  }

  // Change the state, and the link with it.
  set(changes) {
    Object.assign(this.state, changes);
    clearTimeout(this.linking); // browsers refuse a new link for each pixel of a slider
    this.linking = setTimeout(() => this.#link(), 100);
    this.part('python').textContent = python(this.state, {
      maxTokens: MOST_TOKENS[this.state.play],
      votes: SAMPLES,
    });
  }

  #link() {
    history.replaceState(null, '', `#${writeLink(this.state)}`);
  }

  // Change what a text is made from: what was written is another's then.
  change(changes) {
    this.set({...changes, shown: '', token: 0, round: 1, answer: ''});
    if (this.ready) this.say(PRESS[this.state.play]);
    this.#wear();
    this.#next();
  }

  // Write with another seed.
  #dice() {
    this.change({seed: Math.floor(Math.random() * 100_000)});
    this.run();
  }

  // On a small screen what was asked for lies below: go there.
  #reveal() {
    const status = this.part('status');
    if (status.getBoundingClientRect().top > 0.6 * innerHeight)
      status.scrollIntoView({block: 'start'});
  }

  // Sample from the model as it is; what was written stays.
  #reset() {
    const {temperature, top_p, min_p, top_k} = START;
    this.set({temperature, top_p, min_p, top_k});
    this.#fill();
    this.#chart();
    this.#outdate();
  }

  // Turn to a play. A vote needs a sum: a prompt that is none waits until one turns back.
  turnTo(play) {
    let {prompt} = this.state;
    if (play === 'vote' && !isSum(prompt)) {
      this.aside = prompt;
      prompt = SUM;
    } else if (play !== 'vote' && this.aside) {
      prompt = this.aside;
      this.aside = '';
    }
    this.change({play, prompt});
    this.#bring();
  }

  #tabKey(event) {
    const tabs = [...this.part('tabs').children];
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (!step) return;
    const tab = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    this.turnTo(tab.dataset.play);
    tab.focus();
  }

  // Have all fields show the state.
  #fill() {
    for (const name of ['prompt', 'seed', 'temperature', 'top_p', 'min_p', 'top_k', 'draft_tokens'])
      if (this.field(name).value !== String(this.state[name]))
        this.field(name).value = this.state[name];
    for (const choice of this.root.querySelectorAll('[type=radio]'))
      choice.checked = choice.value === this.state[choice.name];
    this.#read();
  }

  // Have the page show the state, with nothing written yet.
  #wear() {
    this.stop();
    this.#fill();
    for (const tab of this.part('tabs').children) {
      const on = tab.dataset.play === this.state.play;
      tab.setAttribute('aria-selected', String(on));
      tab.tabIndex = on ? 0 : -1;
      if (on) this.part('panel').setAttribute('aria-labelledby', tab.id);
    }
    for (const box of this.root.querySelectorAll('[data-only]'))
      box.hidden = !box.dataset.only.split(' ').includes(this.state.play);
    this.writing.clear();
    this.drafting.clear();
    this.voting.clear();
    this.set({});
  }

  // Say beside each slider what it does there.
  #read() {
    const {temperature, top_p, min_p, top_k, draft_tokens} = this.state;
    const said = {
      temperature: temperature === 0 ? '0, the best token always' : String(temperature),
      top_p: top_p === 1 ? 'off' : String(top_p),
      min_p: min_p === 0 ? 'off' : String(min_p),
      top_k: top_k === 0 ? 'off' : String(top_k),
      draft_tokens: String(draft_tokens),
    };
    for (const [name, text] of Object.entries(said)) {
      this.field(name).setAttribute('aria-valuetext', text);
      this.part(`read-${name}`).textContent = text;
    }
    this.part('rule').textContent = `${this.state.rule}: ${KEPT[this.state.rule]}`;
    this.part('drafter').textContent = GUESSER[this.state.drafter].told;
  }

  async #copy(button) {
    this.#link();
    const text = this.part(button.dataset.of)?.textContent ?? location.href;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = 'Copied';
    } catch {
      button.textContent = 'Not allowed here';
    }
    setTimeout(() => {
      button.textContent = button.dataset.label;
    }, 1500);
  }

  // --- the chart of the next token ---

  // Look at a place of a text: its logits, the ids before it, and the token that was drawn.
  look(place) {
    this.place = place;
    this.#chart();
  }

  // A token of the written text was chosen, by its number from 1; 0: it is the last so far.
  #see(place, number) {
    if (number) this.set({token: number});
    this.look(place);
  }

  #chart() {
    if (!this.place) return;
    const {logits, text, token} = this.place;
    const decode = ids => this.tokenizer.decode(ids);
    drawChart(this.part('chart'), nextTokens(logits, text, optionsOf(this.state)), decode, token);
    const last = decode(text).slice(-36);
    this.part('after').textContent = `…${last}`;
  }

  // Ask for the chart after the prompt.
  #next() {
    clearTimeout(this.asking);
    if (!this.ready || this.state.play !== 'write') return;
    this.asking = setTimeout(() => {
      const prompt = this.#prompt();
      if (!prompt) return;
      const job = {do: 'read', tokens: prompt, first: prompt.length - 1};
      this.models.ask(job, ({logits}) => this.look({logits: logits[0], text: prompt}));
    }, 60);
  }

  // --- plays ---

  // Return the prompt's ids; say what is wrong with it if they can't be used.
  #prompt() {
    const {prompt, play} = this.state;
    const ids = prompt === '' ? [] : this.tokenizer.encode(prompt);
    let wrong = '';
    if (!ids.length) wrong = 'The text box is empty: write how it begins.';
    if (ids.length > MOST_PROMPT)
      wrong = `The text is too long: ${ids.length} tokens of ${MOST_PROMPT}.`;
    if (play === 'vote' && !isSum(prompt))
      wrong = 'A vote needs answers to count: write a sum of six digits, as “sum 7 3 9 0 4 8:”.';
    if (wrong) this.say(wrong);
    this.note = ids.includes(0)
      ? ' They know printable ASCII only; the rest is <unk> to them.'
      : '';
    return wrong ? null : ids;
  }

  run() {
    const {play} = this.state;
    const prompt = this.#prompt();
    if (!prompt) return;
    this.stop();
    this.set({shown: play});
    if (!this.ready) {
      this.drafting.clear(); // what stands there may be another drafter's
      return this.say('It begins as soon as the models are here.');
    }
    const run = {prompt, max_tokens: MOST_TOKENS[play], ...optionsOf(this.state)};
    this.part('stop').hidden = false;
    this.say(
      {write: 'Writing …', draft: 'Drafting …', vote: 'The chains are being written …'}[play],
    );
    this[play](run).finally(() => {
      this.part('stop').hidden = true;
    });
  }

  stop() {
    this.job?.stop();
    this.job = null;
    this.writing.stop();
    this.part('stop').hidden = true;
  }

  async write(run) {
    this.writing.begin(run.prompt, this.state.prompt);
    this.writing.follows = true;
    let count = 0;
    this.job = this.models.ask({do: 'write', run}, ({verdict}) => {
      count += 1;
      this.writing.take(verdict);
    });
    const ms = await this.job.done;
    await this.writing.end();
    this.say(
      `${count} tokens, ${((1000 * count) / ms).toFixed(0)} a second on this device.${this.note}`,
    );
    const {token} = this.state;
    if (token) this.writing.see(token - 1);
    else this.writing.seeSurprise();
  }

  async draft(run) {
    const {rule, draft_tokens, drafter, round} = this.state;
    this.drafting.begin(this.state, this.state.prompt);
    this.job = this.models.ask(
      {do: 'write', run: {...run, rule, draft_tokens}, drafter},
      ({verdict}) => this.drafting.take(verdict),
    );
    await this.job.done;
    this.drafting.show(round);
    this.say(`The text took ${this.drafting.rounds.length} rounds: go through them.`);
  }

  async vote(run) {
    this.voting.begin(this.state.prompt, this.state.answer);
    let waiting = false;
    const draw = () => {
      waiting = false;
      this.voting.draw();
    };
    this.job = this.models.ask({do: 'vote', run, n: SAMPLES}, ({row}) => {
      this.voting.take(row);
      if (!waiting) requestAnimationFrame(draw);
      waiting = true;
    });
    await this.job.done;
    draw();
    this.say(
      `${SAMPLES} of ${SAMPLES} chains are written. Choose a digit to see those that end in it.`,
    );
  }
}

export const begin = told => new Page(document.getElementById('play'), told);
