// The acceptance dashboard: a carpet of one toss; below it a token, a round, and every temperature.
//
// constants: {words, rows, texts, grid, rules, engine, most, longest: {task: tokens}}: the text of
// each
//   id; how many texts are shown, and how many are counted; temperatures; names; γ of the engine's
//   counts; the largest γ.
// data: {task, drafter, rule, draft_tokens, temperature,
//   tokens: [[id]], overlaps: [[percent]], best: [[[[id, p, q]]]] in per mille, a list for each
//   token, rounds: [[[drafted, kept]]], judged: [[[[keep, coin, id, p, q]]]]: of each round's
//   judged drafts in percent how likely the rule keeps it and where its coin fell, and, of a
//   refused one, what it was, as in best (nothing of rules that throw no coin); means: of each
//   text, columns: [[percent, percent, texts]]: of each place how likely the rule, and rejection,
//   keep a draft there, and in how many texts, shares, coins: of rounds that keep 0 ... γ drafts,
//   tokens_per_round, alpha, lines: {rule: [α]}, points: {rule: [[α, low, high]]}: one for each
//   temperature, of a rule that was counted, others: {drafter: [α]} of rejection}

const INK = {...cloth.INK, p: '#BBBBBB', q: '#B84F00'};
const OUTLINE = {fill: 'none', stroke: INK.q, 'stroke-width': 1.6};
const REST = {fill: INK.refused, 'fill-opacity': 0.45};
const LOOKS = [
  ['kept', 'kept (stronger: p ≈ q)'],
  ['refused', 'refused, corrected'],
  ['own', 'bonus'],
];
const GIVEN = '#D0D0D0'; // what a rule keeps less than rejection
const EDGE = {stroke: INK.faint, 'stroke-width': 0.8}; // of it
const SHARES = '#8F8F8F'; // of rounds: no colour of a token's fate, or of p
// No colour of a token's fate, or of q.
const RULES = {match: '#A0437A', coupled: '#00707A', rejection: '#333333', block: '#7A6200'};
const TALL = 108; // of a panel's axes
const WORDS = 4; // have a row at a token; all others share one

