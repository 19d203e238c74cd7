// Charts whose axes stay: bars, lines, areas, dots, rules and words on one panel or more.
//
// constants: {panels: [{title, x, y, high, share, side, below, behind, labels}], keys: [[colour,
// what, hollow or the dashes of a line]]}; an axis is {ends:
//   [low, high], ticks: [[value, name]], name, grid, bare, log}; panels share a line, by their
//   shares, up to one that stands below; on a phone each has its own. behind: marks that never
//   change, below the others. labels: the names that lines may bear; they stand at the lines' ends,
//   and get room there.
// data: {panels: [{marks, x?, y?}]}: an axis may be given new ticks and names, never new ends. A
// mark is one of
//   {bar: [x0, x1, y0, y1], fill, edge, hollow, text}, {line: [[x, y, low?, high?]], label, colour,
//   dash, wide}, {area: [[x, y]], fill}, {dot: [x, y], shape, colour, r, hollow, fill}, {rule: {x}
//   or {y}, colour, dash, text, line_down, below}, {text, at: [x, y], colour, bold, anchor, room};
//   room: how much of the axis its words may take before they are wrapped, upwards; each may have a
//   note, and a key by which it is known when it moves: without one it is the first, second, ... of
//   its kind, hollow ones apart. A line with a label says its numbers at its points, or has notes
//   and sizes of them.

const FAINT = '#767676',
  LINE = '#333333',
  GRID = '#E4E4E4',
  SIDE = 46,
  GAP = 26,
  LETTER = 6.4;
const KINDS = ['bar', 'line', 'area', 'dot', 'rule', 'text'],
  {HALO} = cloth;
// Of shapes whose area is that of a circle: how far an edge is from the middle, and where corners
// are if an edge is at 1.
const CORNERED = {
  square: [
    0.886,
    [
      [-1, -1],
      [1, -1],
      [1, 1],
      [-1, 1],
    ],
  ],
  diamond: [
    0.886,
    [
      [0, -1.414],
      [1.414, 0],
      [0, 1.414],
      [-1.414, 0],
    ],
  ],
  triangle: [
    0.778,
    [
      [0, -2],
      [1.732, 1],
      [-1.732, 1],
    ],
  ],
};

function chart({panels, keys = []}, data, room) {
  const width = Math.max(250, Math.min(room, 850)),
    narrow = room < 560,
    shapes = [];
  const pens = cloth.pens(shapes),
    [add, write] = pens;
  let x = 4,
    y = 12;
  for (const [colour, what, hollow] of keys) {
    const wanted = 34 + 6 * what.length;
    if (x > 4 && x + wanted > width) [x, y] = [4, y + 17];
    const look = {stroke: colour, 'stroke-width': 1.5};
    if (hollow?.length)
      add(`k${what}`, 'path', {d: `M${x} ${y - 4}h14`, 'stroke-dasharray': hollow, ...look});
    else
      add(`k${what}`, 'rect', {
        x,
        y: y - 10,
        width: 13,
        height: 11,
        rx: 2,
        fill: hollow ? '#FFFFFF' : colour,
        ...look,
      });
    y = cloth.words(write, `K${what}`, x + 18, y, what, width);
    x += wanted;
  }
  const rows = [],
    walk = {row: 0};
  panels.forEach((panel, i) => {
    if (narrow || !i || panel.below) rows.push([]);
    rows.at(-1).push([panel, i]);
  });
  let top = keys.length ? y + 12 : 4,
    low = 0;
  for (const row of rows) {
    const whole = row.reduce((sum, [{share = 1}]) => sum + share, 0);
    const room = ({share = 1}) => ((width + GAP) * share) / whole - GAP;
    const lines = Math.max(
      ...row.flatMap(([panel, i]) =>
        [panel, data.panels[i]].map(({title}) => heads(title, room(panel)).length),
      ),
    );
    let left = 0;
    for (const [panel, i] of row) {
      const wide = room(panel),
        letters = narrow ? 11 : 20;
      const names = (panel.labels || []).flatMap(name => cloth.wrapped(name, letters));
      const right = names.length ? 26 + LETTER * Math.max(...names.map(name => name.length)) : 12;
      const numbers =
        // A phone has no more room.
        12 + LETTER * Math.max(2, ...(panel.y.ticks || []).map(([, name]) => name.length));
      const side = Math.min(panel.side || (narrow ? Math.min(SIDE, numbers) : SIDE), wide / 2),
        high = panel.high || 200;
      const box = {
        left: left + side,
        side,
        top: top + 10 + 14 * lines,
        wide,
        width: wide - side - right,
        height: high,
      };
      const now = {...panel, ...data.panels[i]},
        ticks = now.x.ticks || panel.x.ticks || [];
      one(pens, `${i}`, now, panel, box, letters, walk);
      low = Math.max(
        low,
        box.top +
          high +
          (upright(ticks, box, panel.x.bare)
            ? 12 + LETTER * Math.max(...ticks.map(([, name]) => name.length))
            : 36),
      );
      left += wide + GAP;
    }
    top = low + 8;
  }
  return {width, height: low + 4, shapes};
}

