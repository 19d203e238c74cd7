// Brings the models: scripts of weights, part by part, handed to a worker. A part that did not come
// can be asked for again; those that came stay.

import {serve} from './worker.mjs';

const script = source =>
  new Promise((resolve, reject) => {
    const element = Object.assign(document.createElement('script'), {src: source, async: true});
    element.onload = () => {
      element.remove();
      resolve();
    };
    element.onerror = () => {
      element.remove();
      reject(new Error(source));
    };
    document.head.append(element);
  });

export class Models {
  // `files`: of each model its name, `told`, its parts' addresses and how many letters they have.
  // `say(done, all, size)` hears how far a download is, `ready()` that its models can be asked.
  constructor(files, {say, ready, fail}) {
    Object.assign(this, {
      files,
      say,
      ready,
      fail,
      jobs: new Map(),
      count: 0,
      coming: Promise.resolve(),
    });
    Object.assign(this, {arrived: new Set(), loaded: new Set()});
    const source = `(${serve})((${globalThis.lablibEngine})(), self)`;
    const address = URL.createObjectURL(new Blob([source], {type: 'text/javascript'}));
    this.worker = new Worker(address);
    this.worker.onmessage = ({data}) => this.#answer(data);
    this.worker.onerror = event => this.fail(event.message);
    globalThis.lablibPart = (name, number, text) => {
      // a script of weights calls this
      this.arrived.add(`${name} ${number}`);
      this.ask({do: 'part', name, number, text});
    };
  }

  // Return whether models can be asked.
  hold(names) {
    return names.every(name => this.loaded.has(name));
  }

  // Bring some models, after those that are on their way.
  bring(names = this.files.map(file => file.name)) {
    this.coming = this.coming.then(() => {
      const files = this.files.filter(({name}) => names.includes(name) && !this.loaded.has(name));
      return files.length ? this.#bring(files) : this.ready();
    });
  }

  // Bring what is missing of models, two parts at a time.
  async #bring(files) {
    const parts = files.flatMap(file => file.parts.map((address, i) => ({file, address, i})));
    const letters = files.reduce((sum, file) => sum + file.letters, 0);
    const size = `${(letters / 1e6).toFixed(1)} MB`;
    const isHere = ({file, i}) => this.arrived.has(`${file.name} ${i}`);
    const waiting = parts.filter(part => !isHere(part));
    let stopped = false;
    const tell = () => stopped || this.say(parts.filter(isHere).length, parts.length, size);
    const line = async () => {
      for (let part; !stopped && (part = waiting.shift()); ) {
        await script(part.address);
        tell();
      }
    };
    tell();
    try {
      await Promise.all([line(), line()]);
      for (const file of files) await this.#load(file);
      this.ready();
    } catch (error) {
      stopped = true;
      this.fail(error.message);
    }
  }

  async #load({name, told}) {
    await this.ask({do: 'load', name, told}).done;
    this.loaded.add(name);
  }

  // Begin a job: `hear` gets its answers. Returns a promise of its end, and a way to stop it.
  ask(job, hear = () => {}) {
    const id = this.count++;
    const done = new Promise((resolve, reject) => this.jobs.set(id, {hear, resolve, reject}));
    this.worker.postMessage({id, ...job});
    const stop = () => {
      this.jobs.delete(id);
      this.worker.postMessage({id, do: 'stop'});
    };
    return {done, stop};
  }

  #answer(answer) {
    const job = this.jobs.get(answer.id);
    if (!job) return;
    if (!answer.done) return job.hear(answer);
    this.jobs.delete(answer.id);
    if (answer.error) job.reject(new Error(answer.error));
    else job.resolve(answer.ms);
  }
}
