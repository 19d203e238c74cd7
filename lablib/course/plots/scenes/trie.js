// A tree of prefixes as one query finds it and leaves it, and what it has saved.
//
// constants: {rows, edges, columns, most}: room for so many rows, edges and pixels across, and
// tokens asked in all. data: {query: [[word, found]], number, edges: [{key, text, status, row,
// parent, used, note}], total, alone, held, budget}:
//   the words of the query and whether the tree had them; runs of tokens, each hanging on the end
//   of its parent (-1: it begins a text), parents first, and which query used it last; tokens
//   forwarded up to now, and as many as they would be without a tree.

const LOOKS = {
  held: ['#EEEEEE', '#767676', 'held'],
  reused: ['#A9D3F0', '#0072B2', 'found by this query'],
  fresh: ['#F3BE6B', '#B07400', 'new'],
  evicted: ['#FFFFFF', '#C44E00', 'evicted'],
};
const LETTER = 7.7,
  ROW = 30,
  GAP = 16;

function trie(constants, data, room) {
  const width = Math.max(250, Math.min(room, 850)),
    narrow = constants.columns > width;
  const shapes = [],
    pens = cloth.pens(shapes),
    [add, write] = pens;
  const top = asked(pens, data, width) + 12;
  const rows = narrow ? constants.edges : constants.rows,
    rights = [],
    depths = [];
  data.edges.forEach(({key, text, status, row, parent, used, note}, i) => {
    depths[i] = parent < 0 ? 0 : depths[parent] + 1;
    const fit = narrow ? Math.floor((width - 24 * depths[i] - 26) / LETTER) : text.length;
    const letters = text.length > fit ? `${text.slice(0, fit - 1)}…` : text;
    const left = 4 + (narrow ? 24 * depths[i] : parent < 0 ? 0 : rights[parent] + GAP);
    const y = top + ROW * (narrow ? i : row),
      wide = letters.length * LETTER + 24,
      [fill, edge] = LOOKS[status];
    rights[i] = left + wide;
    if (parent >= 0) {
      const from = data.edges[parent],
        low = top + ROW * (narrow ? parent : from.row);
      const x = narrow ? 14 + 24 * depths[parent] : rights[parent] - (row > from.row ? 9 : 0);
      const d =
        narrow || row > from.row
          ? `M${x} ${low + 22}V${y + 11}H${left}`
          : `M${x} ${y + 11}H${left}`;
      add(`s${key}`, 'path', {d, fill: 'none', stroke: '#666666', 'stroke-width': 1.3});
    }
    add(`e${key}`, 'rect', {
      x: left,
      y,
      width: wide,
      height: 22,
      rx: 3,
      fill,
      stroke: edge,
      'stroke-width': 1.4,
      'stroke-dasharray': status === 'evicted' ? '4 3' : 'none',
      note,
      cell: [i, 0],
      class: 'lablib-cell',
    });
    write(`w${key}`, left + 5, y + 15.5, letters, {
      'font-family': cloth.MONO,
      'font-size': 13,
      'pointer-events': 'none',
      textLength: letters.length * LETTER,
      lengthAdjust: 'spacingAndGlyphs',
      fill: status === 'evicted' ? '#A04000' : '#111111',
    });
    write(`u${key}`, rights[i] - 4, y + 14, String(used), {
      'text-anchor': 'end',
      'pointer-events': 'none',
      fill: used === data.number ? '#000000' : '#555555',
      'font-weight': used === data.number ? 700 : 400,
    });
  });
  const end = top + ROW * rows + 4,
    beside = constants.columns + 330 < width;
  const low = beside
    ? meters(pens, constants, data, constants.columns + 40, top + 14, width)
    : meters(pens, constants, data, 0, end + 10, width);
  return {width, height: Math.max(low, end), shapes};
}

// Write the query, and name the colours; return how far down it goes.
function asked([add, write], {query, number}, width) {
  write('query', 4, 15, number ? `query ${number}` : 'no query yet', {
    'font-size': 13,
    'font-weight': 600,
  });
  let x = 76;
  query.forEach(([word, found], i) => {
    const wide = word.length * LETTER + 6;
    add(`q${i}`, 'rect', {
      x,
      y: 1,
      width: wide,
      height: 20,
      rx: 2,
      fill: LOOKS[found ? 'reused' : 'fresh'][0],
    });
    write(`Q${i}`, x + 3, 15.5, word, {
      'font-family': cloth.MONO,
      'font-size': 13,
      textLength: word.length * LETTER,
      lengthAdjust: 'spacingAndGlyphs',
    });
    x += wide + 3;
  });
  let left = 4,
    y = 42;
  for (const [status, [fill, edge, name]] of Object.entries(LOOKS)) {
    const wide = 36 + 6.2 * name.length;
    if (left > 4 && left + wide > width) [left, y] = [4, y + 18];
    add(`l${status}`, 'rect', {
      x: left,
      y: y - 11,
      width: 14,
      height: 13,
      rx: 2,
      fill,
      stroke: edge,
      'stroke-dasharray': status === 'evicted' ? '4 3' : 'none',
    });
    write(`L${status}`, left + 19, y, name);
    left += wide;
  }
  const small = 'number: the query that used it last; bold: this one';
  if (left + 6.2 * small.length > width) [left, y] = [4, y + 18];
  return cloth.words(write, 'used', left, y, small, width);
}

// Draw how full the tree is, and what was run beside what would have been; return how far down they
// go.
function meters([add, write], {most}, {total, alone, held, budget}, left, top, width) {
  const from = left + 96,
    long = width - from - 34;
  const bar = (key, row, value, fill, name, note) => {
    const y = top + 22 * row;
    write(`m${key}`, from - 8, y + 12, name, {'text-anchor': 'end'});
    add(`M${key}`, 'rect', {x: from, y, width: (long * value) / most, height: 15, fill, note});
    const held_of = key === 'held',
      end = held_of ? budget : value; // behind the budget's line
    write(
      `V${key}`,
      from + (long * end) / most + 5,
      y + 12,
      held_of ? `${value} of ${budget}` : String(value),
      {'font-weight': 600},
    );
  };
  bar('held', 0, held, '#999999', 'tokens held', `The tree holds ${held} of ${budget} tokens.`);
  add('budget', 'path', {
    d: `M${from + (long * budget) / most} ${top - 3}v21`,
    stroke: '#333333',
    'stroke-width': 1.5,
  });
  write('Budget', from + (long * budget) / most, top - 7, 'budget', {
    'text-anchor': 'middle',
    'font-size': 11,
  });
  bar('run', 1, total, '#E69F00', 'tokens run', `${total} tokens were run up to now.`);
  bar('alone', 2, alone, '#DDDDDD', 'without a tree', `Without a tree ${alone} would have been.`);
  return top + 70;
}