// Return the lines of a title: on a narrow page it takes several.
const heads = (title, wide) => cloth.wrapped(title || '', (wide - 4) / 6.9);

// Return where a value stands between two ends of a line; what lies outside stands at its end.
function along({ends, log}, from, to) {
  const bent = value => (log ? Math.log(value) : value),
    [low, high] = ends;
  return value =>
    from +
    ((to - from) * (bent(Math.min(high, Math.max(low, value))) - bent(low))) /
      (bent(high) - bent(low));
}

function one([add, write], key, {title, x, y, marks}, fixed, box, letters, walk) {
  const across = along(fixed.x, box.left, box.left + box.width),
    up = along(fixed.y, box.top + box.height, box.top);
  heads(title, box.wide)
    .reverse()
    .forEach((head, n) =>
      write(`${key}title${n || ''}`, box.left - box.side + 4, box.top - 11 - 14 * n, head, {
        'font-weight': 600,
        'font-size': 12,
      }),
    );
  (y.ticks || fixed.y.ticks || []).forEach(([value, name], i) => {
    const rows = cloth.wrapped(name, Math.max(6, (box.side - 8) / 6.2)),
      look = {'text-anchor': 'end', fill: fixed.y.bare ? LINE : FAINT};
    if (!fixed.y.bare)
      add(`${key}gy${i}`, 'path', {d: `M${box.left} ${up(value)}h${box.width}`, stroke: GRID});
    rows.forEach((row, n) =>
      write(
        `${key}ty${i}${n || ''}`,
        box.left - 8,
        up(value) + 4 + 12 * (n - (rows.length - 1) / 2),
        row,
        look,
      ),
    );
  });
  const names = x.ticks || fixed.x.ticks || [],
    low = box.top + box.height;
  const wanted = names.map(([value, name]) => [across(value), 6.6 * name.length + 7]);
  const turned = upright(names, box, fixed.x.bare),
    middles =
      fixed.x.bare && !turned && !single(names)
        ? cloth.beside(wanted, box.left - 10, box.left + box.width + 8)
        : wanted.map(([at, wide]) => Math.min(at, box.left + box.width + 11 - wide / 2));
  let free = -Infinity; // numbers that would touch the one before them stay away
  names.forEach(([value, name], i) => {
    const at = middles[i],
      half = turned ? 6.5 : wanted[i][1] / 2 - 1,
      look = {fill: fixed.x.bare ? LINE : FAINT};
    if (fixed.x.grid)
      add(`${key}gx${i}`, 'path', {d: `M${across(value)} ${box.top}v${box.height}`, stroke: GRID});
    if (!fixed.x.bare && at - half < free) return;
    free = at + half;
    if (turned)
      write(`${key}tx${i}`, at + 4, low + 5, name, {
        'text-anchor': 'end',
        transform: `rotate(-90 ${at + 4} ${low + 5})`,
        ...look,
      });
    else
      write(`${key}tx${i}`, at, low + 15, name, {
        'text-anchor': 'middle',
        transform: 'rotate(0)',
        ...look,
      });
  });
  if (fixed.x.name && !turned)
    write(
      `${key}x`,
      Math.max(box.left + box.width / 2, box.left - box.side + (LETTER / 2) * fixed.x.name.length),
      box.top + box.height + 31,
      fixed.x.name,
      {'text-anchor': 'middle', fill: FAINT},
    );
  const layer = ({rule, at, hollow, bar}) => (at ? 3 : rule ? 2 : hollow && bar ? 1 : 0),
    names_of_rules = []; // outlines lie on bars, words on both
  marks = [...(fixed.behind || []), ...marks].toSorted((a, b) => layer(a) - layer(b));
  // the arrow keys walk along what has a note, row by row where there are rows, along each line,
  // and from panel to panel
  const row = walk.row,
    line_of = rows(
      marks.filter(mark => mark.note),
      fixed.y,
    ),
    told = [],
    nth = counter();
  marks.forEach(mark => {
    const line = mark.note ? line_of(mark) : 0,
      cell = mark.note
        ? {note: mark.note, cell: [row + line, told[line] ?? 0], class: 'lablib-cell'}
        : {};
    if (mark.note) told[line] = (told[line] ?? 0) + 1;
    const pen = mark.rule ? (...words) => names_of_rules.push(words) : write;
    draw([add, pen], `${key}-${mark.key ?? nth(mark)}`, mark, cell, across, up, box);
  });
  names_of_rules.forEach(words => write(...words));
  const named = marks.filter(mark => mark.label);
  walk.row += Math.max(told.length, named.length ? 0 : 1);
  for (const mark of named)
    points(
      add,
      `${key}.${mark.key ?? mark.label}`,
      mark,
      fixed.x.name || '',
      across,
      up,
      walk.row++,
    );
  if (fixed.labels?.length) labels([add, write], key, named, across, up, box, letters);
}

