// Does jobs with the page's engine: lines of JSON on stdin, as page.py writes them. The first one says
// where all is; each other one is a list of jobs, whose results are a line on stdout.
import path from 'node:path';
import readline from 'node:readline';
import {pathToFileURL} from 'node:url';

const lines = readline.createInterface({input: process.stdin})[Symbol.asyncIterator]();
const told = JSON.parse((await lines.next()).value);
const module_ = name => import(pathToFileURL(path.join(told.engine, `${name}.mjs`)));
const {Cache, Head, Model} = await module_('model');
const {linear, roomFor} = await module_('product');
const {RULE, oneByOne} = await module_('rules');
const {Tokenizer} = await module_('tokenizer');
const {Writer} = await module_('rounds');
const random = await module_('random');
const transforms = await module_('transforms');
const vote = await module_('vote');
const {bytesOf, unpack} = await module_('weights');
const page = name => import(pathToFileURL(path.join(told.page, `${name}.mjs`)));
const {PICTURES} = await page('pictures');

const models = {};
for (const [name, {told: of, text}] of Object.entries(told.models)) {
  const Kind = of.config.target ? Head : Model;
  models[name] = new Kind(of.config, await unpack(of, [bytesOf(text)]), models[of.config.target]);
}
const tokenizer = new Tokenizer(told.tokenizer);

// The page's worker, in this thread.
globalThis.Worker = class {
  constructor() {
    const send = data => setImmediate(() => this.onmessage({data: structuredClone(data)}));
    this.port = {postMessage: send};
    this.serving = page('worker').then(({serve}) =>
      serve({Cache, Head, Model, Writer, bytesOf, samples: vote.samples, unpack}, this.port),
    );
  }

  async postMessage(data) {
    await this.serving;
    setImmediate(() => this.port.onmessage({data: structuredClone(data)}));
  }
};

let asking; // the laboratory of a lesson's pictures, once it is asked
async function laboratory() {
  const [{Lab}, {Models}] = [await page('live'), await page('models')];
  const lab = new Lab({models: [], tokenizer: told.tokenizer});
  lab.models = new Models([], {});
  for (const [name, {told: of, text}] of Object.entries(told.models)) {
    lab.models.ask({do: 'part', name, number: 0, text});
    await lab.models.ask({do: 'load', name, told: of}).done;
  }
  return lab;
}

// A model without a network: the logits after each context are given, by its number. A state is
// logits, and the number of the context that they stand after.
class Table {
  constructor(rows, vocabSize) {
    Object.assign(this, {vocabSize, blocks: [], width: 0, hiddenSize: vocabSize + 1});
    this.contexts = Object.keys(rows);
    this.states = new Map(Object.entries(rows).map(([context, row], i) => [context, [...row, i]]));
  }

  hidden(tokens, cache) {
    return Float32Array.from(
      tokens.flatMap(token => {
        cache.text = [...(cache.text ?? []).slice(0, cache.length), token];
        cache.length += 1;
        return this.states.get(cache.text.join(' '));
      }),
    );
  }

  logits(states) {
    const {hiddenSize, vocabSize} = this;
    return Array.from({length: states.length / hiddenSize}, (_, row) =>
      states.subarray(row * hiddenSize, row * hiddenSize + vocabSize),
    );
  }
}

// A head without a network: which context a token extends it knows from the state before it, alone.
class TableHead extends Table {
  readsStates = true;

  hidden(tokens, cache, before) {
    cache.length += tokens.length;
    return Float32Array.from(
      tokens.flatMap((token, row) => {
        const number = before[(row + 1) * this.hiddenSize - 1];
        return this.states.get(`${this.contexts[number]} ${token}`);
      }),
    );
  }
}

const write = (target, draft, run) => {
  const writer = new Writer(target, run, {...run, draft});
  const verdicts = [];
  for (let verdict; (verdict = writer.next()); ) verdicts.push(verdict);
  return [writer.text.slice(run.prompt.length), verdicts];
};

