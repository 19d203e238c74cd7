// What all carpets are woven of: one row a text, one cell a token of the target, one bracket a
// round.

const INK = {
  kept: '#0072B2',
  refused: '#E69F00',
  own: '#FFFFFF',
  none: '#FFFFFF',
  line: '#333333',
  faint: '#767676',
  grid: '#DDDDDD',
  yield: '#009E73',
  waste: '#D55E00',
};

const STRIP = {high: 22, step: 30}; // of bars over one line of columns
const GAP = 2; // between rounds, beyond what is between cells
// Each letter as wide.
const MONO = 'ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace';
// Of words that lie on lines.
const HALO = {stroke: '#FFFFFF', 'stroke-width': 3, 'paint-order': 'stroke'};

// Return functions that add a shape, and a line of text, to a list.
function pens(shapes) {
  const add = (key, tag, more) => shapes.push({key, tag, ...more});
  const write = (key, x, y, text, more = {}) =>
    add(key, 'text', {x, y, text, fill: INK.line, 'font-size': 11, ...more});
  return [add, write];
}

// Name the colours. Return how far down it goes: on a narrow page it takes several lines. What is
// not shown keeps its room.
function legend([add, write], entries, left, y, width) {
  let x = left;
  for (const [look, text, shown = true] of entries) {
    const sign = look === 'vain' ? 9 : 18,
      wanted = sign + 14 + 5.8 * text.length;
    if (x > left && x + wanted - 8 > width) [x, y] = [left, y + 17];
    if (shown) {
      if (look === 'round')
        add(`l-${look}`, 'path', {
          d: `M${x} ${y - 5}v4.5h13v-4.5`,
          fill: 'none',
          stroke: INK.line,
          'stroke-width': 1.4,
        });
      else if (look === 'vain') add(`l-${look}`, 'path', ticks(1, x, y - 1, 6));
      else
        add(`l-${look}`, 'rect', {
          x,
          y: y - 11,
          width: 13,
          height: 13,
          rx: 2,
          fill: INK[look],
          stroke: INK.faint,
          ...dashes(look),
          ...classes(look),
        });
      y = words(write, `L-${look}`, x + sign, y, text, left + width);
    }
    x += wanted;
  }
  return y;
}

// A dark page, which turns light and dark, has its own colour of what is refused, and of letters on
// it.
const classes = (what, more = '') => ({
  class: what === 'refused' ? `lablib-refused ${more}` : more,
});

// It is as white as a bonus.
const dashes = look => (look === 'none' ? {'stroke-dasharray': '2 2'} : {});

// Return how wide a cell is at least: a letter has room, and where tokens are words so has “…”; on
// a phone a finger, too.
const least = (names, slim) => (names.some(name => bare(name).length > 1) ? 17 : slim ? 12 : 8);

const LETTER = 6.7,
  bare = name => name.replace(/^␣(?=.)/, '');

// Return the width of a cell that holds a whole word; where one is wider than others, letters need
// some air.
function fit(name, wide) {
  const word = LETTER * bare(name).length;
  return word + 2 > wide ? word + 6 : wide;
}

// Return where cells of these widths stand: line, left edge and width; for the last ones there may
// be no room.
function spots(widths, across, lines) {
  const found = [];
  let line = 0,
    x = 0;
  for (const wide of widths) {
    if (x + wide > across) [line, x] = [line + 1, 0];
    if (line === lines) break;
    found.push([line, x, wide]);
    x += wide;
  }
  return found;
}

// Return how strong the blue of a kept token is, of which models agree so much. Between 0.69 and
// 0.92 neither black letters nor white ones have 4.5 : 1 of contrast on paper and on a dark page,
// which turns them: no token is so blue.
const strength = share => (share < 0.9 ? 0.2 + 0.5 * share : 0.3 + 0.7 * share);

