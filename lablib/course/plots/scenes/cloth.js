// What all carpets are woven of: one row a text, one cell a token of the target, one bracket a round.

const INK = {kept: '#0072B2', refused: '#E69F00', own: '#FFFFFF', uncounted: '#CCCCCC', line: '#333333',
  faint: '#767676', grid: '#DDDDDD', yield: '#009E73', waste: '#D55E00'};

const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';  // each letter as wide
const HALO = {stroke: '#FFFFFF', 'stroke-width': 3, 'paint-order': 'stroke'};  // of words that lie on lines

// Return functions that add a shape, and a line of text, to a list.
function pens(shapes) {
  const add = (key, tag, more) => shapes.push({key, tag, ...more});
  const write = (key, x, y, text, more = {}) => add(key, 'text',
    {x, y, text, fill: INK.line, 'font-size': 11, ...more});
  return [add, write];
}

// Name the colours. Return how far down it goes: on a narrow page it takes several lines.
function legend([add, write], entries, left, y, width) {
  let x = left;
  const room_for = text => {
    const wanted = 32 + 5.8 * text.length;
    if (x > left && x + wanted - 8 > width) [x, y] = [left, y + 17];
    return wanted;
  };
  for (const [look, text] of entries) {
    const wanted = room_for(text);
    add(`l-${look}`, 'rect', {x, y: y - 11, width: 13, height: 13, rx: 2, fill: INK[look], stroke: INK.faint});
    write(`L-${look}`, x + 18, y, text);
    x += wanted;
  }
  const vain = 'line above: drafted in vain, never judged';
  room_for(vain);
  add('l-waste', 'path', {d: `M${x} ${y - 5}h16`, stroke: INK.waste, 'stroke-width': 2});
  write('L-waste', x + 21, y, vain);
  return y;
}

// Return how wide a cell is at least: a letter has room, and where tokens are words so has “…”; on a phone a finger, too.
const least = (names, slim) => names.some(name => name.replace('␣', '').length > 1) ? (slim ? 17 : 15) : slim ? 12 : 8;

// Draw a text. cells: [{what, share, name, note}], rounds: [[start, tokens, drafted]], mean: tokens a
// round, drawn as a dot beside it with its note; columns: of each of a text's lines; place: of a number beside them.
function row([add, write], number, {cells, rounds, mean, note}, {wide, high, left, y: top, columns, lines, place, right}) {
  // the pieces of from ... to: of each line its top, and where they begin and end
  const pieces = (from, to) => Array.from({length: lines}, (_, i) => [top + i * high, Math.max(from - i * columns, 0),
    Math.min(to - i * columns, columns)]).filter(([, begin, end]) => begin < end);
  cells.forEach(({what, share, name, note}, column) => {
    const [[y, at]] = pieces(column, column + 1), x = left + at * wide, strength = what === 'kept' ? 0.25 + 0.75 * share : 1;
    add(`t${number}.${column}`, 'rect', {x: x + 1, y: y + 3, width: wide - 2, height: high - 9, rx: 2,
      fill: INK[what], 'fill-opacity': strength, stroke: what === 'kept' ? 'none' : INK.faint,
      'stroke-width': 0.8, cell: [number, column], class: 'lablib-cell', note});
    const letters = name.replace(/^␣(?=.)/, ''), most = Math.floor(wide / 7.2);
    const shown = letters.length <= most ? letters : `${letters.slice(0, most - 1)}…`;
    if (most > 1 || shown === letters) write(`w${number}.${column}`, x + wide / 2, y + high - 9, shown, {'text-anchor': 'middle',
      'font-family': MONO, fill: strength > 0.62 && what === 'kept' ? '#FFFFFF' : '#111111', 'pointer-events': 'none'});
  });
  rounds.forEach(([start, tokens, drafted], i) => {
    if (start >= cells.length) return;
    const end = Math.min(start + tokens, cells.length), own = pieces(start, end), vain = pieces(end, start + drafted);
    const [[first, begin]] = own, line = ([y, from, to]) => `M${left + from * wide + 2} ${y}H${left + to * wide - 2}`;
    add(`b${number}.${i}`, 'path', {fill: 'none', stroke: INK.line, d: `M${left + begin * wide + 2} ${first + high - 5.5}v2`
      + own.map(([y, ...ends]) => line([y + high - 3.5, ...ends])).join('') + 'v-2'});
    if (vain.length) add(`d${number}.${i}`, 'path', {d: vain.map(([y, ...ends]) => line([y + 1, ...ends])).join(''), fill: 'none', stroke: INK.waste, 'stroke-width': 2});
  });
  const middle = top + (lines * high) / 2 - 2;
  add(`Y${number}`, 'path', {d: `M${place(1)} ${middle}H${place(mean || 1)}`, stroke: INK.yield, 'stroke-width': 2});
  add(`y${number}`, 'circle', {cx: place(mean || 1), cy: middle, r: mean ? 4.5 : 0, fill: INK.yield, note});
  write(`m${number}`, right, middle + 4, mean ? mean.toFixed(1) : '–', {'text-anchor': 'end'});
}

// Draw what stands behind the dots of all rows: one token a round, which is plain decoding, and the mean of all.
// more: for how many tokens of the longest text there was no room. what: the dots' name.
function lines([add, write], {place, most, top, bottom, mean, right, end, more, what = 'tokens a round'}) {
  for (const value of [1, (most + 2) / 2, most + 1]) {
    add(`one${value}`, 'path', {d: `M${place(value)} ${top}V${bottom}`, stroke: value === 1 ? INK.faint : INK.grid});
    write(`one${value}t`, place(value), bottom + 12, String(value), {'text-anchor': 'middle', fill: INK.faint});
  }
  add('mean', 'path', {d: `M${place(mean)} ${top}V${bottom}`, stroke: INK.line, 'stroke-dasharray': '3 3'});
  if (more > 0) write('more', end, bottom + 12, `… ${more} more`, {'text-anchor': 'end', fill: INK.faint});
  write('side', right, bottom + 25, `${what} (1: plain, dashed: mean)`, {'text-anchor': 'end', fill: INK.faint});
}

// Return the lines of a text, of so many letters at most.
function wrapped(text, letters) {
  const lines = [];
  for (const word of text.split(' ').filter(Boolean)) {
    if (lines.length && lines.at(-1).length + 1 + word.length <= letters) lines.push(`${lines.pop()} ${word}`);
    else lines.push(word);
  }
  return lines;
}

// Return where words of these [middle, room] stand beside one another, each as near to its middle as the others let it.
function beside(wanted, left, right) {
  const places = [];
  let free = left - 12;
  for (const [middle, wide] of wanted) {
    places.push(Math.max(middle, free + wide / 2));
    free = places.at(-1) + wide / 2;
  }
  let limit = right;
  for (let i = places.length - 1; i >= 0; i--) {
    places[i] = Math.min(places[i], limit - wanted[i][1] / 2);
    limit = places[i] - wanted[i][1] / 2;
  }
  return places;
}

// Return where a number of tokens a round stands, from 1 to most + 1; numbers have room at the right.
const placing = (side, right, most) => tokens => side + (right - 34 - side) * (tokens - 1) / most;

const cloth = {INK, MONO, HALO, pens, legend, row, lines, placing, wrapped, beside, least};
