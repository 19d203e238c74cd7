// The lines of Python that do what the page does: the same seed gives the same text.

const number = value => (Number.isInteger(value) ? `${value}.0` : String(value));

const DRAFTER = {
  draft: {name: 'draft', line: 'draft, _ = lablib.load("draft")\n'},
  'target-head': {
    name: 'head',
    line: 'head = lablib.Head(lablib.load_head("target-head", model))\n',
  },
};

function options(state) {
  const said = [`temperature=${number(state.temperature)}`];
  if (state.top_p < 1) said.push(`top_p=${number(state.top_p)}`);
  if (state.min_p > 0) said.push(`min_p=${number(state.min_p)}`);
  if (state.top_k > 0) said.push(`top_k=${state.top_k}`);
  return [...said, `seed=${state.seed}`].join(', ');
}

export function python(state, {maxTokens, votes}) {
  const prompt = JSON.stringify(state.prompt);
  const load = 'import lablib\n\nmodel, tokenizer = lablib.load("target")\n';
  if (state.play === 'vote')
    return `${load}prompt = tokenizer.encode(${prompt})
answer = lablib.on_text(tokenizer, lambda text: text.rpartition("#")[2])
votes = lablib.majority_vote(
    model, prompt, n=${votes}, max_tokens=${maxTokens}, extract=answer,
    ${options(state)},
)
print(votes.winner, [count for _, count in votes])`;
  const drafts = state.play === 'draft',
    {name, line} = DRAFTER[state.drafter];
  const more = drafts
    ? `\n    draft_model=${name}, rule="${state.rule}", draft_tokens=${state.draft_tokens},`
    : '';
  return `${load}${drafts ? line : ''}text = lablib.generate(
    model, tokenizer, ${prompt}, max_tokens=${maxTokens},
    ${options(state)},${more}
)
print(text)`;
}
