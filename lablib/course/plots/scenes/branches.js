// A tree of drafts, the chain of as many, and what both are worth.
//
// constants: {most}: the highest price that a call may have.
// data: {text, names, parents, reach, drafted, chosen, greedy, first, path, own, depth, row, nodes, forwards, reading, costs,
//   chain, kept, after, toss, tosses: {tree, chain}, trails: {tree, chain}}:
//   of each node, and of a chosen tree's next one, its token, parent (-1 is the text), chance to stay, the draft's chance to get there, place, and whether the
//   tree grew by these chances, and at temperature 0, so by those at 1; of the draft's likeliest first words, and the tree's,
//   [name, its q, the target's p of it, whether it is in the tree]; the nodes that stay in this toss, the token after them; how often the draft
//   model looks, what reading costs, and what tree and chain cost, in plain tokens; of the chain's words [name, chance to stay],
//   how many of them stay, and the token after these; which toss this is; of each toss [price, tokens a call], of a tree that
//   is chosen once; the means of these for some numbers of nodes, [nodes, price, tokens a call].

const INK = {line: '#333333', faint: '#767676', grid: '#DDDDDD', stays: '#009E73', reading: '#BBBBBB',
  tree: '#7A4B94', chain: '#0072B2', even: '#111111', draft: '#B34A00'};
const PALE = {tree: '#BFA9CB', chain: '#8FBBD9'};  // of what may stay
// of the tree (on a phone), of one of its rows at most, of the draft's first words above it, of each more line of them, of the
// chain, of what a price is made of
const HIGH = 240, TALL = 270, ROW = 80, FIRST = 72, LINE = 51, CHAIN = 50, PRICE = 80;

function branches({most: dear}, data, room) {
  const narrow = room < 700, width = Math.max(250, Math.min(room, 850));
  const broad = narrow && width > 530;  // there is room for the price beside the plane
  const size = Math.min(245, width - (broad ? 335 : 66)), beside = width - 33 - size, slim = narrow || beside < 560;  // two lines of legend
  const tree = {left: 4, width: narrow ? width - 8 : beside - 52}, lines = tree.width < 420 ? 2 : 1;  // of first words
  const first_at = slim ? 74 : 57, top = first_at + FIRST + LINE * (lines - 1) + (slim ? 27 : 10);
  const tall = narrow ? TALL : HIGH, chain_at = top + tall + 20, low = chain_at + CHAIN;
  const plane_at = narrow ? [30, low + 72] : [beside, 62];
  const price_at = broad ? [plane_at[0] + size + 40, plane_at[1] + 30] : [narrow ? 4 : plane_at[0] - 14, plane_at[1] + size + 82];

  const shapes = [];
  const add = (key, tag, more) => shapes.push({key, tag, ...more});
  const write = (key, x, y, text, more = {}) =>
    add(key, 'text', {x, y, text, fill: INK.line, 'font-size': 12, ...more});
  const kept = data.path.map(node => data.names[node]).join('');
  written(add, write, tree.left, 15, (narrow ? width : plane_at[0] - 40) / 8 - 5, {text: data.text, kept, own: data.own});
  legend(add, write, tree.left, slim);
  guesses(add, write, data, {...tree, top: first_at}, lines);
  const above = grow(add, write, data, {...tree, top, high: tall});
  heading(add, write, data, {...tree, top}, slim, above);
  chain(add, write, data, {...tree, top: chain_at, high: CHAIN});
  plane(add, write, data, ...plane_at, size);
  price(add, write, data, dear, ...price_at, Math.min(width - price_at[0] - 4, 292));
  return {width, height: Math.max(low + 4, price_at[1] + PRICE, broad ? plane_at[1] + size + 64 : 0), shapes};
}