function dashboard(constants, data, room, chosen) {
  const width = Math.max(250, Math.min(room, 850)),
    narrow = room < 830,
    stacked = room < 700,
    slim = room < 560;
  const left = 4,
    high = 23,
    beside = slim ? 78 : narrow ? 90 : 124,
    rows = data.tokens.length,
    right = width - 2;
  const across = width - left - beside - 12,
    longest = constants.longest[data.task];
  const names = data.tokens.map(ids => ids.map(id => constants.words[id]));
  const lines = slim ? 2 : 1,
    tall = lines * high + 5 * (lines - 1),
    most = Math.ceil(longest / lines);
  const wide = Math.max(
    cloth.least(names.flat(), slim),
    Math.min(44 * lines, Math.floor(across / most)),
  );
  const at = names.map(words =>
    cloth.spots(
      words.map(word => cloth.fit(word, wide)),
      across,
      lines,
    ),
  );
  const texts = names.map((_, number) => woven(constants, data, number, at[number].length));
  const place = cloth.placing(left + across + 16, right, constants.most);
  const shapes = [],
    pens = cloth.pens(shapes),
    [, write] = pens;

  const mean = data.tokens_per_round,
    hot = `${slim ? 'T' : 'temperature'} ${data.temperature}, γ = ${data.draft_tokens}`;
  // The brackets are one toss; this, and the dots, what all tosses come to.
  write(
    'title',
    left,
    14,
    `${data.task}, ${hot}: ${mean.toFixed(2)} tokens a round${slim ? '' : ' expected'}`,
    {'font-size': slim ? 12 : 15, 'font-weight': 600},
  );
  const none = texts.some(({cells}) => cells.some(({what}) => what === 'none'));
  const looks = [...LOOKS, ['round', 'a round of this toss'], ['none', 'nothing drafted', none]];
  const said = rows < constants.texts ? `; rows: the first ${rows}, one toss` : '; rows: one toss',
    all = `all ${constants.texts} texts`;
  under(
    write,
    'title',
    left,
    14,
    [`${all}, all tosses${said}`, `${all}${said}`, all],
    width - left,
  );
  const shares = cloth.legend(pens, looks, left, 45, width) + 30,
    top = shares + 2 + cloth.STRIP.step * (lines - 1),
    bottom = top + rows * tall;
  columns(pens, data, at[0], {left, low: shares, end: left + across, lines});
  const more = Math.max(...names.map((words, number) => words.length - at[number].length)),
    vain = texts.reduce((sum, text) => sum + text.vain, 0);
  cloth.lines(pens, {
    left,
    place,
    most: constants.most,
    top,
    bottom,
    mean,
    right,
    end: left + across,
    more: slim || across > 520 ? more : 0,
    vain,
    said: [
      [
        25,
        `tokens a round${slim ? ', all tosses' : ' of a text, mean of all tosses'} (1: plain, dotted: mean)`,
      ],
    ],
  });
  texts.forEach((text, number) => {
    const spots = at[number],
      row = top + number * tall;
    cloth.row(pens, number, text, {at: spots, high, left, y: row, lines, place, right});
    if (spots.length < names[number].length)
      goes_on(write, number, spots.at(-1), {high, left, y: row});
  });

  const one = picked(texts, chosen),
    below = bottom + 43,
    step = TALL + (stacked ? 86 : 74),
    low = below + stacked * (step + 6);
  const token = stacked ? Math.min(width - 10, 330) : narrow ? 274 : 302,
    share = stacked ? Math.max(122, 0.3 * width) : 0.18 * width;
  const second = stacked ? left : left + token + 16,
    third = second + share + (stacked ? 18 : narrow ? 26 : 40);
  a_token(pens, constants, data, [left, below, token], one);
  a_round(pens, constants, data, [second, low, share]);
  temperatures(pens, constants, data, [third, low, right - third], stacked);
  return {width, height: low + step + (stacked ? 15 : 0), shapes, told: one.slice(0, 2)};
}

// Say in one line below a headline which texts it is about: of these words the first that there is
// room for.
function under(write, key, x, y, texts, room) {
  write(`${key}-of`, x, y + 14, cloth.fitting(texts, room, 5.9), {fill: INK.faint});
}

// Draw over the columns, as the first text's cells have them, how often a draft there is kept: by
// this rule, and by rejection.
function columns(pens, {columns: all, rule}, at, {left, low, end, lines}) {
  const [add, write] = pens;
  const bars = all.map(([kept, most, texts], column) => {
    const note =
      `Token ${column + 1} of a text: of drafts there ${rule} keeps ${share_of(kept)} on average over ${texts} texts` +
      (most > kept ? `, rejection ${share_of(most)}.` : '.');
    const shares = [
      [most / 100, {fill: GIVEN, ...(most > kept + 1 ? EDGE : {})}],
      [kept / 100, {fill: INK.kept}],
    ];
    return {
      shares,
      of: texts,
      note: texts ? note : `Token ${column + 1} of a text: nothing is drafted there.`,
    };
  });
  cloth.strip(pens, bars, at, {left, low, end, lines});
  const less = all.some(([kept, most]) => most > kept + 1),
    few = new Set(all.map(each => each[2])).size > 1;
  write('share', end + 16, low - 13, 'share kept', {fill: INK.faint});
  if (less)
    add('share-k', 'rect', {x: end + 16, y: low - 8, width: 9, height: 9, fill: GIVEN, ...EDGE});
  write('share-more', end + (less ? 29 : 16), low, less ? 'rejection' : few ? 'thin: few' : '', {
    fill: INK.faint,
  });
}

// Say behind a text's last cell that it has more.
function goes_on(write, number, [line, x, wide], {high, left, y}) {
  write(`on${number}`, left + x + wide + 1, y + (line + 1) * high - 8, '…', {'font-weight': 700});
}