// Return a function that says of each mark that it is the first, second, ... of its kind.
function counter() {
  const counts = {};
  return mark => {
    const kind = [KINDS.find(name => mark[name]), mark.shape, mark.hollow ? 'hollow' : ''].join(
      ' ',
    );
    counts[kind] = (counts[kind] ?? 0) + 1;
    return `${kind} ${counts[kind]}`;
  };
}

// Return the row of a mark, where the axis is one of rows, which gaps part: 0, unless some row has
// several marks.
function rows(marks, {bare}) {
  const ends = ({bar, dot}) => (bar ? [bar[2], bar[3]] : [dot[1], dot[1]]),
    tops = [];
  if (!bare || !marks.every(({bar, dot}) => bar || dot)) return () => 0;
  let low = Infinity;
  for (const [from, to] of marks.map(ends).sort((a, b) => b[1] - a[1])) {
    if (to < low) tops.push(to);
    low = Math.min(low, from);
  }
  return mark => (tops.length < marks.length ? tops.findLastIndex(top => top >= ends(mark)[1]) : 0);
}

// Say whether names below an axis have to stand upright: side by side they would cover each other,
// or stand under other bars.
function upright(ticks, box, bare) {
  if (single(ticks)) return false;
  const gap = box.width / ticks.length,
    wanted = ticks.map(([, name], i) => [gap * (i + 0.5), 6.6 * name.length + 7]);
  const moved = cloth
    .beside(wanted, -10, box.width + 8)
    .some((at, i) => Math.abs(at - wanted[i][0]) > 6);
  return (
    ticks.reduce((sum, [, name]) => sum + 6.1 * name.length + 8, 0) > box.width + 10 ||
    (bare && ticks.length > 5 && moved)
  );
}

const single = ticks => ticks.every(([, name]) => name.length === 1); // they are no wider upright

