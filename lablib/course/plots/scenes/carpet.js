// The acceptance carpet: the same texts twice, written with γ drafts a round and with γ + 1. One row
// a text, one cell a token of the target, one strip a round; a place is one column in all texts.
//
// constants: {tasks: {name: [{tokens, classes, guess, p, q}]}}: of each text its tokens, their
//   classes, and the draft's best token at each place with the target's p and the draft's q of it.
// data: {task, gamma, rounds: [[[[start, kept]]]]}: of γ and of γ + 1, for each text its rounds.

const INK = cloth.INK;
const END = '∅'; // what a token without letters looks like
const LOOKS = [
  ['kept', 'accepted: the draft guessed it, and the target agrees'],
  ['refused', 'rejected: the draft guessed wrong; this is the target’s own token'],
  ['own', 'bonus: the target’s own token, where no guess of the round was wrong'],
];
const GAP = 3; // between strips, where letters leave it

function carpet({tasks}, {task, gamma, rounds}, room) {
  const texts = tasks[task],
    longest = Math.max(...texts.map(each => each.tokens.length)),
    rows = Math.max(...Object.values(tasks).map(all => all.length));
  const page = laid(room, longest, rows),
    shapes = [],
    pens = cloth.pens(shapes);
  legend(pens[1], pens[0], page);
  rounds.forEach((all, side) => {
    const number = gamma + side,
      [left, top] = page.corners[side];
    heading(pens[1], `${side}`, number, all, [left, top + page.font], page);
    texts.forEach((text, row) => {
      const at = [left, top + page.head + row * page.high];
      strips(pens, [side, row, texts.length], text, all[row], number, at, page);
    });
  });
  return {width: page.width, height: page.height, shapes};
}

// Return where things stand. Columns stay columns at every width: where they would be too narrow for
// letters the second panel stands below the first.
function laid(room, longest, rows) {
  const width = Math.max(250, Math.min(room, 1100)),
    beside = width >= 820,
    font = width >= 560 ? 13 : 11,
    high = font + 11,
    head = font + 12,
    line = font + 7;
  const between = 28,
    across = (beside ? (width - between) / 2 : width) - 2,
    wide = Math.min(40, Math.floor((10 * across) / longest) / 10);
  const keys = LOOKS.map(([, words]) => cloth.wrapped(words, (width - 20) / (0.53 * font)));
  const top = keys.flat().length * line + 10,
    deep = head + rows * high;
  const corners = beside
    ? [
        [1, top],
        [across + 1 + between, top],
      ]
    : [
        [1, top],
        [1, top + deep + 16],
      ];
  return {width, font, high, head, line, across, wide, keys, corners, height: corners[1][1] + deep};
}

function legend(write, add, {keys, font, line}) {
  let y = font;
  LOOKS.forEach(([look], i) => {
    add(`l-${look}`, 'rect', {
      x: 1,
      y: y - font + 2,
      width: font - 1,
      height: font - 1,
      ...dress(look),
    });
    keys[i].forEach((words, n) =>
      write(`L-${look}${n}`, font + 8, y + line * n, words, {'font-size': font}),
    );
    y += line * keys[i].length;
  });
}

function heading(write, key, gamma, all, [left, y], {font, across}) {
  const count = all.flat().length;
  write(`g${key}`, left, y, `γ = ${gamma} ${gamma > 1 ? 'drafts' : 'draft'} a round`, {
    'font-size': font + 1,
    'font-weight': 600,
  });
  write(`n${key}`, left + across, y, `${count} ${count > 1 ? 'calls' : 'call'} of the target`, {
    'font-size': font,
    'text-anchor': 'end',
  });
}

// Draw a text: the tokens of a round hang together.
function strips([add, write], [side, row, rows], text, rounds, gamma, [left, y], page) {
  const {wide, font, high} = page,
    letter = 0.61 * font,
    gap = wide < 10 ? GAP - 1 : GAP,
    ends = new Set(rounds.map(([start, kept]) => start + kept));
  fates(text.tokens.length, rounds, gamma).forEach(([what, number, place], column) => {
    const x = left + column * wide,
      broad = wide - (ends.has(column) ? gap : 0.7),
      own = cloth.bare(text.tokens[column]);
    const word = own === END ? '■' : own;
    add(`t${side}.${row}.${column}`, 'rect', {
      x,
      y,
      width: broad,
      height: high - 6,
      cell: [side * rows + row, column],
      note: told(text, row, column, [what, number, place], gamma),
      ...dress(what, 'lablib-cell'),
    });
    const most = Math.floor((broad + 1) / letter),
      shown = word.length <= most ? word : most > 2 ? `${word.slice(0, most - 1)}…` : '';
    if (shown)
      write(
        `w${side}.${row}.${column}`,
        x + broad / 2,
        y + font - 0.5 + (high - 6 - font) / 2,
        shown,
        {
          'text-anchor': 'middle',
          'font-size': font,
          'font-family': cloth.MONO,
          'pointer-events': 'none',
          fill: what === 'kept' ? '#FFFFFF' : '#111111',
          class: what === 'refused' ? 'lablib-on-refused' : '',
        },
      );
  });
}

const dress = (what, more = '') => ({
  rx: 1.5,
  fill: INK[what],
  stroke: what === 'own' ? INK.line : 'none',
  'stroke-width': 1.2,
  class: `${what === 'refused' ? 'lablib-refused' : ''} ${more}`.trim(),
});

// Return what became of each token, in which round, and at which place of it. In the last round,
// which the end cuts short, there is no bonus.
function fates(length, rounds, gamma) {
  const found = [];
  rounds.forEach(([start, kept], number) => {
    for (let i = start; i < Math.min(start + kept, length); i++)
      found[i] = ['kept', number + 1, i - start + 1];
    if (start + kept < length)
      found[start + kept] = [kept < gamma ? 'refused' : 'own', number + 1, kept + 1];
  });
  return found;
}

function told(text, row, column, [what, number, place], gamma) {
  const name = text.tokens[column],
    said = name === END ? 'the text’s end' : `“${name}”`;
  const where = `γ = ${gamma}, text ${row + 1}, token ${column + 1}, ${said} (${text.classes[column]})`;
  if (what === 'own')
    return `${where}: the bonus of round ${number}, behind ${gamma} accepted drafts; nothing is drafted here.`;
  const guess = `“${text.guess[column]}” (q = ${text.q[column].toFixed(2)}, p = ${text.p[column].toFixed(2)})`;
  return what === 'kept'
    ? `${where}: draft ${place} of round ${number}, ${guess}, is accepted.`
    : `${where}: draft ${place} of round ${number}, ${guess}, is rejected.`;
}