// Return what became of a text's tokens in this toss, and its rounds; no more tokens than there is
// room for.
function woven({words}, data, number, most) {
  const ids = data.tokens[number],
    cells = [],
    rounds = [];
  let start = 0;
  data.rounds[number].forEach(([drafted, kept], round) => {
    rounds.push([start, kept + 1, Math.max(0, drafted - kept - 1)]);
    for (let i = 0; i <= kept && start + i < ids.length; i++) {
      const place = start + i,
        what = i < kept ? 'kept' : kept < drafted ? 'refused' : drafted ? 'own' : 'none';
      const share = data.overlaps[number][place] / 100,
        [keep, coin, ...other] = data.judged[number][round]?.[i] || [];
      const where = `Text ${number + 1}, token ${place + 1}, “${words[ids[place]]}”`;
      const behind = drafted - kept > 1 ? `; ${drafted - kept - 1} behind it in vain` : '';
      const draft =
        `draft ${i + 1} of round ${round + 1}` + (other.length ? ` was “${words[other[0]]}”` : '');
      const fell =
        coin === undefined || !data.temperature
          ? ''
          : `, which ${data.rule} keeps with ${share_of(keep)}, and the coin fell on ${share_of(coin)}`;
      const fate = !drafted
        ? `nothing was drafted here, the target's own`
        : i === drafted
          ? `the bonus, the target's own`
          : `${draft}${fell}: ${what === 'kept' ? 'kept' : `refused, and the target wrote its own${behind}`}`;
      cells.push({
        what,
        share,
        name: words[ids[place]],
        keep,
        coin,
        other,
        note: `${where}: ${fate}. Σ min(p, q) = ${share.toFixed(2)}.`,
      });
    }
    start += kept + 1;
  });
  const mean = data.means[number];
  const note = `Text ${number + 1}: its whole rounds write ${mean.toFixed(2)} tokens on average over all tosses.`;
  return {
    cells: cells.slice(0, most),
    rounds: rounds.filter(each => each[0] < most),
    vain: cloth.waste(rounds),
    mean,
    note,
  };
}

const share_of = percent => (percent / 100).toFixed(2);

// Return row and column of the chosen token; before one is chosen, of the hardest one of the first
// text that a draft was judged at.
function picked(texts, chosen) {
  const [row, column] = chosen || [0, Infinity],
    cells = texts[row].cells;
  if (chosen) return [row, Math.min(column, cells.length - 1), cells];
  const judged = cells.some(each => each.keep !== undefined);
  const shares = cells.map(each => (judged && each.keep === undefined ? Infinity : each.share));
  return [0, shares.indexOf(Math.min(...shares)), cells];
}

