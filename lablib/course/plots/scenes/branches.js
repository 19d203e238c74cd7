// A tree of drafts, and what it is worth beside a chain.
//
// data: {text, names, parents, reach, drafted, first, path, own, depth, row, nodes, trails: {tree, chain}}: of each node its
//   token, parent (-1 is the text), chance to stay, the draft's chance to get there, place; of the draft's likeliest first
//   words [name, its chance, whether it is in the tree]; the nodes that stay in this toss, the token after them; of tree and
//   chain [nodes, price in plain tokens, tokens a call] for some numbers of nodes.

const INK = {line: '#333333', faint: '#767676', grid: '#DDDDDD', stays: '#009E73', other: '#999999',
  tree: '#009E73', chain: '#0072B2', even: '#111111'};
const HIGH = 264, FIRST = 56;  // of the tree, and of the draft's first words below it

function branches(_, data, room) {
  const narrow = room < 700, width = Math.max(250, Math.min(room, 850));
  const size = Math.min(245, width - 66), beside = width - 33 - size, slim = narrow || beside < 560;  // two lines of legend
  const top = slim ? 71 : 54, plane_at = narrow ? [30, top + HIGH + FIRST + 62] : [beside, 48];
  const tree = {left: 4, top, width: narrow ? width - 8 : beside - 52};

  const shapes = [];
  const add = (key, tag, more) => shapes.push({key, tag, ...more});
  const write = (key, x, y, text, more = {}) =>
    add(key, 'text', {x, y, text, fill: INK.line, 'font-size': 12, ...more});
  const letters = Math.floor((narrow ? width : plane_at[0] - 40) / 8) - 5;
  const own = data.own.length > letters / 3 ? `${data.own.slice(0, letters / 3 - 1)}…` : data.own;
  const path = data.path.map(node => data.names[node]).join(''), most = letters - own.length;
  const kept = path.length > most ? `…${path.slice(1 - most)}` : path;
  let x = tree.left;  // what this call writes stands behind the text: the path in bold, the target's own token framed
  const piece = (key, text, more) => {
    write(key, x, 15, text, {'font-family': cloth.MONO, 'font-size': 13, ...more});
    x += 7.83 * text.length + 2;
  };
  const fits = most - kept.length;
  piece('text', fits > 3 ? `… ${data.text.slice(-fits)}` : '…');
  piece('kept', kept, {fill: INK.stays, 'font-weight': 700});
  add('own', 'rect', {x: x + 1, y: 2, width: 7.83 * own.length + 6, height: 17, rx: 3, fill: 'none', stroke: INK.line});
  x += 4;
  piece('Own', own);
  legend(add, write, tree.left, slim);
  grow(add, write, data, tree);
  guesses(add, write, data.first, tree.left, top + HIGH + 18, tree.width);
  plane(add, write, data, ...plane_at, size);
  return {width, height: narrow ? plane_at[1] + size + 36 : top + HIGH + FIRST + 8, shapes};
}

const thick = share => 1 + 11 * share;

function legend(add, write, left, slim) {
  let x = left;
  write('l', x, 36, 'chance to stay', {'font-size': 11});
  x += 86;
  for (const share of [0.1, 0.5, 1]) {
    add(`l${share}`, 'path', {d: `M${x} 32h18`, stroke: INK.other, 'stroke-width': thick(share)});
    write(`L${share}`, x + 22, 36, `${100 * share} %`, {'font-size': 11});
    x += slim ? 57 : 64;
  }
  const y = slim ? 53 : 36;
  if (slim) x = left;
  add('l-stays', 'path', {d: `M${x} ${y - 4}h22`, stroke: INK.stays, 'stroke-width': 4});
  write('L-stays', x + 27, y, 'stays in this toss', {'font-size': 11});
  x += 140;
  add('l-own', 'rect', {x, y: y - 10, width: 20, height: 13, rx: 3, fill: 'none', stroke: INK.line});
  write('L-own', x + 25, y, 'the target adds', {'font-size': 11});
}

