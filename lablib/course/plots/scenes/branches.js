// A tree of drafts, and what it is worth beside a chain.
//
// data: {text, names, parents, reach, drafted, first, path, own, depth, row, nodes, trails: {tree, chain}}: of each node its
//   token, parent (-1 is the text), chance to stay, the draft's chance to get there, place; of the draft's likeliest first
//   words, and the tree's, [name, its chance, whether it is in the tree]; the nodes that stay in this toss, the token
//   after them; of tree and chain [nodes, price in plain tokens, tokens a call] for some numbers of nodes.

const INK = {line: '#333333', faint: '#767676', grid: '#DDDDDD', stays: '#009E73', other: '#999999',
  tree: '#009E73', chain: '#0072B2', even: '#111111', draft: '#B34A00'};
const HIGH = 264, FIRST = 56, LINE = 37;  // of the tree, of the draft's first words below it, and of each more line of them

function branches(_, data, room) {
  const narrow = room < 700, width = Math.max(250, Math.min(room, 850));
  const size = Math.min(245, width - 66), beside = width - 33 - size, slim = narrow || beside < 560;  // two lines of legend
  const top = slim ? 88 : 71, plane_at = narrow ? [30, top + HIGH + FIRST + 62] : [beside, 48];
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
  const first = placed(data.first, tree.width), high = HIGH - LINE * first.at(-1)[1];
  const both = grow(add, write, data, {...tree, high});
  legend(add, write, tree.left, slim, both);
  guesses(add, write, data.first, first, tree.left, top + high + 18);
  plane(add, write, data, ...plane_at, size);
  return {width, height: narrow ? plane_at[1] + size + 36 : top + HIGH + FIRST + 8, shapes};
}

const thick = share => 1 + 11 * share;

function legend(add, write, left, slim, both) {
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
  if (both) write('L-drafted', left, y + 17, 'upper number: product of q (match grows by it)', {'font-size': 11, fill: INK.draft});
}

// Return of first words what is written of each, and where it stands: line, left edge and width; no more than three lines.
function placed(first, width) {
  let line = 0, x = 0;
  return first.map(([name], i) => {
    const said = short(name, 10, first.map(each => each[0])), wide = Math.max(i ? 26 : 40, 7.2 * said.length + 10);
    if (x + wide > width) [line, x] = [line + 1, 0];
    x += wide + 8;
    return [said, line, x - wide - 8, wide];
  }).filter(each => each[1] < 3);
}

// What the draft model says of a first word: the tree may leave it out for what is worth more.
function guesses(add, write, first, places, left, top) {
  const more = first.length - places.length, what = 'first words (pale: not in the tree)';
  write('g', left, top, more ? `${what}, ${more} more` : `the draft’s ${what}`, {'font-size': 11});
  places.forEach(([name, line, from, wide], i) => {
    const [, share, taken] = first[i], x = left + from, y = top + LINE * line;
    const said = `${i ? '' : 'q '}${(100 * share).toFixed(0)} %`;
    const ink = taken ? INK.line : INK.faint;
    add(`g${i}`, 'rect', {x, y: y + 7, width: wide, height: 18, rx: 3, fill: '#FFFFFF', stroke: taken ? INK.line : INK.grid});
    write(`G${i}`, x + wide / 2, y + 20, name, {'text-anchor': 'middle', 'font-family': 'monospace', fill: ink});
    write(`q${i}`, x + wide / 2, y + 37, said, {'text-anchor': 'middle', 'font-size': 11, fill: ink});
  });
}

// Return a name of so many letters at most; where a sibling begins with the same ones, from where they differ.
function short(name, most, siblings) {
  const cut = name.slice(0, most - 1);
  if (name.length <= most) return name;
  const other = siblings.find(each => each !== name && each.length > most && each.startsWith(cut)) || '';
  const from = [...name].findIndex((letter, i) => letter !== other[i]);
  return from < most - 1 ? `${cut}…` : `…${name.slice(from, from + most - 1)}`;
}

