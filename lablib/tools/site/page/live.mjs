// The model for a lesson's pictures: brought when a reader first asks it, for all pictures of a page.

import {STOP} from '../engine/rounds.mjs';
import {Tokenizer} from '../engine/tokenizer.mjs';
import {softmax} from '../engine/transforms.mjs';
import {Models} from './models.mjs';
import {PICTURES} from './pictures.mjs';

const MOST_PROMPT = 600;  // tokens; the model's context has 1,024

export class Lab {
  constructor({models, tokenizer, megabytes}) {
    Object.assign(this, {files: models, tokenizer: new Tokenizer(tokenizer), megabytes});
  }

  // Bring the models, unless they are here; `say` hears how far that is.
  bring(say) {
    this.say = say;
    this.coming ??= this.#bring().catch(error => {
      this.coming = null;  // what came is kept: who asks again asks for the rest
      throw error;
    });
    return this.coming;
  }

  #bring() {
    return new Promise((ready, fail) => {
      const hear = {
        say: (done, all) => this.say(`The model is coming: ${done} of ${all} parts, ${this.megabytes} MB in all.`),
        fail: reason => fail(new Error(`The model did not come (${reason.split('/').at(-1)}). Ask again.`)), ready,
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
    if (ids.length > MOST_PROMPT) throw new Error(`The text is too long: ${ids.length} tokens of ${MOST_PROMPT}.`);
    return ids;
  }

  decode(ids) {
    return this.tokenizer.decode(ids);
  }

  // Return the logits after a prompt.
  async next(prompt) {
    let found;
    await this.models.ask({do: 'next', prompt}, ({logits}) => { found = logits; }).done;
    return found;
  }

  // Write a text; return its tokens without the one that ends it, and the chance that each had.
  async write(run) {
    this.job?.stop();
    const tokens = [], chances = [];
    const hear = ({verdict}) => verdict.tokens.forEach((token, i) => {
      if (token === STOP) return;
      tokens.push(token);
      chances.push(softmax(verdict.logits[i])[token]);
    });
    this.job = this.models.ask({do: 'write', run}, hear);
    await this.job.done;
    return {tokens, chances};
  }

  // Draw n chains; `hear` gets the number and the text of each as it ends. A vote ends the one before.
  vote(prompt, n, hear) {
    this.job?.stop();
    const run = {prompt, max_tokens: 40, temperature: 1, seed: 0};
    this.job = this.models.ask({do: 'vote', run, n}, ({row}) => hear(row.stream, this.decode(row.tokens)));
    return this.job.done;
  }
}

export const begin = told => {
  globalThis.lablibLive = {pictures: PICTURES, lab: new Lab(told)};
};