// Draw what a call writes behind a text, of so many letters at most: what stays in bold, the target's own token framed.
function written(add, write, left, y, letters, {text, kept, own, key = ''}) {
  const cut = (words, most) => words.length > most ? `${words.slice(0, Math.max(0, most - 1))}…` : words;
  const after = cut(own, Math.floor(letters / 3)), most = Math.floor(letters) - after.length;
  const stays = kept.length > most ? `…${kept.slice(1 - most)}` : kept, fits = most - stays.length;
  let x = left;
  const piece = (name, words, more) => {
    write(`${name}${key}`, x, y, words, {'font-family': cloth.MONO, 'font-size': 13, ...more});
    x += 7.83 * words.length + 2;
  };
  if (text) piece('text', fits > 3 ? `… ${text.slice(-fits)}` : '…');
  piece('kept', stays, {fill: INK.stays, 'font-weight': 700});
  add(`own${key}`, 'rect', {x: x + 1, y: y - 13, width: 7.83 * after.length + 6, height: 17, rx: 3, fill: 'none', stroke: INK.line});
  x += 4;
  piece('Own', after);
}

const thick = share => 1 + 11 * share, percent = (share, digits) => `${(100 * share).toFixed(digits)} %`;

function legend(add, write, left, slim) {
  let x = left;
  write('l', x, 36, 'chance to stay', {'font-size': 11});
  x += 86;
  for (const share of [0.1, 0.5, 1]) {
    add(`l${share}`, 'path', {d: `M${x} 32h18`, stroke: PALE.tree, 'stroke-width': thick(share)});
    write(`L${share}`, x + 22, 36, `${100 * share} %`, {'font-size': 11});
    x += slim ? 57 : 64;
  }
  const y = slim ? 53 : 36;
  if (slim) x = left;
  add('l-stays', 'path', {d: `M${x} ${y - 4}h22`, stroke: INK.stays, 'stroke-width': thick(0.1)});
  write('L-stays', x + 27, y, 'stays in this toss', {'font-size': 11});
  x += 140;
  add('l-own', 'rect', {x, y: y - 10, width: 20, height: 13, rx: 3, fill: 'none', stroke: INK.line});
  write('L-own', x + 25, y, 'the target adds', {'font-size': 11});
}

// What both models say of a first word: the tree may leave it out for what is worth more.
function guesses(add, write, {first, greedy, nodes, names, parents, drafted}, {left, top, width}, lines) {
  const places = placed(first, width - 14, lines), more = first.length - places.length;
  const tight = width < 420, best = first.find(each => !each[3]);
  const what = `${tight ? '' : 'the draft’s '}first words${greedy ? ', q at T = 1' : ''}`, rest = more && !tight ? `, ${more} more` : '';
  // why the tree grows where it does: the next node's product, and that of the best first word that it leaves out
  const next = nodes < names.length && !greedy ? `next is ${tight ? '' : 'the pale '}${short(names[nodes], 10, [])} (${percent(drafted[nodes], 1)})` : '';
  const other = next && parents[nodes] >= 0 && best ? `, not ${short(best[0], 10, [])} (${percent(best[1], 1)})` : '';
  write('g', left, top, next ? `${what}${rest}; ${next}${other}` : `${what} (pale: not in the tree)${rest}`, {'font-size': 11});
  places.forEach(([name, line, from, wide], i) => {
    const [, q, p, taken] = first[i], x = left + 14 + from, y = top + LINE * line;
    add(`g${i}`, 'rect', {x, y: y + 7, width: wide, height: 18, rx: 3, fill: '#FFFFFF', stroke: taken ? INK.tree : INK.grid});
    write(`G${i}`, x + wide / 2, y + 20, name, {'text-anchor': 'middle', 'font-family': 'monospace', fill: taken ? INK.line : INK.faint});
    [['q', q, INK.draft], ['p', p, INK.faint]].forEach(([which, share, fill], j) => {
      if (!from) write(`${which}of${line}`, left, y + 37 + 13 * j, which, {'font-size': 11, fill, 'font-weight': 700});
      write(`${which}${i}`, x + wide / 2, y + 37 + 13 * j, percent(share, 1), {'text-anchor': 'middle', 'font-size': 11, fill});
    });
  });
}

// Return of first words what is written of each, and where it stands: line, left edge and width.
function placed(first, width, lines) {
  let line = 0, x = 0;
  return first.map(([name], i) => {
    const said = short(name, 10, first.map(each => each[0])), wide = Math.max(42, 7.2 * said.length + 10);
    if (x + wide > width) [line, x] = [line + 1, 0];
    x += wide + 8;
    return [said, line, x - wide - 8, wide];
  }).filter(each => each[1] < lines);
}

