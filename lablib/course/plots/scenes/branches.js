// A tree of drafts, the chain of as many, and what both are worth.
//
// constants: {most}: the highest price that a call may have, or null, and no price is drawn. data: {text, names, parents, reach,
// drafted, chosen, greedy, first, path, own, depth, row, nodes, forwards, reading, costs,
//   chain, kept, after, toss, tosses: {tree, chain}, trails: {tree, chain}}: of each node, and of a
//   chosen tree's next one, its token, parent (-1 is the text), chance to stay, the draft's chance
//   to get there, place, and whether the tree grew by these chances, and at temperature 0, so by
//   those at 1; of the draft's likeliest first words, the tree's, and the best that it leaves out,
//   [name, its q, the target's p of it, whether it is in the tree]; the nodes that stay in this
//   toss, the token after them; how often the draft model looks, what reading costs, and what tree
//   and chain cost, in plain tokens; of the chain's words [name, chance to stay], how many of them
//   stay, and the token after these; which toss this is; of each toss [price, tokens a call], of a
//   tree that is chosen once; the means of these for some numbers of nodes, [nodes, price, tokens a
//   call].

const {INK, PALE} = plane;
const DASHED = '4 3'; // of the next node
const NEVER = 'never'; // stays a node whose siblings take all
const ORDINALS = [
  'second',
  'third',
  'fourth',
  'fifth',
  'sixth',
  'seventh',
  'eighth',
  'ninth',
  'tenth',
  'eleventh',
  'twelfth',
  'thirteenth',
  'fourteenth',
  'fifteenth',
  'sixteenth',
];
// of the tree, of one of its rows at most, of the draft's first words above it, of the chain, of
// what a price is made of
const HIGH = 234,
  ROW = 76,
  FIRST = 82,
  CHAIN = 50,
  PRICE = 80;
const LEAST = 42; // wide is a first word's frame, and the longest bar below one

function branches({most: dear}, data, room) {
  const priced = dear !== null,
    narrow = room < 700 || !priced,
    width = Math.max(250, Math.min(room, 850));
  const broad = narrow && width > 530; // there is room for the price beside the plane
  const size = Math.min(245, width - (broad ? 335 : 66)),
    beside = width - 33 - size;
  const slim = priced ? narrow || beside < 560 : width < 560; // what is one line else takes two
  const all = {left: 4, width: narrow ? width - 8 : beside - 52};
  const chain_at = slim ? 79 : 62,
    first_at = chain_at + CHAIN + 24,
    tree_at = first_at + FIRST;
  const top = tree_at + (slim ? 60 : 43),
    low = top + HIGH;
  const plane_at = narrow ? [30, low + 76] : [beside, 66];
  const price_at = broad
    ? [plane_at[0] + size + 40, plane_at[1] + 30]
    : [narrow ? 4 : plane_at[0] - 14, plane_at[1] + size + 82];

  const shapes = [];
  const add = (key, tag, more) => shapes.push({key, tag, ...more});
  const write = (key, x, y, text, more = {}) =>
    add(key, 'text', {x, y, text, fill: INK.line, 'font-size': 12, ...more});
  opening(write, data, {left: 4, width: narrow ? width - 8 : beside - 30});
  legend(add, write, 4, slim);
  chain(add, write, data, {...all, top: chain_at, high: CHAIN});
  guesses(add, write, data, {...all, top: first_at});
  heading(add, write, data, {...all, top: tree_at});
  growth(add, write, data, {...all, top: tree_at + 17}, slim);
  const above = grow(
    add,
    write,
    {...data, under: data.nodes > 8 ? 2 : 1},
    {...all, top, high: HIGH},
  );
  beside_words(write, data, {...all, top: top - 9}, above);
  if (!priced) {
    return {width, height: low + 4, shapes};
  }
  plane.draw(add, write, data, ...plane_at, size);
  plane.price(add, write, data, dear, ...price_at, Math.min(width - price_at[0] - 4, 292));
  return {
    width,
    height: Math.max(low + 4, price_at[1] + PRICE, broad ? plane_at[1] + size + 64 : 0),
    shapes,
  };
}