// Draw a token in a box from this corner; where it is too narrow for its word, the word is cut.
// Behind the last one of a round there is some more room, if its letters leave it.
function cell([add, write], key, [x, y, wide, behind = 0], {what, share, name}, more = {}) {
  const blue = what === 'kept' ? strength(share) : 1,
    letters = bare(name),
    gap = Math.max(0, Math.min(behind, wide - 4 - LETTER * letters.length));
  add(`t${key}`, 'rect', {
    x: x + 1,
    y,
    width: wide - 2 - gap,
    height: 12,
    rx: 2,
    fill: INK[what],
    'fill-opacity': blue,
    stroke: what === 'kept' ? 'none' : INK.faint,
    'stroke-width': 0.8,
    ...dashes(what),
    ...more,
    ...classes(what, more.class),
  });
  const most = Math.floor((wide - 2) / LETTER);
  const shown = letters.length <= most ? letters : `${letters.slice(0, most - 1)}…`;
  const fill =
    what === 'kept'
      ? blue > 0.9
        ? '#FFFFFF'
        : '#000000'
      : what === 'none'
        ? '#595959'
        : '#111111';
  if (most > 1 || shown === letters)
    write(`w${key}`, x + (wide - gap) / 2, y + 10, shown, {
      'text-anchor': 'middle',
      'font-family': MONO,
      fill,
      'pointer-events': 'none',
      class: what === 'refused' ? 'lablib-on-refused' : '',
    });
}

// Draw a text. cells: [{what, share, name, note}], rounds: [[start, tokens, drafts in vain]], mean:
// tokens a round, drawn as a dot beside it with its note; at: the cells' spots; lines: of a text; place: of a number beside them.
function row(
  [add, write],
  number,
  {cells, rounds, mean, note},
  {at, high, left, y: top, lines, place},
) {
  const ends = new Set(rounds.map(([start, tokens]) => start + tokens - 1));
  cells.forEach((each, column) => {
    const [line, from, wide] = at[column];
    cell(
      [add, write],
      `${number}.${column}`,
      [left + from, top + (line + 1) * high - 18, wide, ends.has(column) ? GAP : 0],
      each,
      {cell: [number, column], class: 'lablib-cell', note: each.note},
    );
  });
  rounds.forEach(([start, tokens, vain], i) => {
    const own = at.slice(start, start + tokens),
      [last, x, wide] = own.at(-1);
    const parts = [...new Set(own.map(([line]) => line))].map(line =>
      own.filter(each => each[0] === line),
    );
    const bracket = parts
      .map(
        part =>
          `M${left + part[0][1] + 2} ${top + (part[0][0] + 1) * high - 3.5}${part === parts[0] ? 'm0 -2v2' : ''}` +
          `H${left + part.at(-1)[1] + part.at(-1)[2] - 2 - (part === parts.at(-1) ? GAP : 0)}`,
      )
      .join('');
    add(`b${number}.${i}`, 'path', {
      fill: 'none',
      stroke: INK.line,
      'stroke-width': 1.4,
      d: `${bracket}v-2`,
    });
    // where it was cut: a tick for each draft behind the refused one
    if (vain && own.length === tokens)
      add(
        `d${number}.${i}`,
        'path',
        ticks(vain, left + x + 1, top + (last + 1) * high - 18.8, wide - 2 - GAP),
      );
  });
  const middle = top + (lines * high) / 2 - 2;
  add(`Y${number}`, 'path', {
    d: `M${place(1)} ${middle}H${place(mean || 1)}`,
    stroke: INK.yield,
    'stroke-width': 2,
  });
  add(`y${number}`, 'circle', {
    cx: place(mean || 1),
    cy: middle,
    r: mean ? 4 : 0,
    fill: INK.yield,
    note,
  });
  write(`m${number}`, place(1) - 4, middle + 4, mean ? mean.toFixed(1) : '–', {
    'text-anchor': 'end',
  });
}

// Draw over the columns, as the first text's cells stand, how often drafts are kept there: each
// line of a text has its own axis. bars: of each column its shares, one before the other, with
// their looks; of how many that is; and what is said of it.
function strip([add, write], bars, at, {left, low, end, lines}) {
  for (let line = 0; line < lines; line++) {
    const foot = low + STRIP.step * line;
    [0, 1].forEach(share => {
      add(`share${line}.${share}`, 'path', {
        d: `M${left} ${foot - STRIP.high * share}H${end}`,
        stroke: share ? INK.grid : INK.faint,
      });
      if (!line)
        write(`share${share}t`, end + 5, foot - STRIP.high * share + 4, String(share), {
          fill: INK.faint,
        });
    });
    if (line) write(`line${line}`, end + 16, foot - 8, `line ${line + 1}`, {fill: INK.faint});
  }
  const most = Math.max(1, ...bars.map(each => each.of)),
    widest = Math.max(4, Math.min(12, ...at.map(each => each[2] - 4)));
  at.forEach(([line, from, wide], column) => {
    const {shares, of, note} = bars[column],
      foot = low + STRIP.step * line,
      middle = left + from + wide / 2;
    const thin = Math.max(2, (widest * of) / most); // widths say of how many
    shares.forEach(([share, look], i) => {
      const high = of ? Math.max(1.5, STRIP.high * share) : 0;
      add(`c${column}.${i}`, 'rect', {
        x: middle - thin / 2,
        y: foot - high,
        width: thin,
        height: high,
        ...look,
      });
    });
    if (!of) write(`n${column}`, middle, foot - 7, '–', {'text-anchor': 'middle', fill: INK.faint});
    add(`C${column}`, 'rect', {
      x: left + from + 1,
      y: foot - STRIP.high,
      width: wide - 2,
      height: STRIP.high,
      fill: 'transparent',
      note,
    });
  });
}