// Name the tree, and say what stands at its words.
function heading(add, write, {nodes, chosen, greedy}, {left, top, width}, slim, above) {
  const tight = width < 330, grows = `product of q${greedy ? ' at T = 1' : ''},${tight ? '' : ' by which it grows,'}`;  // at 0 it grows as if at 1
  const named = [[`a tree of ${nodes}`, INK.tree, nodes > 9 ? 82 : 75], [above ? 'above a word:' : 'at a path’s end:', INK.line, above ? 83 : 94]];
  const numbers = [...chosen ? [[grows, INK.draft, (greedy ? 228 : 176) - (tight ? 102 : 0)]] : [], ['chance to stay', INK.faint, 90]];
  const rows = slim ? [named, numbers] : [[...named, ...numbers]];
  rows.forEach((words, line) => {
    let x = left;
    words.forEach(([text, fill, wide], i) => {
      write(`L-number${line}${i}`, x, top - 14 - 17 * (rows.length - 1 - line), text, {'font-size': 11, fill, 'font-weight': fill === INK.tree ? 700 : 400});
      x += wide;
    });
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

// Draw a tree, or a line of a chain; return whether there is room for numbers above its words. Else they stand at a path's end.
function grow(add, write, data, {left, top, width: all, high: room}, {key = '', kind = 'tree', line = 0} = {}) {
  const {names, parents, reach, drafted, path, depth, row, chosen} = data, grown = parents.slice(0, reach.length);
  const levels = Math.max(...depth), down = Math.min(ROW, room / (1 + Math.max(...row)));
  // a level is as wide as its longest name; where there is no room for that, it is tight, and then long ones are cut
  const longest = Array.from({length: levels}, (_, level) => Math.max(...names.filter((_, node) => depth[node] === level + 1).map(each => each.length)));
  const sum = sizes => sizes.reduce((before, each) => before + each, 26);
  const wide = (most, pad) => longest.map(letters => 7.25 * Math.min(letters, most) + pad);
  const laid = width => {
    let most = Math.max(...longest);
    const [pad, least] = sum(wide(most, 21)) > width ? [6, 5] : [11, 10];
    while (most > 1 && sum(wide(most, pad + least)) > width) most -= 1;
    const sizes = wide(most, pad), gap = Math.max(1, (width - sum(sizes)) / Math.max(key ? 8 : 4, levels));
    return [most, pad, sizes, sizes.map((size, level) => sum(sizes.slice(0, level)) + gap * (level + 1) + size / 2)];
  };
  // of its parent's chance a node has what drawn siblings before it leave; where that is none, what follows it has none, too
  const none = [], share = node => node < 0 ? 1 : reach[node];
  if (!chosen && !key) grown.forEach((up, node) => {
    const left = grown.reduce((left, other, before) => left - (before < node && other === up ? reach[before] : 0), share(up));
    none.push(none[up] || left < 0.0005 && share(up) >= 0.0005);
  });
  const drafts = node => percent(drafted[node], 1), stay = node => none[node] ? 'no p left' : percent(reach[node], 0);
  const apart = none.includes(true) ? 56 : chosen ? 43 : Math.max(...reach) < 0.995 ? 31 : 37;  // a number, and a gap
  let [most, pad, sizes, middles] = laid(all - Math.max(0, 11 - 3.6 * longest.at(-1)));  // a number is wider than a name of one letter
  const above = down > (chosen ? 50 : 36) && middles.every((at, level) => at - (middles[level - 1] ?? 13) > apart);
  const ends = chosen ? 2 * apart + 2 : none.some((no, node) => no && depth[node] === levels) ? 56 : 37;
  if (!above) [most, pad, sizes, middles] = laid(all - ends - 4);
  const x = node => left + (node < 0 ? line ? 22 : 13 : middles[depth[node] - 1]);
  const y = node => top + down * ((node < 0 ? 0 : row[node]) + 0.5);
  const high = Math.min(22, down - 2), kept = new Set(path);
  names.forEach((name, node) => {
    const up = parents[node], bend = Math.max(x(up) + 2, x(node) - Math.max(above ? 19 : 0, sizes[depth[node] - 1] / 2 + 3));
    add(`e${key}${node}`, 'path', {d: `M${x(up)} ${y(up)}L${bend} ${y(node)}H${x(node)}`, fill: 'none',
      stroke: kept.has(node) ? INK.stays : node < grown.length ? PALE[kind] : INK.grid, 'stroke-width': thick(reach[node] ?? 0),
      'stroke-dasharray': reach[node] < 0.005 ? '2 3' : ''});
  });
  if (!line) add(`root${key}`, 'rect', {x: x(-1) - 13, y: y(-1) - high / 2, width: 26, height: high, rx: 3, fill: '#FFFFFF',
    stroke: INK[kind]});
  write(`Root${key}`, line ? left + 13 : x(-1), y(-1) + 4, line ? '↳' : '…', {'text-anchor': 'middle', fill: line ? INK[kind] : INK.line, ...cloth.HALO});
  names.forEach((name, node) => {
    const shown = short(name, most, names.filter((_, other) => parents[other] === parents[node]));
    const box = 7.25 * shown.length + pad, stays = kept.has(node);
    const before = parents[node] < 0 ? line ? 'the line above' : 'the text' : `“${names[parents[node]]}”`;
    const left_out = node >= grown.length, percents = (100 * drafted[node]).toFixed(1);
    const tale = left_out ? `with ${percents} % it is the best that was left out, and would be the next.`
      : `${key ? 'in the chain' : `the draft gets here with a chance of ${percents} %`}, it stays with one of ${(100 * reach[node]).toFixed(1)} %`
        + `${stays ? ', and does in this toss' : none[node] ? ': siblings on the way leave no p' : ''}.`;
    add(`n${key}${node}`, 'rect', {x: x(node) - box / 2, y: y(node) - high / 2, width: box, height: high, rx: 3,
      fill: stays ? '#E2F3EC' : '#FFFFFF', stroke: stays ? INK.stays : left_out ? INK.grid : INK[kind], 'stroke-width': stays ? 2.5 : 1,
      cell: [row[node] + (data.under || 0), depth[node] - Math.min(...depth.filter((_, other) => row[other] === row[node]))], class: 'lablib-cell',
      note: `“${name}” after ${before}${key ? ',' : ':'} ${tale}`});
    write(`N${key}${node}`, x(node), y(node) + 4, shown,
      {'text-anchor': 'middle', 'font-family': 'monospace', 'pointer-events': 'none', fill: left_out ? INK.faint : INK.line,
        'font-size': high < 16 ? 11 : 12, 'font-weight': stays ? 700 : 400});
    if (!above && parents.includes(node)) return;
    const numbers = [[drafts(node), drafts(parents[node]), INK.draft, 'd'], [stay(node), stay(parents[node]), INK.faint, 's']]
      .slice(chosen ? 0 : 1, left_out ? 1 : 2);
    numbers.forEach(([said, before, fill, which], i) => {
      if (above && parents[node] >= 0 && said === before) return;  // a number above a word says what is new
      const place = above ? [x(node), y(node) - high / 2 - 4 - 12 * (numbers.length - 1 - i)] : [x(node) + box / 2 + 5 + (apart + 2) * i, y(node) + 4];
      write(`${which}${key}${node}`, ...place, said, {'text-anchor': above ? 'middle' : 'start', 'font-size': 11, fill, ...cloth.HALO});
    });
  });
  return above;
}

// Draw the chain of as many drafts, a long one in two lines, and what a call with it writes.
function chain(add, write, {nodes, chain: words, kept, after, row}, {left, top, width, high}) {
  const lines = nodes > 8 ? 2 : 1;
  for (let line = 0; line < lines; line++) {
    const own = words.slice(8 * line, 8 * line + 8), path = own.map((_, i) => i).filter(i => 8 * line + i < kept);
    const data = {names: own.map(each => each[0]), reach: own.map(each => each[1]), drafted: [], path, chosen: false,
      parents: own.map((_, i) => i - 1), depth: own.map((_, i) => i + 1), row: own.map(() => 0), under: 1 + Math.max(...row) + line};
    grow(add, write, data, {left, top: top + high / lines * line, width, high: high / lines}, {key: `c${line}`, kind: 'chain', line});
  }
  const said = `a chain of ${nodes}${width > 420 ? ', drawn; a call with it' : ''} writes`, from = left + 6.4 * said.length;
  write('chain', left, top - 6, said, {'font-size': 11, fill: INK.chain, 'font-weight': 700});
  const stays = words.slice(0, kept).map(each => each[0]).join('');
  written(add, write, from, top - 6, (left + width - from) / 8 - 2, {kept: stays, own: after, key: 'c'});
}

// What a call costs in this toss: reading is the same for both, drafting isn't.
function price(add, write, {nodes, costs, reading, depth, row, forwards}, dear, left, top, width) {
  const from = left + 40, scale = (width - 86) / dear, vain = forwards > Math.max(...depth.slice(0, nodes));
  write('price0', left, top, 'price =', {'font-weight': 600});
  add('reading', 'rect', {x: left + 54, y: top - 10, width: 18, height: 12, fill: INK.reading});
  write('price1', left + 77, top, 'reading + drafting', {'font-weight': 600});
  const parts = {chain: [nodes, 'draft', 'waits for none'], tree: [forwards, 'look', vain ? 'the last adds none' : 'waits to see each']};
  Object.entries(parts).forEach(([name, [count, what, how]], i) => {
    const y = top + 8 + 35 * i, each = (costs[name] - reading) / count, said = `${count} ${what}${count > 1 ? 's' : ''}`;
    const [read, drafting] = [reading, costs[name] - reading].map(part => part.toFixed(2)), cost = (+read + +drafting).toFixed(2);
    write(`b-${name}`, left, y + 11, name, {fill: INK[name], 'font-weight': 700});
    add(`B-${name}`, 'rect', {x: from, y, width: scale * reading, height: 13, fill: INK.reading, stroke: '#FFFFFF', 'stroke-width': 0.5,
      cell: [Math.max(...row) + (nodes > 8 ? 3 : 2) + i, 0], class: 'lablib-cell',
      note: `A call with this ${name} costs ${cost} plain tokens: ${read} to read ${nodes + 1} tokens, and ${drafting} for ${said}, ${how}.`});
    for (let k = 0; k < count; k++) add(`b-${name}${k}`, 'rect', {x: from + scale * (reading + k * each), y, width: scale * each, height: 13,
      fill: INK[name], stroke: '#FFFFFF', 'stroke-width': 0.8});
    write(`b-cost-${name}`, from + scale * costs[name] + 5, y + 11, cost, {fill: INK[name], 'font-weight': 700});
    write(`b-says-${name}`, from, y + 26, `${read} + ${drafting}: ${said}, ${how}`, {'font-size': 11});
  });
}

// Price across, tokens upwards, both in doublings: equal speed-ups are lines side by side.
function plane(add, write, {nodes, trails, tosses, toss}, left, top, size) {
  const doublings = 4.1;
  const x = price => left + size * Math.log2(price) / doublings;
  const y = tokens => top + size * (1 - Math.log2(tokens) / doublings);
  const far = 2 ** doublings;
  write('plane', left, top - 47, 'expected tokens for the price', {'font-weight': 600});
  add('frame', 'rect', {x: left, y: top, width: size, height: size, fill: 'none', stroke: INK.grid});
  for (const speed of [0.5, 1, 1.5, 2, 4]) {
    const from = Math.max(1, 1 / speed), to = Math.min(far, far / speed), even = speed === 1;
    add(`r${speed}`, 'path', {d: `M${x(from)} ${y(from * speed)}L${x(to)} ${y(to * speed)}`, fill: 'none',
      stroke: even ? INK.even : INK.grid, 'stroke-width': even ? 1.5 : 1.2});
    const at = speed > 1 ? [x(to), top - 3, 'middle'] : [left + size + 3, y(far * Math.min(1, speed)) + 4, 'start'];
    write(`R${speed}`, at[0], at[1], `×${speed}`, {'text-anchor': at[2], 'font-size': 11,
      fill: even ? INK.even : INK.faint, 'font-weight': even ? 700 : 400});
  }
  write('even', left + size + 3, top + 16, 'plain', {'font-size': 11, 'font-weight': 700});
  write('slower', left + size - 6, y(3), 'slower', {'text-anchor': 'end', 'font-size': 11, fill: INK.faint});
  for (const value of [1, 2, 4, 8, 16]) {
    write(`x${value}`, x(value), top + size + 14, String(value), {'text-anchor': 'middle', 'font-size': 11, fill: INK.faint});
    write(`y${value}`, left - 5, y(value) + 4, String(value), {'text-anchor': 'end', 'font-size': 11, fill: INK.faint});
  }
  write('price', left + size / 2, top + size + 29, 'price of a call, in plain tokens', {'text-anchor': 'middle', 'font-size': 11});
  write('tokens', left - 22, top - 5, 'tokens a call', {'font-size': 11});
  const last = {}, counts = trails.tree.map(([count]) => count), full = counts.at(-1);
  ['chain', 'tree'].forEach((name, number) => {
    const trail = trails[name], colour = INK[name], look = {stroke: colour, 'stroke-width': 1.5, fill: number ? colour : '#FFFFFF'};
    const line = {stroke: colour, 'stroke-width': 1.5, 'stroke-dasharray': number ? '' : '5 3'}, all = tosses[name];
    const of = all.length > 1 ? `mean of ${all.length} tosses` : 'the same in each toss';
    add(`t-${name}`, 'path', {d: 'M' + trail.map(([, price, tokens]) => `${x(price)} ${y(tokens)}`).join('L'), fill: 'none', ...line});
    const bar = (each, price, tokens, now) => add(`o-${name}${each}`, 'path', {d: `M${x(price) - 13} ${y(tokens)}h26`,
      stroke: now ? colour : PALE[name], 'stroke-width': now ? 3 : 1.5,
      note: `${name} of ${nodes} in ${now ? 'this' : 'another'} toss: ${tokens.toFixed(2)} tokens a call, for the price of ${price.toFixed(2)}.`});
    if (all.length > 1) all.forEach((spot, each) => each === toss || bar(each, ...spot, false));
    if (all.length > 1) bar(toss, ...all[toss], true);  // below the mean's dot, and wider
    trail.forEach(([count, price, tokens], i) => add(`p-${name}${i}`, 'circle', {cx: x(price), cy: y(tokens), r: count === nodes ? 6 : 2.5, ...look,
      note: `${name} of ${count}, ${of}: ${tokens.toFixed(2)} tokens a call, for the price of ${price.toFixed(2)}: ×${(tokens / price).toFixed(2)}.`}));
    const [, price, tokens] = trail.find(([count]) => count === nodes), at = top - 31 + 14 * number;
    add(`l-${name}`, 'path', {d: `M${left} ${at - 4}h24`, ...line});
    add(`k-${name}`, 'circle', {cx: left + 12, cy: at - 4, r: 5, ...look});
    write(`P-${name}`, left + 29, at, `${name} ×${(tokens / price).toFixed(2)}`, {fill: colour, 'font-weight': 700});
    write(`O-${name}`, left + 35 + 7.4 * (name.length + 6), at, of, {'font-size': 11, fill: colour});
    const [end, high] = [x(trail.at(-1)[1]), y(trail.at(-1)[2])];
    last[name] = [end + (end > left + size - 20 ? -14 : 14), high + 4];
  });
  const near = Math.abs(last.tree[0] - last.chain[0]) < 16 && Math.abs(last.tree[1] - last.chain[1]) < 12;
  if (nodes < full) ['tree', 'chain'].forEach((name, i) => {
    const upper = near && (last.tree[1] <= last.chain[1]) === !i ? 11 : 0, lowest = Math.max(last.tree[1], last.chain[1]);
    const at = Math.max(top + (near ? 23 : 12), Math.min(top + size - 3, near ? lowest : last[name][1])) - upper;
    write(`c-${name}`, last[name][0], at, String(full),
      {'text-anchor': 'middle', 'font-size': 11, fill: INK[name], ...cloth.HALO});
  });
  const below = [`dots: ${counts.join(', ')} nodes, large: ${nodes}`, 'bars: what tosses promise, thick: this one'];
  below.forEach((words, i) => write(`dots${i}`, left - 22, top + size + 44 + 13 * i, words, {'font-size': 11, fill: INK.faint}));
}