// Say after which text this is: its end, as far as there is room.
function opening(write, {text}, {left, width}) {
  write('opening', left, 15, 'in this toss, after', {'font-weight': 600});
  const letters = Math.floor((width - 130) / 7.83) - 2;
  write('text', left + 130, 15, `… ${text.slice(-letters)}`, {
    'font-family': cloth.MONO,
    'font-size': 13,
  });
}

// Name a tree or a chain, and say what a call with it writes: what stays in bold, the target's own
// token framed.
function writes(add, write, {nodes, how, kept, own}, {left, top, width}, kind) {
  const wide = width > 420,
    from = left + (wide ? 190 : 132),
    letters = Math.floor((left + width - from - 12) / 7.83);
  write(kind, left, top, `a ${kind} of ${nodes}${wide ? `, ${how},` : ''} writes`, {
    'font-size': 11,
    fill: INK[kind],
    'font-weight': 700,
  });
  const cut = (words, most) =>
    words.length > most ? `${words.slice(0, Math.max(0, most - 1))}…` : words;
  const after = cut(own, Math.max(4, Math.floor(letters / 3))),
    most = letters - after.length;
  const stays = kept.length > most ? `…${kept.slice(1 - most)}` : kept,
    look = {'font-family': cloth.MONO, 'font-size': 13};
  write(`kept-${kind}`, from, top, stays, {...look, fill: INK.stays, 'font-weight': 700});
  const x = from + 7.83 * stays.length + (stays ? 3 : 0);
  add(`own-${kind}`, 'rect', {
    x,
    y: top - 13,
    width: 7.83 * after.length + 6,
    height: 17,
    rx: 3,
    fill: 'none',
    stroke: INK.line,
  });
  write(`Own-${kind}`, x + 3, top, after, look);
}

const thick = share => 1 + 11 * share;

// Return a share in percent; what can be is never written as what can't.
function percent(share, digits) {
  if (share < 0.0005) return share > 0 ? '<0.1 %' : '0 %';
  return `${(100 * share).toFixed(share < 0.005 ? 1 : digits)} %`;
}

function legend(add, write, left, slim) {
  let x = left;
  write('l', x, 36, 'chance to stay', {'font-size': 11});
  x += 86;
  for (const share of [0.1, 0.5, 1]) {
    add(`l${share}`, 'path', {d: `M${x} 32h20`, stroke: PALE.tree, 'stroke-width': thick(share)});
    write(`L${share}`, x + 25, 36, `${100 * share} %`, {'font-size': 11});
    x += slim ? 60 : 66;
  }
  const y = slim ? 53 : 36;
  if (slim) x = left;
  add('l-stays', 'path', {d: `M${x} ${y - 4}h20`, stroke: INK.stays, 'stroke-width': thick(0.1)});
  write('L-stays', x + 25, y, 'stays in this toss', {'font-size': 11});
  x += 134;
  add('l-own', 'rect', {
    x,
    y: y - 10,
    width: 20,
    height: 13,
    rx: 3,
    fill: 'none',
    stroke: INK.line,
  });
  write('L-own', x + 25, y, 'the target adds', {'font-size': 11});
}