// Draw the tree; return whether there is room for the numbers by which it grows.
function grow(add, write, {names, parents, reach, drafted, path, depth, row}, {left, top, width: all, high: room}) {
  const levels = Math.max(...depth), rows = Math.max(3, ...row) + 1, down = room / rows;
  // a level is as wide as its longest name; where there is no room for that, it is tight, and then long ones are cut
  const longest = Array.from({length: levels}, (_, level) => Math.max(...names.filter((_, node) => depth[node] === level + 1).map(each => each.length)));
  const width = all - Math.max(0, 11 - 3.6 * longest.at(-1));  // a number is wider than a name of one letter
  const sum = sizes => sizes.reduce((before, each) => before + each, 26);
  const wide = (most, pad) => longest.map(letters => 7.25 * Math.min(letters, most) + pad);
  let most = Math.max(...longest);
  const [pad, least] = sum(wide(most, 21)) > width ? [6, 5] : [11, 10];
  while (most > 1 && sum(wide(most, pad + least)) > width) most -= 1;
  const sizes = wide(most, pad), gap = Math.max(1, (width - sum(sizes)) / Math.max(4, levels));
  const middles = sizes.map((size, level) => sum(sizes.slice(0, level)) + gap * (level + 1) + size / 2);
  const x = node => left + (node < 0 ? 13 : middles[depth[node] - 1]);
  const y = node => top + down * ((node < 0 ? 0 : row[node]) + 0.5);
  const high = Math.min(22, down - 2), kept = new Set(path);
  const apart = Math.max(...reach, ...drafted) < 0.995 ? 31 : 37;  // a number's width, and a gap
  const named = down > 36 && middles.every((at, level) => at - (middles[level - 1] ?? 13) > apart);
  const both = named && down > 50;
  names.forEach((name, node) => {
    const up = parents[node], bend = Math.max(x(up) + 2, x(node) - Math.max(named ? 19 : 0, sizes[depth[node] - 1] / 2 + 3));
    add(`e${node}`, 'path', {d: `M${x(up)} ${y(up)}L${bend} ${y(node)}H${x(node)}`, fill: 'none',
      stroke: kept.has(node) ? INK.stays : INK.other, 'stroke-width': thick(reach[node])});
  });
  add('root', 'rect', {x: x(-1) - 13, y: y(-1) - high / 2, width: 26, height: high, rx: 3, fill: '#FFFFFF',
    stroke: INK.stays, 'stroke-width': 2});
  write('Root', x(-1), y(-1) + 4, '…', {'text-anchor': 'middle'});
  names.forEach((name, node) => {
    const shown = short(name, most, names.filter((_, other) => parents[other] === parents[node]));
    const box = 7.25 * shown.length + pad, stays = kept.has(node);
    const above = parents[node] < 0 ? 'the text' : `“${names[parents[node]]}”`;
    add(`n${node}`, 'rect', {x: x(node) - box / 2, y: y(node) - high / 2, width: box, height: high, rx: 3,
      fill: stays ? '#E2F3EC' : '#FFFFFF', stroke: stays ? INK.stays : INK.other, 'stroke-width': stays ? 2.5 : 1,
      cell: [row[node], depth[node] - 1], class: 'lablib-cell',
      note: `“${name}” after ${above}: the draft gets here with a chance of ${(100 * drafted[node]).toFixed(1)} %, `
        + `it stays with one of ${(100 * reach[node]).toFixed(1)} %`
        + `${stays ? ', and does in this toss' : ''}.`});
    write(`N${node}`, x(node), y(node) + 4, shown,
      {'text-anchor': 'middle', 'font-family': 'monospace', 'pointer-events': 'none',
        'font-size': high < 16 ? 11 : 12, 'font-weight': stays ? 700 : 400});
    const above_it = (key, up, share, fill) =>  // what branches off goes down
      write(`${key}${node}`, x(node), y(node) - high / 2 - up, `${(100 * share).toFixed(0)} %`, {'text-anchor': 'middle', 'font-size': 11, fill});
    if (named) above_it('s', 4, reach[node], INK.faint);
    if (both) above_it('d', 16, drafted[node], INK.draft);
  });
  return both;
}

// Price across, tokens upwards, both in doublings: equal speed-ups are lines side by side.
function plane(add, write, {nodes, trails}, left, top, size) {
  const doublings = 4.1;
  const x = price => left + size * Math.log2(price) / doublings;
  const y = tokens => top + size * (1 - Math.log2(tokens) / doublings);
  const far = 2 ** doublings;
  write('plane', left, top - 33, 'these drafts: tokens for the price', {'font-weight': 600});
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
  const level = Math.abs(y(lasts[0][2]) - y(lasts[1][2])) < 12;  // then the name of the nearer end would lie on the other's line
  cloth.beside(lasts.map(([,, tokens]) => [y(tokens), room]), top, top + size).forEach((at, i) => {
    const [dx, dy] = level && !room && x(lasts[i][1]) < x(lasts[1 - i][1]) ? [-6, -9] : [9, 4];
    write(`c${i}`, x(lasts[i][1]) + dx, at + dy, String(lasts[i][0]), {'font-size': 11, ...cloth.HALO});
  });
  [`dots: ${trails.tree[0][0]} to ${lasts[0][0]}`, 'nodes'].forEach((words, i) => write(`dots${i}`, left + 6, top + 15 + 13 * i, words, {'font-size': 11, fill: INK.faint}));
}
