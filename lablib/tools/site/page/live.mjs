// The model for a lesson's pictures: brought when a reader first asks it, for all pictures of a
// page.

import {Tokenizer} from '../engine/tokenizer.mjs';
import {softmax} from '../engine/transforms.mjs';
import {Models} from './models.mjs';
import {PICTURES} from './pictures.mjs';

const MOST_PROMPT = 600; // tokens; the model's context has 1,024

export class Lab {
  constructor({models, tokenizer}) {
    Object.assign(this, {files: models, tokenizer: new Tokenizer(tokenizer)});
  }

  // Bring the models, unless they are here; `say` hears how far that is.
  bring(say) {
    this.say = say;
    this.coming ??= this.#bring().catch(error => {
      this.coming = null; // what came is kept: who asks again asks for the rest
      throw error;
    });
    return this.coming;
  }

  #bring() {
    return new Promise((ready, fail) => {
      const hear = {
        say: (done, all, size) =>
          this.say(`The model is coming: ${done} of ${all} parts, ${size} in all.`),
        fail: reason =>
          fail(new Error(`The model did not come (${reason.split('/').at(-1)}). Ask again.`)),
        ready,
      };
      if (this.models) Object.assign(this.models, hear);
      else this.models = new Models(this.files, hear);
      this.models.bring();
    });
  }

  // Return a text's ids.
  encode(text) {
    const ids = this.tokenizer.encode(text);
    if (!text) throw new Error('Write how the text begins.');
    if (ids.length > MOST_PROMPT)
      throw new Error(`The text is too long: ${ids.length} tokens of ${MOST_PROMPT}.`);
    return ids;
  }

  decode(ids) {
    return this.tokenizer.decode(ids);
  }

  // Return the text of a token, a special one's too.
  spell(id) {
    const {special, tokens} = this.tokenizer;
    return special.has(id) ? tokens[id] : this.decode([id]);
  }

  // Begin a job, and end the one before it: who waits for that is told.
  #begin(job, hear) {
    this.job?.stop();
    this.giveUp?.(new Error('Another question came before the answer. Ask again.'));
    return new Promise((done, fail) => {
      this.giveUp = fail;
      this.job = this.models.ask(job, hear);
      this.job.done.then(done, fail);
    });
  }

  // Return what models say after each token of a text from number `first` on: rows of logits by
  // their names.
  async read(tokens, first, names = ['target']) {
    const found = {};
    await this.#begin({do: 'read', tokens, first, names}, ({name, logits}) => {
      found[name] = logits;
    });
    return found;
  }

  // Return the logits after a prompt.
  async next(prompt) {
    return (await this.read(prompt, prompt.length - 1)).target[0];
  }

  // Write a text, by drafts and a rule if a `drafter` is named. Return its tokens and the chance
  // that each had, and how many drafts were kept and judged.
  async write(run, drafter) {
    const found = {tokens: [], chances: [], accepted: 0, reached: 0};
    await this.#begin({do: 'write', run, drafter}, ({verdict}) => {
      found.tokens.push(...verdict.tokens);
      found.chances.push(...verdict.tokens.map((token, i) => softmax(verdict.logits[i])[token]));
      found.accepted += verdict.accepted;
      found.reached += verdict.reached;
    });
    return found;
  }

  // Write n texts side by side; `hear` gets the number and the tokens of each as it ends.
  samples(run, n, hear) {
    return this.#begin({do: 'vote', run, n}, ({row}) => hear(row.stream, row.tokens));
  }
}

export const begin = told => {
  globalThis.lablibLive = {pictures: PICTURES, lab: new Lab(told)};
};