// What the draft model says of a first word: the tree may leave it out for what is worth more.
function guesses(add, write, first, left, top, width) {
  write('g', left, top, 'the draft’s first words (pale: not in the tree)', {'font-size': 11});
  let x = left;
  first.forEach(([name, share, taken], i) => {
    const said = `${i ? '' : 'q '}${(100 * share).toFixed(0)} %`;  // beside its node stands p
    const wide = Math.max(i ? 26 : 40, 7.4 * name.length + 12), ink = taken ? INK.line : INK.faint;
    if (x + wide > left + width) return;
    add(`g${i}`, 'rect', {x, y: top + 7, width: wide, height: 18, rx: 3, fill: '#FFFFFF', stroke: taken ? INK.line : INK.grid});
    write(`G${i}`, x + wide / 2, top + 20, name, {'text-anchor': 'middle', 'font-family': 'monospace', fill: ink});
    write(`q${i}`, x + wide / 2, top + 37, said, {'text-anchor': 'middle', 'font-size': 11, fill: ink});
    x += wide + 12;
  });
}

function grow(add, write, {names, parents, reach, drafted, path, depth, row}, {left, top, width}) {
  const levels = Math.max(4, ...depth), rows = Math.max(3, ...row) + 1;
  const across = (width - 60) / levels, down = HIGH / rows;
  const x = node => left + 16 + (node < 0 ? 0 : depth[node] * across);
  const y = node => top + down * ((node < 0 ? 0 : row[node]) + 0.5);
  const high = Math.min(22, down - 2), kept = new Set(path);
  names.forEach((name, node) => {
    const up = parents[node], bend = x(up) + 0.45 * across;
    add(`e${node}`, 'path', {d: `M${x(up)} ${y(up)}L${bend} ${y(node)}H${x(node)}`, fill: 'none',
      stroke: kept.has(node) ? INK.stays : INK.other, 'stroke-width': thick(reach[node])});
  });
  add('root', 'rect', {x: x(-1) - 13, y: y(-1) - high / 2, width: 26, height: high, rx: 3, fill: '#FFFFFF',
    stroke: INK.stays, 'stroke-width': 2});
  write('Root', x(-1), y(-1) + 4, '…', {'text-anchor': 'middle'});
  names.forEach((name, node) => {
    const wide = Math.max(10, Math.min(across - 14, 7.4 * name.length + 12)), stays = kept.has(node);
    const above = parents[node] < 0 ? 'the text' : `“${names[parents[node]]}”`;
    add(`n${node}`, 'rect', {x: x(node) - wide / 2, y: y(node) - high / 2, width: wide, height: high, rx: 3,
      fill: stays ? '#E2F3EC' : '#FFFFFF', stroke: stays ? INK.stays : INK.other, 'stroke-width': stays ? 2.5 : 1,
      cell: [row[node], depth[node] - 1], class: 'lablib-cell',
      note: `“${name}” after ${above}: the draft gets here with a chance of ${(100 * drafted[node]).toFixed(1)} %, `
        + `it stays with one of ${(100 * reach[node]).toFixed(1)} %`
        + `${stays ? ', and does in this toss' : ''}.`});
    write(`N${node}`, x(node), y(node) + 4, name.slice(0, Math.max(1, Math.floor((wide - 6) / 7))),
      {'text-anchor': 'middle', 'font-family': 'monospace', 'pointer-events': 'none',
        'font-weight': stays ? 700 : 400});
    if (down > 36 && across > 34)
      write(`s${node}`, x(node), y(node) + high / 2 + 12, `${(100 * reach[node]).toFixed(0)} %`,
        {'text-anchor': 'middle', 'font-size': 11, fill: INK.faint});
  });
}