// What both models say of a first word: a chosen tree takes those whose q is not below its least
// product.
function guesses(add, write, {first, chosen, greedy, nodes, drafted}, {left, top, width}) {
  const places = placed(first, width - 14),
    more = first.length - places.length;
  const rest = more ? `, ${more} not shown` : '',
    at_one = greedy ? ', q at T = 1' : '';
  const which = chosen ? ': in the tree if q reaches the line' : ' (faint: not in the tree)';
  const shorter = [
    `first words${rest}${at_one}`,
    `first words${at_one}`,
    at_one.slice(2) || 'first words',
  ];
  const ways = [`the draft’s ${shorter[0]}`, ...shorter].map(way => way + which);
  write(
    'g',
    left,
    top,
    cloth.fitting([`${ways[0]}${chosen ? ', the tree’s least product' : ''}`, ...ways], width, 6),
    {'font-size': 11},
  );
  const scale = LEAST / Math.max(...first.map(each => each[1])),
    least = scale * Math.min(...drafted.slice(0, nodes));
  places.forEach(([name, from, wide], i) => {
    const [, q, p, taken] = first[i],
      x = left + 14 + from,
      middle = x + wide / 2;
    add(`g${i}`, 'rect', {
      x,
      y: top + 7,
      width: wide,
      height: 18,
      rx: 3,
      fill: '#FFFFFF',
      stroke: taken ? INK.tree : INK.grid,
    });
    write(`G${i}`, middle, top + 20, name, {
      'text-anchor': 'middle',
      'font-family': 'monospace',
      fill: taken ? INK.line : INK.faint,
    });
    add(`qb${i}`, 'rect', {
      x: middle - LEAST / 2,
      y: top + 29,
      width: scale * q,
      height: 4,
      fill: INK.draft,
    });
    if (chosen)
      add(`ql${i}`, 'path', {
        d: `M${middle - LEAST / 2 + least} ${top + 27}v8`,
        stroke: INK.tree,
        'stroke-width': 1.5,
      });
    [
      ['q', q, INK.draft],
      ['p', p, INK.faint],
    ].forEach(([which, share, fill], j) => {
      const y = top + 46 + 13 * j;
      if (!i) write(`${which}of`, left, y, which, {'font-size': 11, fill, 'font-weight': 700});
      write(`${which}${i}`, middle, y, percent(share, 1), {
        'text-anchor': 'middle',
        'font-size': 11,
        fill,
      });
    });
  });
}

// Return of the first words that stand in one line what is written of each, its left edge and
// width.
function placed(first, width) {
  let x = 0;
  return first
    .map(([name]) => {
      const said = short(
          name,
          10,
          first.map(each => each[0]),
        ),
        wide = Math.max(LEAST, 7.2 * said.length + 10);
      x += wide + 8;
      return [said, x - wide - 8, wide];
    })
    .filter(([, from, wide]) => from + wide <= width);
}

// Name the tree, and say what a call with it writes.
function heading(add, write, {nodes, chosen, path, names, own}, place) {
  const kept = path.map(node => names[node]).join('');
  writes(add, write, {nodes, kept, own, how: chosen ? 'chosen' : 'drawn'}, place, 'tree');
}

// Say how the tree grows, in two lines where one is too short; what is dashed is named there.
function growth(add, write, data, {left, top, width}, slim) {
  const next = data.chosen && data.nodes < data.names.length,
    swatch = next ? 26 : 0;
  if (next)
    add('l-next', 'rect', {
      x: left + 0.5,
      y: top - 10,
      width: 20,
      height: 13,
      rx: 3,
      fill: 'none',
      stroke: INK.faint,
      'stroke-dasharray': DASHED,
    });
  const said = next ? contest(data, Math.floor((width - swatch) / 6), slim) : origin(data);
  const lines = slim ? said : [said.join(next ? ' ' : '; ')];
  lines.forEach((words, line) =>
    write(`grows${line}`, left + swatch, top + 16 * line, words, {'font-size': 11}),
  );
}

// Return where the words of a tree are from that has no next node, and why some can't stay.
function origin(data) {
  if (data.chosen) return ['its words have the largest products of q'];
  const why = never(data).includes(true) ? [`“${NEVER}”: a sibling above it always stays`] : [];
  return ['its words are drawn from q', ...why];
}