const JOBS = {
  encode: ({texts}) => texts.map(text => tokenizer.encode(text)),
  decode: ({ids}) => ids.map(each => tokenizer.decode(each)),
  numbers: ({keys, n}) =>
    keys.map(([seed, ...parts]) => {
      const key = random.keyOf(BigInt(seed), ...parts);
      return [String(key), random.uniform(key, n), [...random.exponentials(key, n)]];
    }),
  // Read a text in pieces of the given sizes; all logits. A head of a `target` reads its states.
  logits: ({model, target, tokens, pieces}) => {
    const head = target ? models[model] : null,
      reader = models[target ?? model];
    const [cache, headCache] = [new Cache(reader), head && new Cache(head)];
    const rows = [];
    const last = tokens.length - (head ? 1 : 0);
    for (let at = 0, i = 0; at < last; i++) {
      const end = Math.min(at + pieces[i % pieces.length], last);
      const states = reader.hidden(tokens.slice(at, end), cache);
      rows.push(
        ...(head
          ? head.logits(head.hidden(tokens.slice(at + 1, end + 1), headCache, states))
          : reader.logits(states)),
      );
      at = end;
    }
    return Buffer.from(Float32Array.from(rows.flatMap(row => [...row])).buffer).toString('base64');
  },
  // A product by WebAssembly, and by the loop that an old browser has.
  products: ({x, rows, weight, bias}) => {
    const room = roomFor(weight.length);
    room.set(weight);
    return [room, Float32Array.from(weight)].map(matrix => [
      ...linear(Float32Array.from(x), rows, matrix, bias),
    ]);
  },
  cut: ({logits, text, options}) =>
    logits.map(row => [
      ...transforms.softmax(
        transforms.cut(Float32Array.from(row), text, {...transforms.NEUTRAL, ...options}),
      ),
    ]),
  // Texts; if there is a drafter, their rounds: what was drafted, and how many were kept and
  // judged.
  texts: ({runs}) =>
    runs.map(run => {
      const [text, verdicts] = write(models.target, models[run.drafter] ?? null, run);
      const rounds = verdicts.map(({drafted, accepted, reached}) => [
        drafted.map(each => each.token),
        accepted,
        reached,
      ]);
      return {text, rounds};
    }),
  samples: ({run, n}) => {
    const rows = [];
    for (const row of vote.samples(models.target, run, n)) rows[row.stream] = row.text;
    return rows.map(text => text.slice(run.prompt.length));
  },
  steps: ({chains}) => chains.map(([prompt, text]) => vote.stepsOf(prompt, text).map(s => s.right)),
  // A lesson's picture at many settings: data and caption.
  frames: ({name, given, settings}) => settings.map(values => PICTURES[name].frame(given, values)),
  // What a picture makes of a reader's texts, one after the other: its constants, and many
  // settings.
  asked: async ({name, texts, about, settings}) => {
    const lab = await (asking ??= laboratory());
    let given = null;
    const show = found => {
      given = found;
    };
    const more = {...about, stops: control => about.stops[control], say() {}};
    for (const text of texts) await PICTURES[name].ask(lab, text, {...more, before: given}, show);
    return [given.constants, settings.map(values => PICTURES[name].frame(given, values))];
  },
  tally: ({answers}) => vote.tally(answers),
  outcome: ({rule, p, q, drafts}) => {
    const {accept, kept = oneByOne(accept), following} = RULE[rule](p, q, drafts);
    return [kept, following && kept.map((_, n) => [...following(n)])];
  },
  // Many first rounds and texts of table models, by seed; a planted bug draws from p, always.
  rounds: ({target, draft, size, run, seeds, bug, byHead}) => {
    const right = RULE[run.rule];
    if (bug) RULE[run.rule] = (p, q, drafts) => ({...right(p, q, drafts), following: n => p[n]});
    const pair = [new Table(target, size), new (byHead ? TableHead : Table)(draft, size)];
    const found = Array.from({length: seeds}, (_, seed) => {
      const [text, verdicts] = write(...pair, {...run, seed});
      return [verdicts[0].accepted, text];
    });
    RULE[run.rule] = right;
    return found;
  },
};

for await (const line of lines) {
  const results = [];
  for (const job of JSON.parse(line)) results.push(await JOBS[job.do](job));
  process.stdout.write(`${JSON.stringify(results)}\n`);
}
process.exit(); // a worker would wait on