// The likely words at one token, and all others: p as bars whose ends are marked (the fate of a
// draft covers its bar), q as outlines on them. Of the drafted word, q is parted as 08's columns
// are: what the rule keeps of it, and the rest. Below, that column lies on its side, stretched, and
// the coin falls on it.
function a_token([add, write], {words}, data, [x, y, width], [row, column, cells]) {
  const {name, share, keep, coin, what, other} = cells[column],
    own = data.tokens[row][column],
    hot = data.temperature > 0;
  const before = data.tokens[row]
    .slice(0, column)
    .map(id => words[id].replace('␣', ' '))
    .join('')
    .slice(-12);
  const judged = what === 'kept' || what === 'refused',
    draft = what === 'kept' ? own : other[0];
  const from = x + 112,
    scale = width - 112 - 80,
    second = x + (hot ? 80 : 138),
    low = y + 117;
  const end = (key, p, left, top) =>
    add(key, 'path', {d: `M${left + p} ${top}v11`, stroke: INK.line, 'stroke-width': 2});
  write('token', x, y, `text ${row + 1}, token ${column + 1}: …${before} ▸ ${name}`, {
    'font-weight': 600,
  });
  add('token-pk', 'rect', {x, y: y + 7, width: 12, height: 10, fill: INK.p});
  end('token-pe', 12, x, y + 6.5);
  write('token-p', x + 17, y + 16, hot ? 'target p' : 'p before the choice');
  add('token-qk', 'rect', {x: second, y: y + 7, width: 12, height: 10, ...OUTLINE});
  write('token-q', second + 17, y + 16, 'drafter q', {fill: INK.q});
  // Then p is missing where it is more than q, and the word is drawn there.
  const corrected = other.length > 0 && hot && data.rule === 'rejection';
  if (corrected) {
    add('token-rk', 'rect', {x: x + 176, y: y + 7, width: 12, height: 10, ...REST});
    write('token-r', x + 193, y + 16, 'p beyond q');
  }
  const shown = likely(data.best[row][column], own, other, hot),
    tops = shown.map((_, i) => y + 27 + 17 * i);
  const top = id => tops[shown.findIndex(each => each[0] === id)];
  if (judged && hot && coin !== undefined) {
    const foot = top(draft) + 12.5,
      q = shown.find(([id]) => id === draft)[2];
    add('coin-zoom', 'path', {
      d: `M${from} ${foot}V${low}M${from + (scale * q) / 1000} ${foot}L${from + scale} ${low}`,
      stroke: INK.grid,
    });
  }
  const bars = (i, at, p, q, anew = 0) => {
    const long = (scale * q) / 1000;
    add(`bp${i}`, 'rect', {
      x: from,
      y: at,
      width: (scale * (p - anew)) / 1000,
      height: 11,
      fill: INK.p,
    });
    add(`ba${i}`, 'rect', {
      x: from + long,
      y: at,
      width: (scale * anew) / 1000,
      height: 11,
      ...REST,
    });
    return long;
  };
  const around = (i, at, p, q) => {
    add(`bq${i}`, 'rect', {
      x: from,
      y: at - 1.5,
      width: (scale * q) / 1000,
      height: 14,
      ...OUTLINE,
    });
    if (p !== null) end(`be${i}`, (scale * p) / 1000, from, at);
    write(`bp${i}t`, from + scale + 42, at + 10, p === null ? '–' : `${whole(p)} %`, {
      'text-anchor': 'end',
    });
    write(`bq${i}t`, from + scale + 80, at + 10, `${whole(q)} %`, {
      'text-anchor': 'end',
      fill: INK.q,
    });
  };
  shown.forEach(([id, p, q], i) => {
    const at = tops[i],
      parted = judged && id === draft;
    const role = parted
      ? id === own
        ? 'kept'
        : 'drafted'
      : id === own
        ? what === 'own'
          ? 'bonus'
          : 'written'
        : '';
    write(`br${i}`, x, at + 10, role, {'font-weight': 700});
    write(`b${i}`, from - 5, at + 10, cut(words[id]), {
      'text-anchor': 'end',
      'font-weight': role ? 700 : 400,
    });
    const long = bars(i, at, p, q, corrected ? Math.max(0, p - q) : 0);
    add(`br${i}r`, 'rect', {
      x: from,
      y: at,
      width: parted && keep !== undefined ? long : 0,
      height: 11,
      fill: INK.refused,
    });
    add(`bk${i}`, 'rect', {
      x: from,
      y: at,
      width: parted ? (long * (keep ?? 0)) / 100 : 0,
      height: 11,
      fill: INK.kept,
    });
    around(i, at, p, q);
  });
  const rest = [1, 2].map(which => left_of(shown, which)),
    last = y + 27 + 17 * WORDS;
  write('bo', from - 5, last + 10, `${words.length - shown.length} others`, {
    'text-anchor': 'end',
    fill: INK.faint,
  });
  bars('o', last, ...rest);
  around('o', last, ...rest);
  // an arrow from what was refused to what came
  if (other.length)
    add('anew', 'path', {
      d: `M${x + 48} ${top(draft) + 6}h6V${top(own) + 6}h-6m4 -3.5l-4 3.5l4 3.5`,
      fill: 'none',
      stroke: INK.faint,
    });
  if (judged && hot && coin !== undefined) {
    write('coin-name', x, low + 11, 'coin', {'font-weight': 700});
    write('coin-word', from - 5, low + 11, cut(words[draft]), {
      'text-anchor': 'end',
      'font-weight': 700,
    });
    add('coin-r', 'rect', {x: from, y: low, width: scale, height: 14, fill: INK.refused});
    add('coin-k', 'rect', {
      x: from,
      y: low,
      width: (scale * keep) / 100,
      height: 14,
      fill: INK.kept,
    });
    inside(
      write,
      'kept',
      [from, from + (scale * keep) / 100],
      from + (scale * coin) / 100,
      low + 11,
      '#FFFFFF',
    );
    inside(
      write,
      'refused',
      [from + (scale * keep) / 100, from + scale],
      from + (scale * coin) / 100,
      low + 11,
      '#111111',
    );
    add('coin', 'path', {
      d: `M${from + (scale * coin) / 100} ${low + 14}v-14l-4 -5h8l-4 5`,
      stroke: '#111111',
      'stroke-width': 1.8,
      fill: '#111111',
    });
    write('coin-keep', from + scale + 80, low + 11, `keeps ${keep} %`, {'text-anchor': 'end'});
  }
  const [wrote, said] = [own, draft].map(id => words[id] && cut(words[id].replace(/^␣(?=.)/, '')));
  const hair = (id, which) =>
    shown.filter(each => whole(each[which]) >= whole(shown.find(own => own[0] === id)?.[which]))
      .length > 1
      ? ', by a hair'
      : '';
  says(data, cells[column], wrote, said, [hair(own, 1), hair(draft, 2)]).forEach((line, i) =>
    write(`coin-says${i}`, x, y + 148 + 15 * i, line),
  );
  write(
    'coin-share',
    x,
    y + 180,
    `Σ min(p, q) = ${share.toFixed(2)} at this token${hot ? '' : ', after the choice'}`,
    {fill: INK.faint},
  );
}