// Return which node would be the next, and what the tree leaves out for it, in letters that there
// is room for.
function contest({nodes, names, parents, drafted, first}, letters, slim) {
  const up = parents[nodes],
    behind = path_to(up, parents)
      .map(node => names[node])
      .join('');
  const name = short(names[nodes], 10, []),
    chance = `(${percent(drafted[nodes], 1)})`;
  const from = up < 0 ? '' : ` behind ${behind.length > 9 ? `…${behind.slice(-8)}` : behind}`;
  const other = up >= 0 && first.find(each => !each[3]);
  const last = other
    ? [`before the first word ${short(other[0], 10, [])} (${percent(other[1], 1)})`]
    : up < 0
      ? ['one more first word']
      : [];
  const opens = [
    `a ${ORDINALS[nodes - 1]} node would be the `,
    `a ${ORDINALS[nodes - 1]} node: `,
    'next: ',
  ];
  const all = opens.map(open => [
    `${open.replace(/^a (?=e)/, 'an ')}${name}${from} ${chance}${last.length ? ',' : ''}`,
    ...last,
  ]);
  const long = said => (slim ? Math.max(...said.map(each => each.length)) : said.join(' ').length);
  return all.find(said => long(said) <= letters) ?? all.at(-1);
}

// Return the path to a node, itself included.
function path_to(node, parents) {
  return node < 0 ? [] : [...path_to(parents[node], parents), node];
}

// Say what stands at the tree's words.
function beside_words(write, {chosen, greedy}, {left, top, width}, above) {
  const place = [above ? 'above a word:' : 'at a path’s end:', INK.line, above ? 83 : 94],
    stay = ['chance to stay', INK.faint, 82];
  const product = `product of q${greedy ? ' at T = 1' : ''},`,
    wide = greedy ? 123 : 74; // at 0 it grows as if at 1
  const ways = [
    [place, [`${product} by which it grows,`, INK.draft, wide + 102], stay],
    [place, [product, INK.draft, wide], stay],
    [['there:', INK.line, 40], [product, INK.draft, wide], stay],
  ];
  const fits = words => words.reduce((sum, each) => sum + each[2], 0) <= width;
  let x = left;
  (chosen ? (ways.find(fits) ?? ways.at(-1)) : [place, stay]).forEach(([text, fill, wide], i) => {
    write(`L-number${i}`, x, top, text, {'font-size': 11, fill});
    x += wide;
  });
}

// Return a name of so many letters at most; where a sibling begins with the same ones, from where
// they differ.
function short(name, most, siblings) {
  const cut = name.slice(0, most - 1);
  if (name.length <= most) return name;
  const other =
    siblings.find(each => each !== name && each.length > most && each.startsWith(cut)) || '';
  const from = [...name].findIndex((letter, i) => letter !== other[i]);
  return from < most - 1 ? `${cut}…` : `…${name.slice(from, from + most - 1)}`;
}

// Return of each node whether it can't stay since earlier siblings, of it or of one above it, take
// all that gets there.
function never({parents, reach, chosen}) {
  const none = [];
  reach.forEach((_, node) => {
    const up = parents[node],
      share = up < 0 ? 1 : reach[up];
    const left = reach.reduce(
      (left, other, before) => left - (before < node && parents[before] === up ? other : 0),
      share,
    );
    none.push(!chosen && Boolean(none[up] || (left < 1e-9 && share >= 1e-9)));
  });
  return none;
}

// Draw a tree, or a line of a chain; return whether there is room for numbers above its words. Else
// they stand at a path's end.
function grow(add, write, data, place, {key = '', kind = 'tree', line = 0} = {}) {
  const none = key ? [] : never(data),
    laid = lay(data, place, none, {key, line});
  const {x, y, high, above} = laid;
  data.names.forEach((_, node) => edge(add, data, laid, node, {key, kind}));
  if (!line)
    add(`root${key}`, 'rect', {
      x: x(-1) - 13,
      y: y(-1) - high / 2,
      width: 26,
      height: high,
      rx: 3,
      fill: '#FFFFFF',
      stroke: INK[kind],
    });
  write(`Root${key}`, line ? place.left + 13 : x(-1), y(-1) + 4, line ? '↳' : '…', {
    'text-anchor': 'middle',
    fill: line ? INK[kind] : INK.line,
    ...cloth.HALO,
  });
  data.names.forEach((_, node) => {
    word(add, write, data, laid, node, none[node], {key, kind, line});
    // A chain's first word is compared with the tree's.
    const first = key && !node && place.high > 36;
    if (above || first || !data.parents.includes(node))
      numbers(write, data, {...laid, above: above || first}, node, none, key);
  });
  return above;
}