// Return how many drafts these rounds made in vain, those for whose tick there is no room, too.
const waste = rounds => rounds.reduce((sum, [, , vain]) => sum + vain, 0);

// Return the look of so many ticks, as far apart as there is room for.
function ticks(count, x, y, room) {
  const step = Math.min(4, room / count);
  const d = Array.from({length: count}, (_, i) => `M${x + step * (i + 0.5)} ${y}v-4.7`).join('');
  return {d, fill: 'none', stroke: INK.waste, 'stroke-width': 0.5 * step};
}

// Draw what stands behind the dots of all rows: one token a round, which is plain decoding, and the
// mean of all. more: for how many tokens of the longest text there was no room; vain: ticks, whose
// key stands below; said: lines of words about the dots, and how far down each stands.
function lines([add, write], {left, place, most, top, bottom, mean, right, end, more, vain, said}) {
  for (const value of [1, (most + 2) / 2, most + 1]) {
    add(`one${value}`, 'path', {
      d: `M${place(value)} ${top}V${bottom}`,
      stroke: value === 1 ? INK.faint : INK.grid,
    });
    write(`one${value}t`, place(value), bottom + 12, String(value), {
      'text-anchor': 'middle',
      fill: INK.faint,
    });
  }
  add('mean', 'path', {
    d: `M${place(mean)} ${top}V${bottom}`,
    stroke: INK.line,
    'stroke-width': 2,
    'stroke-linecap': 'round',
    'stroke-dasharray': '0.1 4',
  });
  if (vain) {
    add('l-waste', 'path', ticks(1, left, bottom + 11, 4));
    write(
      'L-waste',
      left + 8,
      bottom + 12,
      `${end - left > 300 ? 'a draft in vain, ' : ''}unjudged here: ${vain}`,
    );
  }
  const hidden =
    end - left > 400
      ? `no room for the last tokens of some texts, up to ${more}`
      : `up to ${more} hidden`;
  if (more > 0) write('more', end, bottom + 12, hidden, {'text-anchor': 'end'});
  said.forEach(([down, words], i) =>
    write(`side${i || ''}`, right, bottom + down, words, {'text-anchor': 'end', fill: INK.faint}),
  );
}

// Return the first of these texts, the longest first, that has room, where a letter is so wide.
const fitting = (texts, room, letter = 6.1) =>
  texts.find(text => letter * text.length < room) ?? texts.at(-1);

// Return the lines of a text, of so many letters at most.
function wrapped(text, letters) {
  const lines = [];
  for (const word of text.split(' ').filter(Boolean)) {
    if (lines.length && lines.at(-1).length + 1 + word.length <= letters)
      lines.push(`${lines.pop()} ${word}`);
    else lines.push(word);
  }
  return lines;
}

// Write words that begin here, on a narrow page below one another; return how far down the last of
// them stands.
function words(write, key, x, y, text, width) {
  const rows = wrapped(text, (width - x) / 5.9);
  rows.forEach((row, n) => write(`${key}${n || ''}`, x, y + 14 * n, row));
  return y + 14 * Math.max(0, rows.length - 1);
}

// Return where words of these [middle, room] stand beside one another, each as near to its middle
// as the others let it.
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

// Return where a number of tokens a round stands, from 1 to most + 1; before its line it has room
// in digits.
const placing = (side, right, most) => tokens =>
  side + 21 + ((right - 27 - side) * (tokens - 1)) / most;

const cloth = {
  INK,
  MONO,
  HALO,
  STRIP,
  pens,
  legend,
  row,
  strip,
  lines,
  placing,
  fitting,
  wrapped,
  words,
  beside,
  least,
  fit,
  spots,
  waste,
  bare,
};
