// What the worker does: it holds the models, and answers jobs while the page stays free. A job is
// {id, do, ...}; its answers carry the id, and the last one `done`. A stopped job says nothing
// more.

export function serve(engine, port) {
  const models = {};
  const parts = {};
  const stopped = new Set();
  const channel = new MessageChannel();
  const breath = () =>
    new Promise(resolve => {
      // so that a message to stop is heard
      channel.port1.onmessage = resolve;
      channel.port2.postMessage(0);
    });

  // Weights come in parts, as text; a model is made of all of its parts.
  const part = ({name, number, text}) => {
    parts[name] ??= [];
    parts[name][number] = engine.bytesOf(text);
  };

  const load = async ({name, told}) => {
    const {config} = told,
      tensors = await engine.unpack(told, parts[name]);
    const target = models[config.target]; // of a head
    models[name] = target
      ? new engine.Head(config, tensors, target)
      : new engine.Model(config, tensors);
    delete parts[name];
  };

  // What models say after each token of a text, from one on: rows of logits.
  const read = async ({tokens, first, names = ['target']}, tell) => {
    for (const name of names) {
      const model = models[name],
        states = model.hidden(tokens, new engine.Cache(model));
      tell({name, logits: model.logits(states.subarray(first * model.hiddenSize))});
    }
  };

  // Write a text; `drafter` is the name of what drafts, if anything does.
  const write = async ({run, drafter}, tell, goesOn) => {
    const draft = drafter ? models[drafter] : null;
    const writer = new engine.Writer(models.target, run, {...run, draft});
    for (let verdict; (await goesOn()) && (verdict = writer.next()); )
      tell({verdict: {...verdict, logits: verdict.logits.map(row => row.slice())}});
  };

  const vote = async ({run, n}, tell, goesOn) => {
    for (const row of engine.samples(models.target, run, n)) {
      if (!(await goesOn())) return;
      tell({row: {stream: row.stream, tokens: row.text.slice(run.prompt.length)}});
    }
  };

  const jobs = {part, load, read, write, vote};
  port.onmessage = async ({data: job}) => {
    if (job.do === 'stop') return stopped.add(job.id);
    const goesOn = async () => {
      await breath();
      return !stopped.has(job.id);
    };
    const begin = performance.now();
    const tell = answer => port.postMessage({id: job.id, ...answer});
    try {
      await jobs[job.do](job, tell, goesOn);
      tell({done: true, ms: performance.now() - begin});
    } catch (error) {
      tell({done: true, error: String(error)});
    }
  };
}