// Return where nodes stand, how high and wide they are, and whether there is room for numbers above
// them.
function lay(
  {names, parents, reach, depth, row, chosen},
  {left, top, width, high: room},
  none,
  {key, line},
) {
  const levels = Math.max(...depth),
    down = Math.min(ROW, room / (1 + Math.max(...row)));
  const longest = Array.from({length: levels}, (_, level) =>
    Math.max(...names.filter((_, node) => depth[node] === level + 1).map(each => each.length)),
  );
  // a number, and a gap
  const apart = chosen
    ? 43
    : none.includes(true) || reach.some(share => share > 0 && share < 0.01)
      ? 45
      : Math.max(...reach) < 0.995
        ? 31
        : 37;
  const least = Math.max(key ? 8 : 4, levels); // so many gaps at least
  // A number is wider than a name of one letter.
  let found = across(longest, width - Math.max(0, 11 - 3.6 * longest.at(-1)), least);
  const {middles} = found,
    above =
      down > (chosen ? 50 : 36) &&
      middles.every((at, level) => at - (middles[level - 1] ?? 13) > apart);
  if (!above) found = across(longest, width - (chosen ? 2 * apart + 2 : 45) - 4, least);
  const shown = names.map((name, node) =>
    short(
      name,
      found.most,
      names.filter((_, other) => parents[other] === parents[node]),
    ),
  );
  return {
    above,
    apart,
    shown,
    sizes: found.sizes,
    high: Math.min(22, down - 2),
    x: node => left + (node < 0 ? (line ? 22 : 13) : found.middles[depth[node] - 1]),
    y: node => top + down * ((node < 0 ? 0 : row[node]) + 0.5),
    box: node => 7.25 * shown[node].length + found.pad,
  };
}

// Return how wide levels are, and their middles: as wide as the longest name, or, where that has no
// room, tight, with long ones cut.
function across(longest, width, gaps) {
  const sum = sizes => sizes.reduce((before, each) => before + each, 26);
  const wide = (most, pad) => longest.map(letters => 7.25 * Math.min(letters, most) + pad);
  let most = Math.max(...longest);
  let [pad, least] = sum(wide(most, 21)) > width ? [6, 5] : [11, 10];
  while (most > 1 && sum(wide(most, pad + least)) > width) most -= 1;
  if (sum(wide(most, pad + 1)) > width) pad = 2; // sixteen levels on a small phone
  const sizes = wide(most, pad),
    gap = Math.max(1, (width - sum(sizes)) / gaps);
  return {
    most,
    pad,
    sizes,
    middles: sizes.map((size, level) => sum(sizes.slice(0, level)) + gap * (level + 1) + size / 2),
  };
}

// Draw what leads to a node, as thick as its chance to stay.
function edge(add, {parents, reach, depth, path}, {x, y, above, sizes}, node, {key, kind}) {
  const up = parents[node],
    next = node >= reach.length;
  const bend = Math.max(
    x(up) + 2,
    x(node) - Math.max(above ? 19 : 0, sizes[depth[node] - 1] / 2 + 3),
  );
  add(`e${key}${node}`, 'path', {
    d: `M${x(up)} ${y(up)}L${bend} ${y(node)}H${x(node)}`,
    fill: 'none',
    stroke: path.includes(node) ? INK.stays : next ? INK.faint : PALE[kind],
    'stroke-width': thick(reach[node] ?? 0),
    'stroke-dasharray': next ? DASHED : reach[node] < 0.005 ? '2 3' : '',
  });
}

