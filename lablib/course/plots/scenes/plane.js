// What a call with a tree of drafts, or with a chain of as many, is worth: tokens against the
// price, and what the price is made of. Its data are those of branches.js.

const INK = {
  line: '#333333',
  faint: '#767676',
  grid: '#DDDDDD',
  stays: '#009E73',
  reading: '#BBBBBB',
  tree: '#7A4B94',
  chain: '#0072B2',
  even: '#111111',
  draft: '#B34A00',
};
const PALE = {tree: '#BFA9CB', chain: '#8FBBD9'}; // of what may stay, and of other tosses
const DOUBLINGS = 4.1,
  SPEEDS = [0.5, 1, 2, 4]; // of both axes; of the lines of equal speed-up

// What a call costs in this toss: reading is the same for both, drafting isn't.
function price(
  add,
  write,
  {nodes, chosen, costs, reading, depth, row, forwards},
  dear,
  left,
  top,
  width,
) {
  const from = left + 40,
    scale = (width - 86) / dear,
    vain = forwards > Math.max(...depth.slice(0, nodes));
  // a drawn tree's price is another in each toss
  const [begin, wide] = chosen
      ? ['price =', 54]
      : width > 285
        ? ['price in this toss =', 136]
        : ['this toss =', 86],
    swatch = left + wide;
  write('price0', left, top, begin, {'font-weight': 600});
  add('reading', 'rect', {x: swatch, y: top - 10, width: 18, height: 12, fill: INK.reading});
  write('price1', swatch + 23, top, 'reading + drafting', {'font-weight': 600});
  const parts = {
    chain: [nodes, 'draft', 'waits for none'],
    tree: [forwards, 'look', vain ? 'the last adds none' : 'waits to see each'],
  };
  Object.entries(parts).forEach(([name, [count, what, how]], i) => {
    const y = top + 8 + 35 * i,
      each = (costs[name] - reading) / count,
      said = `${count} ${what}${count > 1 ? 's' : ''}`;
    const [read, drafting] = [reading, costs[name] - reading].map(part => part.toFixed(2)),
      cost = (+read + +drafting).toFixed(2);
    write(`b-${name}`, left, y + 11, name, {fill: INK[name], 'font-weight': 700});
    add(`B-${name}`, 'rect', {
      x: from,
      y,
      width: scale * reading,
      height: 13,
      fill: INK.reading,
      stroke: '#FFFFFF',
      'stroke-width': 0.5,
      cell: [Math.max(...row) + (nodes > 8 ? 3 : 2) + i, 0],
      class: 'lablib-cell',
      note: `A call with this ${name} costs ${cost} plain tokens: ${read} to read ${nodes + 1} tokens, and ${drafting} for ${said}, ${how}.`,
    });
    for (let k = 0; k < count; k++)
      add(`b-${name}${k}`, 'rect', {
        x: from + scale * (reading + k * each),
        y,
        width: scale * each,
        height: 13,
        fill: INK[name],
        stroke: '#FFFFFF',
        'stroke-width': 0.8,
      });
    write(`b-cost-${name}`, from + scale * costs[name] + 5, y + 11, cost, {
      fill: INK[name],
      'font-weight': 700,
    });
    write(`b-says-${name}`, from, y + 26, `${read} + ${drafting}: ${said}, ${how}`, {
      'font-size': 11,
    });
  });
}

// Price across, tokens upwards, both in doublings: equal speed-ups are lines side by side.
function draw(add, write, data, left, top, size) {
  const at = {
    left,
    top,
    size,
    x: price => left + (size * Math.log2(price)) / DOUBLINGS,
    y: tokens => top + size * (1 - Math.log2(tokens) / DOUBLINGS),
  };
  write('plane', left, top - 51, 'on average: tokens for the price', {'font-weight': 600});
  frame(add, write, at);
  ['chain', 'tree'].forEach((name, number) => trail(add, write, data, at, name, number));
  ends(write, data, at);
  const counts = data.trails.tree.map(([count]) => count);
  const below = [
    `dots: ${counts.join(', ')} nodes, large: ${data.nodes}`,
    'bars: what tosses promise, thick: this one',
  ];
  below.forEach((words, i) =>
    write(`dots${i}`, left - 22, top + size + 44 + 13 * i, words, {
      'font-size': 11,
      fill: INK.faint,
    }),
  );
}

