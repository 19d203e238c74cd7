// The acceptance carpet, twice: one row a text, one cell a token of the target, one line a round.
//
// constants: {tasks: {name: [{tokens, classes, guess, p, q}]}, counted: {name: count}}: of each
//   text its tokens, their classes, and the draft's best token at each place with the target's p
//   and the draft's q of it; and how many texts the means are of.
// data: {task, sides: [{gamma, tokens, refused, bonus, rounds: [[[start, kept, counted]]]}]}

const {INK} = cloth;
const END = '∅'; // what a token without letters looks like
const MEANING = [
  ['kept', 'kept: the draft’s guess was right'],
  ['refused', 'refused: corrected by the target'],
  ['own', 'bonus: the target’s own, no draft here'],
];

function carpet({tasks, counted}, {task, sides}, room) {
  const width = Math.max(250, Math.min(room, 850)),
    texts = tasks[task],
    phone = room < 560;
  const size = phone ? 11 : 13,
    words = texts.some(({tokens}) => tokens.some(name => cloth.bare(name).length > 1));
  // Letters stand side by side. Words, and a phone, have one carpet above the other.
  const stacked = phone || words,
    across = stacked ? width - 8 : width / 2 - 14;
  const at = columns(texts, across, 0.61 * size, phone ? 4 : 8);
  const shapes = [],
    [add, plain] = cloth.pens(shapes);
  const write = (key, x, y, text, more) => plain(key, x, y, text, {'font-size': size, ...more});

  let low = meanings(add, write, width, size) + 12;
  const step = size + 14,
    high = 2 * size + 20 + step * texts.length;
  sides.forEach((side, number) => {
    const left = stacked ? 4 : 4 + number * (width / 2 + 6),
      top = low + (stacked ? number * (high + 8) : 0);
    titles(write, side, texts.length, number, left, top + size);
    texts.forEach((text, row) =>
      weave(add, write, text, side, {
        ...{row: row + number * texts.length, rounds: side.rounds[row], at, size},
        ...{left, y: top + 2 * size + 16 + step * row},
      }),
    );
  });
  low += (stacked ? 2 * high + 8 : high) + size;
  const hidden = Math.max(...texts.map(({tokens}) => tokens.length)) > at.length;
  const count = texts.length < counted[task] ? `the first ${texts.length} of ` : '';
  const notes = [
    `${count}${counted[task]} ${task === 'your texts' ? '' : `${task} `}text${counted[task] > 1 ? 's' : ''}`,
    ...(hidden ? [`the first ${at.length} tokens of each`] : []),
  ];
  write('rows', 4, low, notes.join('; '), {fill: INK.faint});
  return {width, height: low + 8, shapes};
}

// Say what each colour means; return how far down that goes.
function meanings(add, write, width, size) {
  let x = 4,
    y = size + 3;
  for (const [look, text] of MEANING) {
    const wide = size + 20 + 0.53 * size * text.length;
    if (x > 4 && x + wide > width) [x, y] = [4, y + size + 6];
    box(add, `l-${look}`, look, [x, y - size + 1, size + 2, size + 1]);
    write(`L-${look}`, x + size + 8, y, text);
    x += wide;
  }
  return y;
}

function titles(write, {gamma, tokens, refused, bonus}, rows, number, left, y) {
  write(`title${number}`, left, y, `γ = ${gamma}: ${tokens.toFixed(2)} tokens a round (underlined)`, {
    'font-weight': 600,
  });
  const here = rows > 1 ? `these ${rows} texts` : 'this text';
  write(`fates${number}`, left, y + 18, `in ${here}: ${refused} refused, ${bonus} bonus`);
}

const box = (add, key, look, [x, y, width, height], more = {}) =>
  add(key, 'rect', {
    ...{x, y, width, height, rx: 2, fill: INK[look]},
    ...{stroke: look === 'own' ? INK.line : 'none', 'stroke-width': 1.2},
    ...more,
    class: `${look === 'refused' ? 'lablib-refused ' : ''}${more.class ?? ''}`,
  });