// Draw a node: its word in a frame, and what is said of it.
function word(add, write, data, {x, y, high, box, shown}, node, none, {key, kind, line}) {
  const {names, parents, depth, row, path, reach, under = 0} = data;
  const stays = path.includes(node),
    next = node >= reach.length,
    wide = box(node);
  const before =
    parents[node] < 0 ? (line ? 'the line above' : 'the text') : `“${names[parents[node]]}”`;
  add(`n${key}${node}`, 'rect', {
    x: x(node) - wide / 2,
    y: y(node) - high / 2,
    width: wide,
    height: high,
    rx: 3,
    fill: stays ? '#E2F3EC' : '#FFFFFF',
    stroke: stays ? INK.stays : next ? INK.faint : INK[kind],
    'stroke-width': stays ? 2.5 : 1,
    'stroke-dasharray': next ? DASHED : '',
    cell: [
      row[node] + under,
      depth[node] - Math.min(...depth.filter((_, other) => row[other] === row[node])),
    ],
    class: 'lablib-cell',
    note: `“${names[node]}” after ${before}${key ? ',' : ':'} ${tale(data, node, none, key)}`,
  });
  write(`N${key}${node}`, x(node), y(node) + 4, shown[node], {
    'text-anchor': 'middle',
    'font-family': 'monospace',
    'pointer-events': 'none',
    fill: next ? INK.faint : INK.line,
    'font-size': high < 16 ? 11 : 12,
    'font-weight': stays ? 700 : 400,
  });
}

// Return what is said of a node that is pointed at.
function tale({reach, drafted, path}, node, none, key) {
  if (node >= reach.length)
    return `with ${percent(drafted[node], 1)} it is the best that was left out, and would be the next.`;
  const gets = key
    ? 'in the chain'
    : `the draft gets here with a chance of ${percent(drafted[node], 1)}`;
  const ends = path.includes(node)
    ? ', and does in this toss'
    : none
      ? ': on the way a sibling above always stays'
      : '';
  return `${gets}, it stays with one of ${percent(reach[node], 1)}${ends}.`;
}

// Write a node's numbers: above its word what is new there, at a path's end all.
function numbers(
  write,
  {parents, reach, drafted, chosen},
  {x, y, high, box, above, apart},
  node,
  none,
  key,
) {
  const drafts = at => percent(drafted[at], 1),
    stay = at => (none[at] ? NEVER : percent(reach[at], 0));
  const both = [
    [drafts, INK.draft, 'd'],
    [stay, INK.faint, 's'],
  ].slice(chosen ? 0 : 1, node >= reach.length ? 1 : 2);
  both.forEach(([says, fill, which], i) => {
    const said = says(node),
      up = parents[node];
    if (above && up >= 0 && said === says(up)) return;
    const place = above
      ? [x(node), y(node) - high / 2 - 4 - 12 * (both.length - 1 - i)]
      : [x(node) + box(node) / 2 + 5 + (apart + 2) * i, y(node) + 4];
    write(`${which}${key}${node}`, ...place, said, {
      'text-anchor': above ? 'middle' : 'start',
      'font-size': 11,
      fill,
      ...cloth.HALO,
    });
  });
}

// Draw the chain of as many drafts, a long one in two lines, and what a call with it writes.
function chain(add, write, {nodes, chain: words, kept, after}, {left, top, width, high}) {
  const lines = nodes > 8 ? 2 : 1,
    stays = words
      .slice(0, kept)
      .map(each => each[0])
      .join('');
  writes(add, write, {nodes, kept: stays, own: after, how: 'drawn'}, {left, top, width}, 'chain');
  for (let line = 0; line < lines; line++) {
    const own = words.slice(8 * line, 8 * line + 8),
      path = own.map((_, i) => i).filter(i => 8 * line + i < kept);
    const data = {
      names: own.map(each => each[0]),
      reach: own.map(each => each[1]),
      drafted: [],
      path,
      chosen: false,
      parents: own.map((_, i) => i - 1),
      depth: own.map((_, i) => i + 1),
      row: own.map(() => 0),
      under: line,
    };
    grow(
      add,
      write,
      data,
      {left, top: top + 6 + (high / lines) * line, width, high: high / lines},
      {key: `c${line}`, kind: 'chain', line},
    );
  }
}

Object.assign(branches, {never, percent, contest}); // to be tried by themselves