// Draw the axes, and the lines of equal speed-up.
function frame(add, write, {left, top, size, x, y}) {
  const far = 2 ** DOUBLINGS;
  add('frame', 'rect', {
    x: left,
    y: top,
    width: size,
    height: size,
    fill: 'none',
    stroke: INK.grid,
  });
  for (const speed of SPEEDS) {
    const from = Math.max(1, 1 / speed),
      to = Math.min(far, far / speed),
      even = speed === 1;
    add(`r${speed}`, 'path', {
      d: `M${x(from)} ${y(from * speed)}L${x(to)} ${y(to * speed)}`,
      fill: 'none',
      stroke: even ? INK.even : INK.grid,
      'stroke-width': even ? 1.5 : 1.2,
    });
    const at =
      speed > 1
        ? [x(to), top - 3, 'middle']
        : [left + size + 3, y(far * Math.min(1, speed)) + 4, 'start'];
    write(`R${speed}`, at[0], at[1], `×${speed}`, {
      'text-anchor': at[2],
      'font-size': 11,
      fill: even ? INK.even : INK.faint,
      'font-weight': even ? 700 : 400,
    });
  }
  write('even', left + size + 3, top + 16, 'plain', {'font-size': 11, 'font-weight': 700});
  write('slower', left + size - 6, y(3), 'slower', {
    'text-anchor': 'end',
    'font-size': 11,
    fill: INK.faint,
  });
  for (const value of [1, 2, 4, 8, 16]) {
    write(`x${value}`, x(value), top + size + 14, String(value), {
      'text-anchor': 'middle',
      'font-size': 11,
      fill: INK.faint,
    });
    write(`y${value}`, left - 5, y(value) + 4, String(value), {
      'text-anchor': 'end',
      'font-size': 11,
      fill: INK.faint,
    });
  }
  write('price', left + size / 2, top + size + 29, 'price of a call, in plain tokens', {
    'text-anchor': 'middle',
    'font-size': 11,
  });
  write('tokens', left - 22, top - 5, 'tokens a call', {'font-size': 11});
}

// Draw a tree's means, or a chain's, for ever more nodes, with a bar for each toss; and say above
// what the large dot is.
function trail(add, write, {nodes, trails, tosses, toss}, {left, top, x, y}, name, number) {
  const colour = INK[name],
    look = {stroke: colour, 'stroke-width': 1.5, fill: number ? colour : '#FFFFFF'};
  const line = {stroke: colour, 'stroke-width': 1.5, 'stroke-dasharray': number ? '' : '5 3'};
  const all = tosses[name],
    varies = all.length > 1,
    of = varies ? `mean of ${all.length} tosses` : 'the same in each toss';
  const dots = trails[name],
    [, price, tokens] = dots.find(([count]) => count === nodes),
    key = top - 35 + 14 * number;
  add(`t-${name}`, 'path', {
    d: 'M' + dots.map(([, price, tokens]) => `${x(price)} ${y(tokens)}`).join('L'),
    fill: 'none',
    ...line,
  });
  const bar = (each, price, tokens, now) =>
    add(`o-${name}${each}`, 'path', {
      d: `M${x(price) - 13} ${y(tokens)}h26`,
      stroke: now ? colour : PALE[name],
      'stroke-width': now ? 3 : 1.5,
      note: `${name} of ${nodes} in ${now ? 'this' : 'another'} toss: ${tokens.toFixed(2)} tokens a call, for the price of ${price.toFixed(2)}.`,
    });
  if (varies) {
    all.forEach((spot, each) => each === toss || bar(each, ...spot, false));
    bar(toss, ...all[toss], true); // below the mean's dot, and wider
  }
  dots.forEach(([count, price, tokens], i) =>
    add(`p-${name}${i}`, 'circle', {
      cx: x(price),
      cy: y(tokens),
      r: count === nodes ? 6 : 2.5,
      ...look,
      note: `${name} of ${count}, ${of}: ${tokens.toFixed(2)} tokens a call, for the price of ${price.toFixed(2)}: ×${(tokens / price).toFixed(2)}.`,
    }),
  );
  add(`l-${name}`, 'path', {d: `M${left} ${key - 4}h24`, ...line});
  add(`k-${name}`, 'circle', {cx: left + 12, cy: key - 4, r: 5, ...look});
  write(`P-${name}`, left + 29, key, `${name} ×${(tokens / price).toFixed(2)}`, {
    fill: colour,
    'font-weight': 700,
  });
  write(`O-${name}`, left + 35 + 7.4 * (name.length + 6), key, of, {'font-size': 11, fill: colour});
}

// Write at both trails' ends how many nodes these have, apart from each other, unless the large
// dots are there.
function ends(write, {nodes, trails}, {left, top, size, x, y}) {
  const [tree, chain] = [trails.tree, trails.chain].map(dots => {
    const [, price, tokens] = dots.at(-1),
      end = x(price);
    return [end + (end > left + size - 20 ? -14 : 14), y(tokens) + 4];
  });
  const full = trails.tree.at(-1)[0],
    last = {tree, chain};
  if (nodes === full) return;
  const near = Math.abs(tree[0] - chain[0]) < 16 && Math.abs(tree[1] - chain[1]) < 12,
    lowest = Math.max(tree[1], chain[1]);
  ['tree', 'chain'].forEach((name, i) => {
    const upper = near && tree[1] <= chain[1] === !i ? 11 : 0;
    const at =
      Math.max(top + (near ? 23 : 12), Math.min(top + size - 3, near ? lowest : last[name][1])) -
      upper;
    write(`c-${name}`, last[name][0], at, String(full), {
      'text-anchor': 'middle',
      'font-size': 11,
      fill: INK[name],
      ...cloth.HALO,
    });
  });
}

const plane = {INK, PALE, draw, price};