// Price across, tokens upwards, both in doublings: equal speed-ups are lines side by side.
function plane(add, write, {nodes, trails}, left, top, size) {
  const doublings = 4.1;
  const x = price => left + size * Math.log2(price) / doublings;
  const y = tokens => top + size * (1 - Math.log2(tokens) / doublings);
  const far = 2 ** doublings;
  write('plane', left, top - 33, 'tokens a call, for its price', {'font-weight': 600});
  add('frame', 'rect', {x: left, y: top, width: size, height: size, fill: 'none', stroke: INK.grid});
  for (const speed of [0.5, 1, 1.5, 2, 4]) {
    const from = Math.max(1, 1 / speed), to = Math.min(far, far / speed), even = speed === 1;
    add(`r${speed}`, 'path', {d: `M${x(from)} ${y(from * speed)}L${x(to)} ${y(to * speed)}`, fill: 'none',
      stroke: even ? INK.even : INK.grid, 'stroke-width': even ? 1.5 : 1.2});
    const at = speed > 1 ? [x(to), top - 3, 'middle'] : [left + size + 3, y(far * Math.min(1, speed)) + 4, 'start'];
    write(`R${speed}`, at[0], at[1], `×${speed}`, {'text-anchor': at[2], 'font-size': 11,
      fill: even ? INK.even : INK.faint, 'font-weight': even ? 700 : 400});
  }
  for (const value of [1, 2, 4, 8, 16]) {
    write(`x${value}`, x(value), top + size + 14, String(value), {'text-anchor': 'middle', 'font-size': 11, fill: INK.faint});
    write(`y${value}`, left - 5, y(value) + 4, String(value), {'text-anchor': 'end', 'font-size': 11, fill: INK.faint});
  }
  write('price', left + size / 2, top + size + 29, 'price of a call, in plain tokens', {'text-anchor': 'middle', 'font-size': 11});
  ['chain', 'tree'].forEach((name, number) => {
    const trail = trails[name], colour = INK[name];
    add(`t-${name}`, 'path', {d: 'M' + trail.map(([, price, tokens]) => `${x(price)} ${y(tokens)}`).join('L'), fill: 'none',
      stroke: colour, 'stroke-width': 1.5, 'stroke-dasharray': number ? '' : '5 3'});
    trail.forEach(([count, price, tokens], i) => {
      const now = count === nodes;
      add(`p-${name}${i}`, 'circle', {cx: x(price), cy: y(tokens), r: now ? 6 : 2.5, fill: colour,
        note: `${name} of ${count}: ${tokens.toFixed(2)} tokens a call, for the price of ${price.toFixed(2)}: `
          + `×${(tokens / price).toFixed(2)}.`});
      if (!now) return;
      const at = left + 118 * number;
      add(`l-${name}`, 'path', {d: `M${at} ${top - 21}h24`, stroke: colour, 'stroke-width': 1.5, 'stroke-dasharray': number ? '' : '5 3'});
      add(`k-${name}`, 'circle', {cx: at + 12, cy: top - 21, r: 5, fill: colour});
      write(`P-${name}`, at + 29, top - 17, `${name} ×${(tokens / price).toFixed(2)}`, {fill: colour, 'font-weight': 700});
    });
  });
  const lasts = Object.values(trails).map(trail => trail.at(-1)).toSorted((a, b) => b[2] - a[2]);
  const [high, low] = lasts.map(([, price]) => x(price)), room = Math.abs(high - low) < 22 ? 12 : 0;
  cloth.beside(lasts.map(([,, tokens]) => [y(tokens), room]), top, top + size).forEach((at, i) =>
    write(`c${i}`, x(lasts[i][1]) + 9, at + 4, String(lasts[i][0]), {'font-size': 11, ...cloth.HALO}));
  [`dots: ${trails.tree[0][0]} to ${lasts[0][0]}`, 'nodes'].forEach((words, i) => write(`dots${i}`, left + 6, top + 15 + 13 * i, words, {'font-size': 11, fill: INK.faint}));
}
