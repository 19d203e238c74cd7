// Three exercises in JavaScript. What a visitor writes runs in a worker of its own, which is ended
// when it takes too long; answers go to the judge, and nowhere else.

import {judge} from './judging.mjs';
import {make} from './parts.mjs';

const SECONDS = 3;
const RUNNER = `onmessage = ({data: {code, name, cases}}) => {
  const plain = value => ArrayBuffer.isView(value) ? Array.from(value)
    : Array.isArray(value) ? value.map(plain) : value === undefined ? null : value;
  let answers, wrong = '';
  try {
    const own = new Function(code + '\\nreturn typeof ' + name + ' === "function" && ' + name)();
    if (!own) throw 'there is no function ' + name;
    answers = cases.map(each => {
      try { return plain(own(...structuredClone(each))); }
      catch (error) { wrong = wrong || String(error); return {error: true}; }
    });
  } catch (error) { wrong = String(error); }
  postMessage({answers, wrong});
};`;

// Return the answers of a function, written as code, to all cases.
export function answersOf(code, {name, cases}) {
  const address = URL.createObjectURL(new Blob([RUNNER], {type: 'text/javascript'}));
  const worker = new Worker(address);
  return new Promise(resolve => {
    const end = found => {
      clearTimeout(timer);
      worker.terminate();
      URL.revokeObjectURL(address);
      resolve(found);
    };
    const timer = setTimeout(
      () => end({wrong: `it did not end within ${SECONDS} seconds`}),
      1000 * SECONDS,
    );
    worker.onmessage = ({data}) => end(data);
    worker.postMessage({code, name, cases});
  });
}

// Return a text's parts, with elements for `code` and *stress*.
const marked = text =>
  text.split(/(`[^`]+`|\*[^*]+\*)/).map(part => {
    const tag = {'`': 'code', '*': 'em'}[part.at(0)];
    return tag ? make(tag, {}, part.slice(1, -1)) : part;
  });

const shown = value =>
  JSON.stringify(value, (_, each) => (typeof each === 'number' ? Number(each.toFixed(4)) : each));

export class Trying {
  constructor(box, address) {
    this.box = box;
    this.codes = new Map();
    globalThis.lablibTasks = tasks => this.#begin(tasks);
    box.addEventListener('toggle', () => {
      if (!box.open || this.asked) return;
      this.asked = true;
      document.head.append(make('script', {src: address}));
    });
    this.#part('check').addEventListener('click', () => this.#check());
    this.#part('choice').addEventListener('change', ({target}) =>
      this.#choose(target.selectedIndex),
    );
  }

  #part(name) {
    return this.box.querySelector(`[data-try=${name}]`);
  }

  #begin(tasks) {
    this.tasks = tasks;
    this.#part('choice').replaceChildren(
      ...tasks.map(({id, title}) => make('option', {}, `${id} ${title}`)),
    );
    this.#part('body').hidden = false;
    this.#choose(0);
  }

  #choose(number) {
    if (this.task) this.codes.set(this.task.id, this.#part('code').value);
    this.task = this.tasks[number];
    const {id, task, starter, hints} = this.task;
    this.#part('task').replaceChildren(...marked(task));
    this.#part('code').value = this.codes.get(id) ?? starter;
    this.#part('said').textContent = '';
    this.#part('hints').replaceChildren(
      ...hints.map((hint, i) =>
        make('details', {}, make('summary', {}, `Hint ${i + 1}`), make('p', {}, ...marked(hint))),
      ),
    );
  }

  async #check() {
    const {task} = this;
    const said = this.#part('said');
    said.textContent = '…';
    const {answers, wrong} = await answersOf(this.#part('code').value, task);
    if (task !== this.task) return; // another one was chosen meanwhile
    if (!answers) return (said.textContent = `✗ ${wrong}`);
    if (answers.every(each => each === null))
      return (said.textContent = '○ It returns nothing yet.');
    const {correct, at, like} = judge(task, answers);
    if (correct) return (said.textContent = `✓ Right, in all ${task.cases.length} cases.`);
    const got = answers[at]?.error ? wrong : shown(answers[at]);
    said.textContent =
      `✗ ${task.name}(${task.cases[at].map(shown).join(', ')})\n` +
      `expected ${shown(task.right[at])}\ngot      ${got}${like ? `\n${like}` : ''}`;
  }
}