// Write the name of a part of the coin's bar into it where the coin leaves it most room; where that
// is too little, nothing.
function inside(write, name, [start, end], coin, y, fill) {
  const gaps =
    coin > start && coin < end
      ? [
          [start, coin],
          [coin, end],
        ]
      : [[start, end]];
  const [from, to] = gaps.reduce((best, gap) => (gap[1] - gap[0] > best[1] - best[0] ? gap : best));
  if (to - from > 7 * name.length)
    write(`coin-${name}`, (from + to) / 2, y, name, {
      'text-anchor': 'middle',
      fill,
      'pointer-events': 'none',
    });
}

const cut = word => (word.length > 7 ? `${word.slice(0, 6)}…` : word);

// Return the likely words at a token, its own and the refused one among them, and no others of less
// than half a percent.
function likely(best, own, [draft, p, q], hot) {
  const missed = draft !== undefined && !best.some(([id]) => id === draft);
  // A look-up's guess, which may be another one where its round began elsewhere.
  const sure = q === 1000 && (hot || missed);
  const found = best.map(([id, ofP, ofQ]) => [id, ofP, sure ? (id === draft ? q : 0) : ofQ]);
  // What its p was before the choice is not told.
  if (missed) found.push([draft, hot ? p : null, q]);
  found.sort((a, b) => b[1] + b[2] - a[1] - a[2]);
  const named = ([id]) => id === own || id === draft,
    free = WORDS - found.filter(named).length;
  const more = found.filter(each => !named(each) && Math.max(each[1], each[2]) >= 5).slice(0, free);
  return [...found.filter(named), ...more].sort((a, b) => b[1] - a[1] || b[2] - a[2]);
}

// Return what these words leave of p or q to all others, in per mille; a look-up without a guess
// has none.
function left_of(words, which) {
  const sum = words.reduce((sum, word) => sum + word[which], 0);
  return sum ? Math.max(0, 1000 - sum) : 0;
}