const taken = text =>
  // Numbers side by side stay apart.
  /^\d+$/.test(text) ? 7 * text.length + 4 : /^[A-Z]$/.test(text) ? 13 : 6.2 * text.length;

const number = value => String(Number(value.toPrecision(3)));

// Draw the points of a line, or some of them if it has many: they can be pointed at, and say their
// numbers.
function points(
  add,
  key,
  {line, label, colour = LINE, r = 3, sizes = [], notes = []},
  name,
  across,
  up,
  row,
) {
  const step = Math.ceil(line.length / 20);
  line.forEach(([x, y, ...ends], i) => {
    if (i % step) return;
    const spread = ends.length ? ` (${ends.map(number).join(' to ')})` : '';
    const note = notes[i] ?? `${label}, ${name} ${number(x)}: ${number(y)}${spread}.`;
    add(`${key}.${i}`, 'circle', {
      cx: across(x),
      cy: up(y),
      r: sizes[i] ?? r,
      fill: colour,
      note,
      cell: [row, i / step],
      class: 'lablib-cell',
    });
  });
}

// Write the names of lines at their ends, each as near to its own as the others let it.
function labels([add, write], key, marks, across, up, box, letters) {
  const rows = marks.map(({line, label, ...look}) => ({
    look,
    end: line.at(-1),
    heights: line.map(([, y]) => y).reverse(),
    words: cloth.wrapped(label, letters),
    single: line.length === 1,
    short: line.length > 1 && across(line.at(-1)[0]) < box.left + 0.97 * box.width,
  }));
  rows.sort(({heights: a}, {heights: b}) => {
    // Lines with one end stand as before it.
    const last = a.findIndex((height, n) => height !== b[n]);
    return last < 0 ? 0 : b[last] - a[last] || 0;
  });
  const wanted = rows.map(({end, words}) => [up(end[1]), 13 * words.length + 3]),
    right = box.left + box.width;
  cloth
    .beside(wanted, box.top, box.top + box.height + (rows.some(row => row.short) ? 0 : 14))
    .forEach((middle, i) => {
      const {
          look: {colour = LINE, dash = '', wide},
          end,
          words,
          short,
          single,
        } = rows[i],
        dotted = single || wide === 0;
      const from = across(end[0]),
        x = short ? from + 26 : right + 20; // a line that stops within the panel has its name there
      add(`${key}h${i}`, 'path', {
        d: `M${from} ${up(end[1])}L${x - 14} ${middle}`,
        stroke: '#BBBBBB',
      });
      const key_of = dotted
        ? {d: `M${x - 8} ${middle}h0.1`, 'stroke-width': 9, 'stroke-linecap': 'round'}
        : {d: `M${x - 14} ${middle}h10`, 'stroke-width': 2, 'stroke-dasharray': dash};
      add(`${key}s${i}`, 'path', {...key_of, stroke: colour});
      words.forEach((text, n) =>
        write(`${key}n${i}.${n}`, x, middle + 4 + 13 * (n - (words.length - 1) / 2), text, HALO),
      );
    });
}

