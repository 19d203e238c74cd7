// The line from 0 to 1, cut into one piece for each word, and the dart that falls on one of them.
//
// constants: {words} data: {u, pieces: [probability], notes: [what is said of a piece]}: the dart's
// place; it hits the piece that holds it.

const INK = {hit: '#0072B2', piece: '#BFE1F6', line: '#333333', faint: '#767676', edge: '#CCCCCC'};
const TOP = 58,
  HIGH = 62,
  LETTER = 7.6; // of the line of pieces; a letter's width

function dart({words}, {u, pieces, notes}, room) {
  const width = Math.max(250, Math.min(room, 850)),
    left = 14,
    long = width - 2 * left;
  const shapes = [],
    [add, write] = cloth.pens(shapes),
    x = value => left + long * value;
  const begins = pieces.map((_, i) => pieces.slice(0, i).reduce((sum, value) => sum + value, 0));
  const ends = pieces.map((value, i) => begins[i] + value),
    token = ends.findIndex(end => end > u * ends.at(-1));
  const middles = pieces.map((value, i) => x(begins[i] + value / 2)),
    outside = [];
  words.forEach((word, i) => {
    const wide = long * pieces[i],
      hit = i === token,
      ink = hit ? '#FFFFFF' : INK.line;
    add(`p${i}`, 'rect', {
      x: x(begins[i]),
      y: TOP,
      width: wide,
      height: HIGH,
      fill: hit ? INK.hit : INK.piece,
      stroke: '#FFFFFF',
      'stroke-width': wide > 3 ? 2 : 0,
      note: notes[i],
      cell: [0, i],
      class: 'lablib-cell',
    });
    const inside = wide > 8 + LETTER * word.length;
    if (!inside) outside.push(i);
    const look = {
      'text-anchor': 'middle',
      'pointer-events': 'none',
      fill: inside ? ink : INK.line,
      'font-weight': hit ? 700 : 400,
    };
    if (inside) write(`n${i}`, middles[i], TOP + 28, word, {...look, 'font-size': 14});
    if (inside && wide > 34)
      write(`q${i}`, middles[i], TOP + 46, pieces[i].toFixed(2), {...look, 'font-size': 12});
  });
  let free = 0; // the sums that the pieces end at have numbers where there is room
  [0, ...ends.slice(0, -1), 1].forEach((value, i, {length}) => {
    const inner = i && i < length - 1;
    if (inner && (x(value) < free || x(value) > x(1) - 34)) return;
    if (inner) add(`e${i}`, 'path', {d: `M${x(value)} ${TOP + HIGH}v34`, stroke: INK.edge});
    write(`t${i}`, x(value), TOP + HIGH + 46, inner ? value.toFixed(2) : String(value), {
      'text-anchor': 'middle',
      fill: INK.faint,
    });
    free = x(value) + 34;
  });
  cloth
    .beside(
      outside.map(i => [middles[i], 8 + LETTER * words[i].length]),
      left,
      width,
    )
    .forEach((at, n) => {
      const i = outside[n],
        bottom = TOP + HIGH;
      add(`l${i}`, 'path', {
        d: `M${middles[i]} ${bottom}V${bottom + 4}L${at} ${bottom + 12}`,
        fill: 'none',
        stroke: INK.faint,
      });
      write(`o${i}`, at, bottom + 25, words[i], {
        'text-anchor': 'middle',
        'font-size': 13,
        'font-weight': i === token ? 700 : 400,
        ...cloth.HALO,
      });
    });
  write('sum', x(0.5), TOP + HIGH + 63, 'cumulative probability', {
    'text-anchor': 'middle',
    fill: INK.faint,
  });
  const end = x(u) < width - 80 ? ['start', 12] : ['end', -12];
  add('shaft', 'path', {d: `M${x(u)} 8V${TOP - 8}`, stroke: '#000000', 'stroke-width': 2.5});
  add('point', 'path', {d: `M${x(u)} ${TOP + 3}l-7 -15h14z`, fill: '#000000'});
  write('u', x(u) + end[1], 20, `u = ${u.toFixed(2)}`, {
    'text-anchor': end[0],
    'font-size': 14,
    'font-weight': 600,
  });
  write('word', x(u) + end[1], 39, words[token], {
    'text-anchor': end[0],
    'font-size': 14,
    'font-weight': 700,
    fill: INK.hit,
  });
  return {width, height: TOP + HIGH + 70, shapes};
}