// Return where columns stand, left edge and width, as many as there is room for: each holds the
// longest of its words, up to so many letters; letters alone are as near as they must.
function columns(texts, across, letter, most) {
  const longest = Math.max(...texts.map(({tokens}) => tokens.length)),
    names = i => texts.map(({tokens}) => cloth.bare(tokens[i] ?? '').length);
  const wanted = Array.from({length: longest}, (_, i) => Math.min(most, Math.max(...names(i)))),
    letters = wanted.every(count => count < 2);
  const even = Math.min(24, Math.max(letter + 2.4, across / longest));
  return cloth
    .spots(
      wanted.map(count => (letters ? even : count * letter + 7)),
      across + 0.01,
      1,
    )
    .map(([, x, wide]) => [x, wide]);
}

// Draw a text: its cells, and a line under each of its whole rounds.
function weave(add, write, text, {gamma}, {row, rounds, at, size, left, y}) {
  const whole = rounds.filter(each => each[2]),
    fates = text.tokens.map(() => ['uncounted']);
  whole.forEach(([start, kept], number) => {
    for (let i = start; i <= start + kept; i++) {
      const own = kept < gamma ? 'refused' : 'own';
      fates[i] = [i < start + kept ? 'kept' : own, number + 1, i - start + 1];
    }
  });
  at.slice(0, text.tokens.length).forEach(([x, wide], column) => {
    const [look] = fates[column],
      key = `${row}.${column}`,
      spot = [left + x + 0.5, y, wide - 1.5, size + 4];
    const more = look === 'uncounted' ? {fill: 'transparent'} : {};
    const note = told(text, column, ...fates[column], gamma);
    box(add, `t${key}`, look, spot, {...more, cell: [row, column], class: 'lablib-cell', note});
    write(`w${key}`, left + x + wide / 2 - 0.25, y + size, spelt(text.tokens[column], wide, size), {
      'text-anchor': 'middle',
      'font-family': cloth.MONO,
      fill: {kept: '#FFFFFF', uncounted: INK.faint}[look] ?? '#111111',
      'pointer-events': 'none',
      class: look === 'refused' ? 'lablib-on-refused' : '',
    });
  });
  whole.forEach(([start, kept], i) => {
    const [from] = at[start] ?? [],
      last = at[Math.min(start + kept, at.length - 1)];
    if (from !== undefined)
      add(`b${row}.${i}`, 'path', {
        d: `M${left + from + 1.5} ${y + size + 7}H${left + last[0] + last[1] - 2.5}`,
        ...{stroke: INK.line, 'stroke-width': 2},
      });
  });
}

// Return what of a word there is room for.
function spelt(name, wide, size) {
  const word = cloth.bare(name),
    most = Math.max(1, Math.floor((wide - 2) / (0.61 * size)));
  return word.length <= most ? word : `${word.slice(0, most - 1)}…`;
}

// Return what is said of a token, and of the draft that fell on it.
function told(text, column, what, number, place, gamma) {
  const name = text.tokens[column],
    said = name === END ? 'the text’s end' : `“${name}”`;
  const where = `Token ${column + 1}, ${said} (${text.classes[column]}), γ = ${gamma}`;
  const guess =
    `the draft's best is “${text.guess[column]}” (q = ${text.q[column].toFixed(2)}, ` +
    `p = ${text.p[column].toFixed(2)})`;
  if (what === 'uncounted')
    return `${where}: in a round that the text's end cuts short; it is not counted.`;
  if (what === 'own')
    return (
      `${where}: the bonus of round ${number}, after ${gamma} kept drafts. ` +
      `Nothing is drafted here; ${guess}.`
    );
  const behind = gamma > place ? `; ${gamma - place} behind it in vain` : '';
  const fate = what === 'kept' ? 'kept' : `refused, and the target writes its own${behind}`;
  return `${where}: draft ${place} of round ${number} is ${fate}; ${guess}.`;
}