function draw([add, write], key, mark, cell, across, up, box) {
  const {colour = LINE} = mark,
    dash = mark.dash ? {'stroke-dasharray': mark.dash} : {};
  const path = ends =>
    'M' + ends.map(([x, y]) => `${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join('L');
  if (mark.bar) {
    const [a, b, c, d] = mark.bar,
      wide = across(b) - across(a),
      high = up(c) - up(d);
    add(key, 'rect', {
      x: across(a),
      y: up(d),
      width: Math.max(0, wide),
      height: Math.max(0, high),
      ...cell,
      fill: mark.hollow ? 'transparent' : mark.fill,
      stroke: mark.hollow ? mark.fill : mark.edge || '#FFFFFF',
      'stroke-width': mark.hollow ? 1.8 : Math.min(wide, high) > 1 ? 1 : 0,
    });
    if (mark.text && wide > taken(mark.text))
      write(`${key}t`, across((a + b) / 2), up((c + d) / 2) + 4, mark.text, {
        'text-anchor': 'middle',
        'pointer-events': 'none',
        fill: mark.colour || LINE,
      });
  } else if (mark.area) {
    add(key, 'path', {d: `${path(mark.area)}Z`, fill: mark.fill, ...cell});
  } else if (mark.line) {
    const low = mark.line.filter(each => each.length > 2).map(([x, , low]) => [x, low]);
    const high = mark.line.filter(each => each.length > 2).map(([x, , , high]) => [x, high]);
    const ends = ([x, , low, high]) => `M${across(x) - 4} ${up(low)}h8m-4 0V${up(high)}m-4 0h8`;
    if (low.length && mark.wide === 0)
      add(`${key}ends`, 'path', {
        d: mark.line.map(ends).join(''),
        fill: 'none',
        stroke: colour,
        'stroke-width': 1.5,
      });
    else if (low.length)
      add(`${key}band`, 'path', {
        d: `${path([...low, ...high.reverse()])}Z`,
        fill: colour,
        'fill-opacity': 0.15,
      });
    add(key, 'path', {
      d: path(mark.line),
      fill: 'none',
      stroke: colour,
      'stroke-width': mark.wide ?? 2,
      ...cell,
      ...dash,
    });
  } else if (mark.dot) {
    const [x, y] = [across(mark.dot[0]), up(mark.dot[1])],
      {r = 4, hollow} = mark,
      [share, corners] = CORNERED[mark.shape] || [1];
    const ring = hollow ? Math.min(2.5, share * r) : 1,
      edge = share * r + (hollow ? -ring : ring) / 2; // a ring lies within r, white around it
    const look = {
      fill: hollow ? mark.fill || 'none' : colour,
      stroke: hollow ? colour : '#FFFFFF',
      'stroke-width': ring,
      ...cell,
    };
    if (corners)
      add(key, 'path', {
        d: `M${corners.map(([a, b]) => `${x + a * edge} ${y + b * edge}`).join('L')}Z`,
        ...look,
      });
    else add(key, 'circle', {cx: x, cy: y, r: edge, ...look});
  } else if (mark.rule) {
    const {x, y} = mark.rule,
      flat = y !== undefined;
    add(key, 'path', {
      d: flat ? `M${box.left} ${up(y)}h${box.width}` : `M${across(x)} ${box.top}v${box.height}`,
      stroke: colour,
      'stroke-width': 1.5,
      ...cell,
      ...dash,
    });
    const ends = across(x) + 6 + LETTER * (mark.text || '').length;
    const begins = flat
      ? mark.anchor === 'start'
      : across(x) < box.left + 0.7 * box.width && ends < box.left - box.side + box.wide;
    const at = flat ? box.left + (begins ? 4 : box.width) : across(x) + (begins ? 4 : -4);
    if (mark.text)
      write(
        `${key}t`,
        at,
        flat ? up(y) + (mark.below ? 13 : -4) : box.top + 11 + 15 * (mark.line_down || 0),
        mark.text,
        {'text-anchor': begins ? 'start' : 'end', fill: colour, ...HALO},
      );
  } else {
    const letters = mark.room ? (across(mark.room) - across(0)) / LETTER : Infinity;
    const rows = letters < mark.text.length ? cloth.wrapped(mark.text, letters) : [mark.text];
    const last =
      // What begins behind it would be cut.
      box.left - box.side + box.wide - 6 - LETTER * Math.max(...rows.map(row => row.length));
    const x = mark.anchor ? across(mark.at[0]) : Math.min(across(mark.at[0]), last);
    rows.forEach((row, n) =>
      write(n ? `${key}.${n}` : key, x, up(mark.at[1]) - 13 * (rows.length - 1 - n), row, {
        fill: colour,
        'text-anchor': mark.anchor || 'start',
        'font-weight': mark.bold ? 700 : 400,
        ...HALO,
        ...cell,
      }),
    );
  }
}