const whole = share => Math.round(share / 10);

// Return in two lines what became of a token, and why.
function says({rule, temperature}, {what, keep, coin}, own, draft, hairs) {
  if (what === 'none') return ['nothing was drafted here:', "this one is the target's own"];
  if (what === 'own') return ['all drafts of its round were kept:', "this one is the target's own"];
  const kept = what === 'kept',
    anew = `${draft} refused, ${own} `;
  if (!temperature && kept) return [`no coin: ${own} is the best of both`, 'kept'];
  if (!temperature)
    return [
      `no coin: the drafter's best is ${draft ?? 'another'}${hairs[1]}`,
      `refused: the target's best is ${own}${hairs[0]}`,
    ];
  if (coin === undefined)
    return kept
      ? [`${rule} kept this draft`]
      : [`${rule} refused what was drafted:`, `${own} is a correction`];
  if (rule === 'match')
    return kept
      ? ['match keeps what the target draws, too:', 'the coin fell on its p: kept']
      : ['match keeps what the target draws, too:', `the coin fell beyond p: ${anew}written`];
  if (kept)
    return keep === 100
      ? ['p covers all of its q:', 'kept, wherever the coin falls']
      : ['the coin fell on what p covers of q:', 'kept'];
  return ['the coin fell beyond what p covers of q:', `${anew}drawn from p beyond q`];
}

// How many drafts a whole round keeps.
function a_round(pens, {most, texts}, data, [x, y, width]) {
  const [add, write] = pens,
    from = x + 22,
    step = (width - 22) / (most + 1);
  const title = width < 150 ? 'whole rounds' : 'share of whole rounds',
    all = `all ${texts} texts`;
  under(write, 'round', from - 18, y, [`${all}, all tosses`, all], width);
  const at = frame(pens, 'round', title, [from, y, width - 22], ['0', '0.5', '1']);
  for (let i = 0; i <= most; i++)
    write(`rx${i}`, from + step * (i + 0.5), y + 24 + TALL + 14, String(i), {
      'text-anchor': 'middle',
      fill: INK.faint,
    });
  data.shares.forEach((share, i) =>
    add(`r${i}`, 'rect', {
      x: from + step * i + 1.5,
      y: at(share),
      width: step - 3,
      height: at(0) - at(share),
      fill: SHARES,
      note:
        `${(100 * share).toFixed(1)} % of whole rounds keep ${i} drafts; ` +
        `coins of one α would make it ${(100 * data.coins[i]).toFixed(1)} %.`,
    }),
  );
  data.coins.forEach((share, i) => {
    const cx = from + step * (i + 0.5),
      cy = at(share);
    add(`c${i}`, 'path', {
      d: `M${cx} ${cy - 4.5}l4.5 4.5l-4.5 4.5l-4.5 -4.5z`,
      fill: '#FFFFFF',
      stroke: INK.line,
      'stroke-width': 1.4,
      'pointer-events': 'none',
    });
  });
  write('round-name', from + (width - 22) / 2, y + 24 + TALL + 29, 'drafts kept', {
    'text-anchor': 'middle',
    fill: INK.faint,
  });
  write('round-key', from, y + 24 + TALL + 44, '◇ coins of one α');
}

// Draw axes from the first of these names to 1 over a height of TALL; return where a value lies.
function frame([add, write], key, title, [x, y, width], names) {
  const at = value => y + 24 + (TALL * (1 - value)) / (1 - names[0]);
  write(key, x - 18, y, title, {'font-weight': 600});
  names.forEach(name => {
    const place = at(Number(name));
    add(`${key}-g${name}`, 'path', {d: `M${x} ${place}H${x + width}`, stroke: INK.grid});
    write(`${key}-n${name}`, x - 4, place + 4, name, {'text-anchor': 'end', fill: INK.faint});
  });
  return at;
}

