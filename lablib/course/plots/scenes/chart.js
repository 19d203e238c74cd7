// Charts whose axes stay: bars, lines, dots, rules and words on one panel or more.
//
// constants: {panels: [{title, x, y, high, share, side}], keys: [[colour, what, hollow]]}; an axis is {ends: [low,
//   high], ticks: [[value, name]], name, grid}; panels share a line, by their shares; on a phone each has its own.
// data: {panels: [{marks, x?, y?}]}: an axis may be given new ticks and names, never new ends. A mark is one of
//   {bar: [x0, x1, y0, y1], fill, hollow, text}, {line: [[x, y]], colour, dash, wide}, {dot: [x, y], colour, r},
//   {rule: {x} or {y}, colour, dash, text}, {text, at: [x, y], colour, bold, anchor}; each may have a note, and a
//   key by which it is known when it moves.

const FAINT = '#767676', LINE = '#333333', GRID = '#DDDDDD', SIDE = 46, GAP = 26;

function chart({panels, keys = []}, data, room) {
  const width = Math.max(250, Math.min(room, 850)), narrow = room < 560, shapes = [];
  const [add, write] = cloth.pens(shapes);
  let x = 4, y = 12;
  for (const [colour, what, hollow] of keys) {
    const wanted = 34 + 6 * what.length;
    if (x > 4 && x + wanted > width) [x, y] = [4, y + 17];
    add(`k${what}`, 'rect', {x, y: y - 10, width: 13, height: 11, rx: 2, fill: hollow ? '#FFFFFF' : colour, stroke: colour, 'stroke-width': 1.5});
    write(`K${what}`, x + 18, y, what);
    x += wanted;
  }
  let top = keys.length ? y + 12 : 4, left = 0, low = 0;
  const whole = panels.reduce((sum, {share = 1}) => sum + share, 0);
  panels.forEach((panel, i) => {
    const wide = narrow ? width : (width + GAP) * (panel.share || 1) / whole - GAP;
    const side = panel.side || SIDE;
    const box = {left: left + side, side, top: top + (panel.title ? 24 : 8), width: wide - side - 8, height: panel.high || 200};
    low = Math.max(low, box.top + box.height + 36);
    one(add, write, `${i}`, {...panel, ...data.panels[i]}, panel, box);
    if (narrow) top = box.top + box.height + 44;
    else left += wide + GAP;
  });
  return {width, height: low + 4, shapes};
}

function one(add, write, key, {title, x, y, marks}, fixed, box) {
  const [x0, x1] = fixed.x.ends, [y0, y1] = fixed.y.ends;
  const across = value => box.left + box.width * (value - x0) / (x1 - x0);
  const up = value => box.top + box.height * (1 - (value - y0) / (y1 - y0));
  if (title) write(`${key}title`, box.left - box.side + 4, box.top - 11, title, {'font-weight': 600, 'font-size': 12});
  (y.ticks || fixed.y.ticks || []).forEach(([value, name], i) => {
    if (!fixed.y.bare) add(`${key}gy${i}`, 'path', {d: `M${box.left} ${up(value)}h${box.width}`, stroke: GRID});
    write(`${key}ty${i}`, box.left - 6, up(value) + 4, name, {'text-anchor': 'end', fill: fixed.y.bare ? LINE : FAINT});
  });
  (x.ticks || fixed.x.ticks || []).forEach(([value, name], i) => {
    if (fixed.x.grid) add(`${key}gx${i}`, 'path', {d: `M${across(value)} ${box.top}v${box.height}`, stroke: GRID});
    write(`${key}tx${i}`, across(value), box.top + box.height + 15, name, {'text-anchor': 'middle', fill: fixed.x.bare ? LINE : FAINT});
  });
  if (fixed.x.name) write(`${key}x`, box.left + box.width / 2, box.top + box.height + 31, fixed.x.name, {'text-anchor': 'middle', fill: FAINT});
  marks = marks.toSorted((a, b) => Boolean(a.rule) - Boolean(b.rule));  // lines lie on bars
  let told = 0;  // the arrow keys walk along what has a note, and from panel to panel
  marks.forEach((mark, i) => {
    const cell = mark.note ? {note: mark.note, cell: [Number(key), told++], class: 'lablib-cell'} : {};
    draw(add, write, `${key}-${mark.key ?? i}`, mark, cell, across, up, box);
  });
}

function draw(add, write, key, mark, cell, across, up, box) {
  const {colour = LINE} = mark, dash = mark.dash ? {'stroke-dasharray': mark.dash} : {};
  if (mark.bar) {
    const [a, b, c, d] = mark.bar, wide = across(b) - across(a), high = up(c) - up(d);
    add(key, 'rect', {x: across(a), y: up(d), width: Math.max(0, wide), height: Math.max(0, high), ...cell,
      fill: mark.hollow ? 'transparent' : mark.fill, stroke: mark.hollow ? mark.fill : '#FFFFFF', 'stroke-width': mark.hollow ? 1.8 : 1});
    if (mark.text && wide > 2 + 6.2 * mark.text.length) write(`${key}t`, across((a + b) / 2), up((c + d) / 2) + 4, mark.text,
      {'text-anchor': 'middle', 'pointer-events': 'none', fill: mark.colour || LINE});
  } else if (mark.line) {
    const d = 'M' + mark.line.map(([x, y]) => `${across(x).toFixed(1)} ${up(y).toFixed(1)}`).join('L');
    add(key, 'path', {d, fill: 'none', stroke: colour, 'stroke-width': mark.wide || 2, ...cell, ...dash});
  } else if (mark.dot) {
    add(key, 'circle', {cx: across(mark.dot[0]), cy: up(mark.dot[1]), r: mark.r || 4, fill: colour, ...cell});
  } else if (mark.rule) {
    const {x, y} = mark.rule, flat = y !== undefined;
    add(key, 'path', {d: flat ? `M${box.left} ${up(y)}h${box.width}` : `M${across(x)} ${box.top}v${box.height}`,
      stroke: colour, 'stroke-width': 1.5, ...cell, ...dash});
    const begins = flat ? mark.anchor === 'start' : across(x) < box.left + 0.7 * box.width;
    const at = flat ? box.left + (begins ? 4 : box.width) : across(x) + (begins ? 4 : -4);
    if (mark.text) write(`${key}t`, at, flat ? up(y) - 4 : box.top + 11,
      mark.text, {'text-anchor': begins ? 'start' : 'end', fill: colour, stroke: '#FFFFFF', 'stroke-width': 3, 'paint-order': 'stroke'});
  } else {
    write(key, across(mark.at[0]), up(mark.at[1]), mark.text, {fill: colour, 'text-anchor': mark.anchor || 'start',
      'font-weight': mark.bold ? 700 : 400, ...cell});
  }
}