// α of each rule along the temperatures, with the engine's intervals as bands, and, grey, that of
// other drafters.
function temperatures(pens, {grid, rules, engine, texts}, data, [x, y, room], stacked) {
  const [add, write] = pens,
    from = x + 22,
    width = room - 22 - 73,
    bottom = y + 24 + TALL;
  const drawn = Object.entries(data.others),
    scale = spread(data);
  const title = `α of ${drawn.length ? data.drafter : 'judged drafts'}`;
  const at = frame(pens, 'heat', title, [from, y, width], scale);
  const [low, high] = [grid[0], grid[grid.length - 1]],
    to = hot => from + (width * (hot - low)) / (high - low);
  const path = values =>
    values.map((value, i) => `${to(grid[i]).toFixed(1)} ${at(value).toFixed(1)}`).join('L');
  const now = data.temperature,
    ends = [low, (low + high) / 2, high].filter(hot => Math.abs(to(hot) - to(now)) > 26);
  ends.forEach(hot =>
    write(`ht${hot}`, to(hot), bottom + 14, String(hot), {
      'text-anchor': 'middle',
      fill: INK.faint,
    }),
  );
  write('htnow', to(now), bottom + 14, String(now), {'text-anchor': 'middle', 'font-weight': 700});
  write('ht', from + width / 2, bottom + 29, 'temperature', {
    'text-anchor': 'middle',
    fill: INK.faint,
  });
  add('hnow', 'path', {
    d: `M${to(now)} ${y + 24}v${TALL}`,
    stroke: INK.faint,
    'stroke-dasharray': '2 3',
  });
  const shown = rules.filter(rule => data.lines[rule]),
    counted = data.draft_tokens === engine;
  for (const rule of shown.filter(each => data.points[each])) {
    const [below, above] = [1, 2].map(end => path(data.points[rule].map(each => each[end])));
    add(`hb${rule}`, 'path', {
      d: `M${above}L${below.split('L').reverse().join('L')}Z`,
      fill: RULES[rule],
      'fill-opacity': counted && rule === data.rule ? 0.22 : counted ? 0.1 : 0,
    });
  }
  for (const [name, line] of drawn)
    add(`ho${name}`, 'path', {
      d: `M${path(line)}`,
      fill: 'none',
      stroke: INK.faint,
      note:
        `${name}, rejection: theory keeps ` +
        `${line[0].toFixed(3)} of the judged drafts at temperature ${low}, ${line.at(-1).toFixed(3)} at ${high}.`,
    });
  for (const rule of [data.rule, ...shown.filter(each => each !== data.rule)]) {
    // thin lines lie on the thick one
    const thick = rule === data.rule;
    add(`hl${rule}`, 'path', {
      d: `M${path(data.lines[rule])}`,
      fill: 'none',
      stroke: RULES[rule],
      'stroke-width': thick ? 3 : 1.5,
      'stroke-dasharray': rule === 'coupled' ? '2 2' : rule === 'match' ? '6 3' : '',
    });
    data.lines[rule].forEach((value, i) =>
      add(`hp${rule}${i}`, 'circle', {
        cx: to(grid[i]),
        cy: at(value),
        r: thick ? 3.5 : 2.5,
        fill: RULES[rule],
        note: said(rule, grid[i], value, counted && data.points[rule]?.[i]),
      }),
    );
  }
  const named = [
    ...shown.map(rule => [rule, data.lines[rule], RULES[rule]]),
    ...drawn.map(each => [...each, INK.faint]),
  ];
  const labels = named
    .map(([name, line, fill]) => ({name, fill, own: at(line.at(-1)), y: at(line.at(-1)) + 4}))
    .sort((a, b) => a.y - b.y);
  labels.forEach((end, i) => {
    if (i) end.y = Math.max(end.y, labels[i - 1].y + 13);
  });
  labels.reverse().forEach((end, i) => {
    end.y = Math.min(end.y, i ? labels[i - 1].y - 13 : bottom + 4);
  });
  for (const {name, fill, own, y: place} of labels) {
    add(`hk${name}`, 'path', {
      d: `M${from + width + 3} ${own}L${from + width + 9} ${place - 4}`,
      stroke: fill,
      'stroke-width': 0.8,
    });
    write(`hn${name}`, from + width + 11, place, name, {
      fill,
      'font-weight': name === data.rule ? 700 : 400,
    });
  }
  const others = [
    ...shown.filter(rule => rule !== data.rule).map(rule => data.lines[rule]),
    ...Object.values(data.others),
  ];
  const middle = Math.max(from + 14, Math.min(to(now), from + width - 14));
  const near = line =>
    [middle - 14, middle, middle + 14].map(spot => along(line.map(at), (spot - from) / width));
  const free = clear(
    at(data.alpha),
    near(data.lines[data.rule]),
    others.flatMap(near),
    y + 24,
    bottom,
  );
  // Where nothing is free it stands beside its dot, on its own line.
  const late = to(now) > from + 40;
  const [spot, anchor] = free
    ? [middle, 'middle']
    : late
      ? [to(now) - 7, 'end']
      : [to(now) + 7, 'start'];
  write('hnowt', spot, free ?? at(data.alpha) + 4, data.alpha.toFixed(2), {
    'text-anchor': anchor,
    fill: RULES[data.rule],
    'font-weight': 700,
    ...cloth.HALO,
  });
  const all = `all ${texts} texts`,
    short = room < 330; // then some words stand below
  under(
    write,
    'heat',
    from - 18,
    y,
    counted
      ? [
          `theory: ${all}; bands: the engine on others, 95 %`,
          `${all}; bands: the engine on others`,
          `${all}; bands: engine, 95 %`,
          all,
        ]
      : [
          `theory: ${all}; γ = ${engine} has the engine's bands, too`,
          `${all}; bands: only with γ = ${engine}`,
          all,
        ],
    room,
  );
  const words = [
    short && 'lines: theory',
    short && stacked && counted && 'bands: the engine on other texts',
    drawn.length && "grey: others' rejection",
  ];
  cloth
    .wrapped(words.filter(Boolean).join('; '), (stacked ? x + room : room) / 5.9)
    .forEach((line, n) =>
      write(`bands${n}`, x + room, bottom + (short && stacked ? 59 : 44) + 14 * n, line, {
        fill: INK.faint,
        'text-anchor': 'end',
      }),
    );
}

// Return how high a line is after this share of its length.
function along(heights, share) {
  const place = share * (heights.length - 1),
    i = Math.min(Math.floor(place), heights.length - 2);
  return heights[i] + (heights[i + 1] - heights[i]) * (place - i);
}

// Return where a dot's number may stand: near it, on no line, and with none between them.
function clear(dot, own, others, top, bottom) {
  const places = [-8, 17, -16, 25, -24, 33]
    .map(step => dot + step)
    .filter(y => y - 10 > top && y < bottom - 2);
  const free = y => [...own, ...others].every(line => line < y - 10 || line > y + 3);
  const apart = y =>
    others.some(line => line > Math.min(dot + 2, y + 3) && line < Math.max(dot - 2, y - 10));
  return places.find(y => free(y) && !apart(y));
}

// Return the names on the axis of α. Half of it is enough if all that a task's lines and bands can
// show is there.
function spread({lines, points, others}) {
  const shown = [lines, points, others].flatMap(each => Object.values(each)).flat(2);
  return Math.min(...shown) < 0.5 ? ['0', '0.5', '1'] : ['0.5', '0.6', '0.7', '0.8', '0.9', '1'];
}

function said(rule, hot, alpha, counted) {
  const engine = counted
    ? `; the engine counted ${counted[0].toFixed(3)}, 95 % interval ${counted[1].toFixed(3)} to ${counted[2].toFixed(3)}`
    : '';
  return `${rule} at temperature ${hot}: theory keeps ${alpha.toFixed(3)} of the judged drafts${engine}.`;
}
