// The acceptance carpet: one row a text, one cell a token of the target, one bracket a round.
//
// constants: {tasks: {name: [{tokens, classes, overlap, guess, p, q}]}, about: {name: {counted,
// missed, hardest, places, grows}},
//   rows, most, prices} of each text: its tokens, their classes, Σ min(p, q) at each place, the
//   draft's best token there with the target's p and the draft's q of it; about each task: how many
//   texts are counted, whether the draft ever misses, the class that is hardest to draft with its
//   places, and whether each text has a row however many lines it needs, as a reader's own have;
//   prices: {draft, read: [T(k) / T(1)]} or null.
// data: {task, gamma, rounds: [[[start, kept, counted]]], columns: [[kept, judged]], classes:
//   [[name, share, low, high, judged]], tokens, low, high, theory: of each γ (no low, no high: of
//   too few texts), time: {plain, reading, drafting}}

// Of time: what reads and what writes has no cell's colour.
const INK = {...cloth.INK, draft: '#CC79A7', read: '#444444'};
const END = '∅'; // what a token without letters looks like
const SILENT = [() => {}, () => {}]; // pens that draw nothing: to ask how much room something takes

function carpet(constants, data, room, chosen) {
  const {most, tasks, about} = constants,
    {gamma, task} = data,
    {hardest, places} = about[task],
    all = tasks[task];
  const page = laid(all, about[task], data.columns.length, constants.rows, room),
    {left, width, side, lines, at, count, tall} = page;
  const place = cloth.placing(side + 18, page.right, most),
    shapes = [],
    pens = cloth.pens(shapes);
  const texts = all.slice(0, count),
    drawn = texts.map((text, row) => woven(text, data, row, at));

  const shares = titles(pens, constants, data, drawn, page) + 35;
  columns(pens, data, about[task], at, {...page, low: shares, end: side});
  const top = shares + 15 + cloth.STRIP.step * (lines - 1),
    bottom = top + count * tall;
  headings(pens[1], at, places, texts, gamma, left, top - 4);
  beside(pens, data, drawn, {...page, top: top + 4, bottom, place, most});
  drawn.forEach((text, row) =>
    cloth.row(pens, row, text, {at, high: HIGH, left, y: top + row * tall, lines, place}),
  );
  counts(pens[1], about[task].counted, drawn, bottom, page);

  const open = picked(drawn, chosen),
    [row, column] = open,
    low = bottom + (page.rare ? 44 : 13),
    hidden = data.columns.length - at.length;
  const [add, write] = [
    pens[0],
    (key, x, y, text, more) => pens[1](key, x, y, text, {'font-size': 12, ...more}),
  ];
  opened(
    pens,
    all[row],
    drawn[row].cells[column],
    open,
    [left, low],
    page.rare ? page.right : place(1) - 8,
  );
  if (hidden > 0) write('more', left, low + 45, `up to ${hidden} hidden`);
  const [time, classes, yielded] = panels(
    room,
    page,
    bottom + (page.rare ? 79 : page.narrow ? 63 : 47) + (hidden > 0) * 16,
  );
  time_bars(add, write, data.time, constants.prices, ...time);
  class_bars(add, write, data.classes, places.length && hardest, ...classes);
  yields(add, write, data, ...yielded, room < 520 || room >= 640 ? 84 : 182, most);
  return {width, height: Math.max(classes[1], yielded[1]) + 118, shapes, told: open, tells: true};
}

const HIGH = 22; // is one line of a text

// Return what has room on a page: how wide it is, where the columns stand, in how many lines, how
// many texts are drawn, and how high each is. Where words need more lines, fewer texts have as much
// room: a picture is as high for every task.
function laid(all, {grows}, longest, most, room) {
  const narrow = room < 830,
    slim = room < 560,
    rare = room < 350,
    beside = slim ? 96 : narrow ? 132 : 140;
  const width = Math.max(250, Math.min(room, 850)),
    left = 4,
    across = width - left - beside - 14;
  const least = cloth.least(
      all.flatMap(each => each.tokens),
      slim,
    ),
    needed = wanted(all, longest, least);
  const lines = [slim ? 2 : 1, 2, 3, 4, 5, 6].find(
    n => n === 6 || cloth.spots(needed, across, n).length === longest,
  );
  // On a phone what is below is soon in sight.
  const rows = slim && !grows ? Math.min(rare ? 9 : 8, most) : most;
  const free =
    (slim ? 30 + 48 * rows : (room < 640 ? 29 : 22.5) * rows) - cloth.STRIP.step * (lines - 1);
  const own = lines > 1 ? lines * HIGH + 4 : HIGH; // of a text
  const count = grows ? rows : Math.max(1, Math.min(rows, Math.floor(free / own)));
  const at = folded(all, widths(needed, least, across, lines), least, across, lines);
  return {
    narrow,
    slim,
    rare,
    width,
    left,
    right: width - 2,
    side: left + across,
    lines,
    at,
    count,
    tall: Math.max(own, free / count),
  };
}

// Write the headline, and name the looks; return how far down that goes, whichever task is shown.
function titles(pens, {tasks, about}, {task, tokens, gamma}, drawn, {narrow, left, width}) {
  const seen = look => drawn.some(({cells}) => cells.some(({what}) => what === look));
  const absent = {refused: !seen('refused'), vain: !wasted(drawn), uncounted: !seen('uncounted')};
  const mean = `${tokens[gamma - 1].toFixed(2)} tokens a round`;
  pens[1](
    'title',
    left,
    15,
    narrow ? `${task}, γ = ${gamma}: ${mean}` : `${task}: ${mean} with γ = ${gamma}`,
    {'font-size': narrow ? 12 : 15, 'font-weight': 600},
  );
  cloth.legend(
    pens,
    looks(about[task]).map(([look, words]) => [look, words, !absent[look]]),
    left,
    35,
    width,
  );
  return Math.max(
    ...Object.keys(tasks).map(each => cloth.legend(SILENT, looks(about[each]), left, 35, width)),
  );
}

const wasted = drawn => drawn.reduce((sum, text) => sum + text.vain, 0);

// Draw what stands behind the dots of all rows, and say what these are.
function beside(pens, {tokens, gamma}, drawn, {narrow, rare, side, ...more}) {
  const dotted = `dotted: mean${drawn.some(text => text.few) ? ', hollow: few rounds' : ''}`;
  const said = rare
    ? [[27, 'tokens a round']]
    : narrow
      ? [
          [28, 'tokens a round'],
          [43, dotted],
        ]
      : [[28, `tokens a round (${dotted})`]];
  cloth.lines(pens, {...more, gamma, mean: tokens[gamma - 1], end: side, more: 0, said});
}

// Say how many texts have a row, if not all, and how many drafts were in vain in these.
function counts(write, counted, drawn, bottom, {narrow, slim, rare, left, right, side}) {
  const count = drawn.length,
    vain = wasted(drawn),
    some = `${count} of ${counted} texts`;
  if (count < counted)
    write(
      'first',
      rare ? left : right,
      rare ? bottom + 12 : 15,
      rare ? some : `rows: ${slim ? '' : 'the first '}${some}`,
      {fill: INK.faint, 'text-anchor': rare ? 'start' : 'end'},
    );
  const words = slim
    ? `${vain} in vain (${count} ${count > 1 ? 'rows' : 'row'})`
    : `${vain} ${vain > 1 ? 'drafts' : 'draft'} in vain in ${count > 1 ? `these ${count} rows` : 'this row'}`;
  if (vain)
    write('vain', narrow ? left : side, bottom + (rare ? 27 : narrow ? 43 : 13), words, {
      'text-anchor': narrow ? 'start' : 'end',
    });
}

// Return where the panels below begin, and how wide they are: of time, of classes, and of tokens a
// round.
function panels(room, {width, left}, y) {
  const third = width / 3,
    half = width / 2 - 8;
  if (room < 520)
    return [
      [left, y, width - 12],
      [left, y + 98, width - 12],
      [left, y + 232, width - 12],
    ];
  if (room < 640)
    return [
      [left, y, half],
      [left, y + 98, half - 12],
      [left + half + 16, y, half - 12],
    ];
  return [
    [left, y, third],
    [left + third * 1.04, y, third * 1.03],
    [left + third * 2.16, y, third * 0.82],
  ];
}

// Draw how often the draft that fell on a column was kept, over all texts of the task, and which
// columns are the hardest.
function columns(pens, data, {counted, hardest, places}, at, {left, low, end, lines, slim}) {
  const [add, write] = pens,
    shown = data.columns.slice(0, at.length);
  const bars = shown.map(([kept, judged], column) => {
    const which = `Token ${column + 1} of a text${places.includes(column) ? ` (${hardest})` : ''}`;
    const note = judged
      ? `of ${judged} drafts that were judged there, ${kept} were kept`
      : 'no draft was judged there';
    return {
      shares: [[kept / Math.max(1, judged), {fill: INK.kept}]],
      of: judged,
      note: `${which}: ${note}.`,
    };
  });
  cloth.strip(pens, bars, at, {left, low, end, lines});
  places
    .filter(column => column < at.length)
    .forEach(column => {
      const [line, from, wide] = at[column],
        foot = low + cloth.STRIP.step * line;
      add(`h${column}`, 'path', {
        d: cloth.pointer(left + from + wide / 2, foot + 1.5),
        ...aimed(shown[column][1]),
      });
    });
  const of =
    counted === 1 ? 'kept, one text' : slim ? 'share kept' : `share kept, all ${counted} texts`;
  const more = ['thin: few', shown.some(([, judged]) => !judged) && '–: none'].filter(Boolean);
  [of, ...more.map(words => (slim ? words : `${words} judged`))].forEach((words, i) =>
    write(`said${i}`, end + 19, low - 20 + 12 * i, words, {fill: INK.faint}),
  );
}

// Return the looks of a task's picture, whatever is drafted, and their words.
function looks({missed, hardest, places}) {
  return [
    ['kept', 'kept (stronger: p ≈ q)'],
    ['own', 'bonus'],
    ['round', 'a round'],
    missed && ['refused', 'refused, corrected'],
    missed && ['vain', 'a draft in vain'],
    places.length && [
      'hard',
      `${/^[aeiou]/.test(hardest) ? 'an' : 'a'} ${hardest} (hardest class)`,
    ],
    ['uncounted', 'cut by the end'],
  ].filter(Boolean); // what is not there at each γ comes last
}

// Write above the cells of the last line how far apart the hardest ones are, if that is a rhythm;
// and where texts end, if its cells have no room for the word.
function headings(write, at, places, texts, gamma, left, y) {
  const last = at.at(-1)[0],
    middle = column => left + at[column][1] + at[column][2] / 2;
  const pairs = places
    .slice(1)
    .map((to, i) => [places[i], to])
    .filter(([, to]) => to < at.length);
  const steps = pairs.map(([from, to]) => to - from),
    step = steps.find(each => 2 * steps.filter(one => one === each).length > steps.length);
  const met = step === gamma + 1,
    look = met ? {'font-weight': 600} : {fill: INK.faint};
  const rhythm = pairs.filter(
    (pair, i) => steps[i] === step && step > 3 && pair.every(column => at[column][0] === last),
  );
  rhythm.forEach(([from, to], i) => {
    const words = i
      ? [`${step}`]
      : met
        ? [`${step} tokens = γ + 1`, `${step} = γ + 1`]
        : [`${step} tokens`];
    write(
      `step${i}`,
      (middle(from) + middle(to)) / 2,
      y,
      cloth.fitting(words, middle(to) - middle(from) - 10),
      {'text-anchor': 'middle', 'font-size': 11, ...look},
    );
  });
  const end = at.length - 1;
  if (texts.every(({tokens}) => tokens[end] === END) && spelt(END, at[end][2]) === END)
    write('end', middle(end), y, 'end', {
      'text-anchor': 'middle',
      'font-size': 11,
      fill: INK.faint,
    });
}

// Return the look of what points at the hardest class: it is hollow where nothing of it was judged.
const aimed = judged => (judged ? {fill: INK.line} : {fill: '#FFFFFF', stroke: INK.faint});

// Return what stands in a cell: of a text's end the word, if there is room for it.
const spelt = (name, wide) => (name === END && cloth.fit('end', wide) <= wide ? 'end' : name);

// Return where the columns stand: where all are equally wide, so many in a line that most classes
// stand below their own, so that what a text repeats is seen in columns.
function folded(texts, wide, least, across, lines) {
  const count = wide.length;
  if (lines === 1 || new Set(wide).size > 1) return cloth.spots(wide, across, lines);
  const alike = lag =>
    texts.flatMap(({classes}) => classes.filter((name, i) => name === classes[i + lag])).length /
    (count - lag);
  const from = Math.ceil(count / lines),
    to = Math.min(count - 1, Math.floor(across / least));
  let best = from;
  for (let lag = from + 1; lag <= to; lag++) if (alike(lag) > alike(best)) best = lag;
  const each = Math.min(40, Math.floor(across / best));
  return cloth.spots(
    wide.map(() => each),
    each * best,
    lines,
  );
}

// Return row and column of the cell that is open: the chosen one; before, the first refused one
// with drafts behind it.
function picked(drawn, chosen) {
  if (chosen && drawn[chosen[0]]?.cells[chosen[1]]) return chosen;
  const all = drawn.flatMap(({cells}, row) =>
    cells.map((cell, column) => ({...cell, at: [row, column]})),
  );
  const kept = all.filter(each => each.what === 'kept').sort((a, b) => a.share - b.share);
  return (
    all.find(each => each.vain) ||
    all.find(each => each.what === 'refused') ||
    kept[0] ||
    all[0]
  ).at;
}

// Draw what the draft said at a cell, struck where that was refused, with a tick for each draft
// behind it; below it the cell.
function opened(pens, text, cell, [row, column], [x, y], end) {
  const [add, write] = pens,
    {what, vain} = cell,
    from = x + 44,
    where = `text ${row + 1}, token ${column + 1}${text.tokens[column] === END ? ', its end' : ''}`;
  const [draft, target] = [text.guess[column], text.tokens[column]].map(cut),
    wide = [draft, target].map(word => cloth.fit(word, 17));
  const drafted = what === 'kept' || what === 'refused',
    chances = `q = ${text.q[column].toFixed(2)}, p = ${text.p[column].toFixed(2)}`;
  write('open-d', x, y, 'draft');
  write('open-t', x, y + 15, 'target');
  if (what === 'refused') {
    add('open-out', 'rect', {
      x: from + 1,
      y: y - 10,
      width: wide[0] - 2,
      height: 12,
      rx: 2,
      fill: 'none',
      stroke: cloth.INK.refused,
      'stroke-width': 1.2,
      class: 'lablib-struck',
    });
    add('open-cut', 'path', {
      d: `M${from + 1} ${y + 1.5}L${from + wide[0] - 1} ${y - 9.5}`,
      stroke: cloth.INK.refused,
      'stroke-width': 1.6,
      class: 'lablib-struck',
    });
    write('open-said', from + wide[0] / 2, y, draft, {
      'text-anchor': 'middle',
      'font-family': cloth.MONO,
    });
  }
  if (vain)
    add('open-vain', 'path', {
      ...cloth.ticks(vain, from + wide[0] + 3, y - 2, 4 * vain),
      'pointer-events': 'none',
    });
  if (what === 'kept') cloth.cell(pens, 'draft', [from, y - 10, wide[0]], {...cell, name: draft});
  cloth.cell(
    pens,
    'target',
    [from, y + 5, wide[1]],
    {...cell, name: target},
    {stroke: '#000', 'stroke-width': 2},
  );
  const behind = vain ? `; ${vain} ${vain > 1 ? 'drafts' : 'draft'} behind it in vain` : '';
  const more = vain ? [behind, `; ${vain} in vain`] : [];
  // Only rank counts, at temperature 0.
  const why = what === 'kept' ? 'the target’s best, too' : 'not the target’s best';
  const fate = drafted
    ? [`${chances}; ${what}: ${why}`, `${chances}: ${what}`, chances]
    : what === 'own'
      ? ['nothing is drafted here: the bonus', 'the bonus']
      : ['cut by the end: not counted', 'not counted'];
  const begin = from + (drafted ? 8 + Math.max(wide[0] + (vain ? 4 * vain + 2 : 0), wide[1]) : 0),
    second = drafted ? begin : from + wide[1] + 8;
  write('open-fate', begin, y, cloth.fitting(fate, end - begin));
  write(
    'open-where',
    second,
    y + 15,
    cloth.fitting([...more.map(each => where + each), where], end - second),
  );
}

const cut = word =>
  cloth.bare(word).length > 9 ? `${cloth.bare(word).slice(0, 8)}…` : cloth.bare(word);

// Return how wide the columns must be for whole words: a place is one column in all texts.
const wanted = (texts, longest, least) =>
  Array.from({length: longest}, (_, i) =>
    Math.max(
      least,
      ...texts.map(({tokens}) => cloth.fit(spelt(tokens[i] || '', least < 17 ? 0 : 99), least) - 3),
    ),
  );

// Return how wide the columns are: where not all hold their longest word, short ones first.
function widths(wanted, least, across, lines) {
  const fits = cloth.spots(wanted, across, lines).length === wanted.length,
    found = wanted.map(wide => (fits ? wide : least));
  let free =
    lines * across - (lines - 1) * Math.max(...wanted) - found.reduce((sum, wide) => sum + wide);
  for (const i of [...wanted.keys()].sort((a, b) => wanted[a] - wanted[b])) {
    if (wanted[i] - found[i] > free) break;
    free -= wanted[i] - found[i];
    found[i] = wanted[i];
  }
  const more = Math.max(0, Math.floor(free / wanted.length));
  return found.map(wide => Math.max(wide + Math.min(4, more), Math.min(40, wide + more)));
}

// Return what became of a text's tokens, of those that have a spot, and its whole rounds.
function woven(text, {rounds: all, gamma}, row, at) {
  const state = text.tokens.map(() => ['uncounted', 0, 0]),
    whole = all[row].filter(each => each[2]);
  whole.forEach(([start, kept], number) => {
    for (let i = start; i <= start + kept; i++)
      state[i] = [
        i < start + kept ? 'kept' : kept < gamma ? 'refused' : 'own',
        number + 1,
        i - start + 1,
      ];
  });
  const shown = at.length;
  const cells = text.tokens.map((name, column) => ({
    name: spelt(name, at[column]?.[2]),
    what: state[column][0],
    share: text.overlap[column],
    vain: state[column][0] === 'refused' ? gamma - state[column][2] : 0,
    note: told(text, row, column, ...state[column], gamma),
  }));
  const tokens = whole.reduce((sum, [, kept]) => sum + kept + 1, 0),
    mean = whole.length ? tokens / whole.length : 0;
  const note = `Text ${row + 1}: ${tokens} tokens in ${whole.length} whole rounds, ${mean.toFixed(2)} a round.`;
  const rounds = whole.map(([start, kept]) => [start, kept + 1, Math.max(0, gamma - kept - 1)]);
  return {
    cells: cells.slice(0, shown),
    mean,
    note,
    few: whole.length > 0 && whole.length < 3,
    vain: cloth.waste(rounds),
    rounds: rounds.filter(each => each[0] < shown),
  };
}

function told(text, row, column, what, number, place, gamma) {
  const name = text.tokens[column],
    said = name === END ? 'the text’s end' : `“${name}”`;
  const where = `Text ${row + 1}, token ${column + 1}, ${said} (${text.classes[column]})`;
  const guess =
    `the draft's best is “${text.guess[column]}” (q = ${text.q[column].toFixed(2)}, ` +
    `p = ${text.p[column].toFixed(2)}); Σ min(p, q) = ${text.overlap[column].toFixed(2)}`;
  if (what === 'uncounted')
    return `${where}: in a round that the text's end cuts short; it is not counted.`;
  if (what === 'own')
    return (
      `${where}: the bonus of round ${number}, after ${gamma} kept drafts. ` +
      `Nothing is drafted here; ${guess}.`
    );
  const behind = gamma > place ? `; ${gamma - place} behind it in vain` : '';
  const fate = what === 'kept' ? 'kept' : `refused, and the target writes its own${behind}`;
  return `${where}: draft ${place} of round ${number} is ${fate}; ${guess}.`;
}

// One bar of time for plain decoding, one for speculation: its end lies left of ×1 if it is faster.
function time_bars(add, write, time, prices, x, y, width) {
  const room = width - 76,
    scale = room / 1.95 / time.plain,
    from = x + 76;
  const total = time.reading + time.drafting,
    faster = time.plain / total;
  write('time', x, y, prices ? 'time per token (plain: 1)' : 'calls per token (plain: 1)', {
    'font-weight': 600,
  });
  const bar = (key, at, begin, value, fill, note, gap = begin ? 2 : 0) =>
    add(
      key,
      'rect', // grey and purple don't touch
      {
        x: from + begin * scale + gap,
        y: y + 12 + 24 * at,
        width: Math.max(0, value * scale - gap),
        height: 11,
        fill,
        note,
      },
    );
  bar(
    't-plain',
    0,
    0,
    time.plain,
    INK.read,
    `Plain decoding: ${time.plain} tokens, one call each.`,
  );
  bar('t-read', 1, 0, time.reading, INK.read, `The target reads: ${time.reading.toFixed(0)}.`);
  bar(
    't-draft',
    1,
    time.reading,
    time.drafting,
    INK.draft,
    `The draft writes: ${time.drafting.toFixed(0)}.`,
  );
  write('t-a', x, y + 22, 'plain');
  write('t-b', x, y + 46, 'speculative');
  add('t-one', 'path', {d: `M${from + time.plain * scale} ${y + 6}v52`, stroke: INK.line});
  write('t-one-text', from + time.plain * scale + 4, y + 22, '1', {'font-size': 11});
  const end = from + Math.max(total, time.plain) * scale + 4,
    speed = `×${faster.toFixed(2)}`;
  write(
    't-speed',
    end,
    y + 46,
    cloth.fitting([`speed ${speed}`, speed], (x + width - end) / 1.25),
    {'font-weight': 600},
  );
  const parts = prices
    ? [
        ['t-k1', INK.read, 'target reads'],
        ['t-k2', INK.draft, 'draft writes'],
      ]
    : [['t-k1', INK.read, 'one call a round']];
  const key = Math.min(from, x + width - 180);
  parts.forEach(([name, fill, text], i) => {
    add(name, 'rect', {x: key + 96 * i, y: y + 66, width: 11, height: 11, fill});
    write(`${name}t`, key + 96 * i + 16, y + 76, text, {'font-size': 11});
  });
}

// By class of token: share kept with its interval, and of how many; a class keeps its row whatever
// γ is.
function class_bars(add, write, classes, hardest, x, y, width) {
  const from = x + 104,
    scale = width - 104 - 38;
  write('class', x, y, 'share kept, by class', {'font-weight': 600});
  write('judged', x + width, y, 'judged', {'text-anchor': 'end', 'font-size': 11, fill: INK.faint});
  classes.forEach(([name, share, low, high, judged], i) => {
    const at = y + 10 + 15 * i,
      ends = judged ? [low, high].map(end => from + scale * end) : [from, from];
    write(`k${name}`, from - 14, at + 10, name, {
      'text-anchor': 'end',
      'font-size': 11,
      fill: judged ? INK.line : INK.faint,
    });
    if (name === hardest)
      add('hardest', 'path', {d: cloth.pointer(from - 7.5, at + 4), ...aimed(judged)});
    add(`K${name}`, 'rect', {
      x: from,
      y: at,
      width: scale * share,
      height: 11,
      fill: INK.kept,
      note: judged
        ? `${name}: ${(100 * share).toFixed(0)} % of ${judged} judged drafts kept, 95 % interval ` +
          `${(100 * low).toFixed(0)} to ${(100 * high).toFixed(0)} %.`
        : `${name}: no draft was judged.`,
    });
    const line = `M${ends[0]} ${at + 5.5}H${ends[1]}`;
    add(`I${name}`, 'path', {
      d: line,
      stroke: '#FFFFFF',
      'stroke-width': 4,
      'pointer-events': 'none',
    });
    add(`i${name}`, 'path', {
      d: line,
      stroke: '#111111',
      'stroke-width': 1.6,
      'pointer-events': 'none',
    });
    add(`v${name}`, 'circle', {
      cx: from + scale * share,
      cy: at + 5.5,
      r: judged ? 3 : 0,
      fill: '#111111',
      'pointer-events': 'none',
    });
    write(`j${name}`, x + width, at + 10, String(judged), {
      'text-anchor': 'end',
      'font-size': 11,
      fill: INK.faint,
    });
  });
  [0, 1].forEach(share =>
    write(`k${share}`, from + scale * share, y + 23 + classes.length * 15, String(share), {
      'text-anchor': 'middle',
      'font-size': 11,
      fill: INK.faint,
    }),
  );
  add('class-axis', 'path', {
    d: [from, from + scale].map(at => `M${at} ${y + 7}v${classes.length * 15 + 2}`).join(''),
    stroke: INK.grid,
  });
}

// Tokens a round against γ: measured with intervals, and what one α for all places promises.
function yields(add, write, data, x, y, width, deep, most) {
  const from = x + 18,
    low = y + deep,
    step = (width - 24) / (most - 1),
    tall = (deep - 10) / (most + 1);
  const at = (gamma, value) => [from + step * (gamma - 1), low - tall * value];
  const path = values =>
    'M' +
    values
      .map((value, i) =>
        at(i + 1, value)
          .map(each => each.toFixed(1))
          .join(' '),
      )
      .join('L');
  write('yield', x, y, 'tokens a round, by γ', {'font-weight': 600});
  write(
    'yield-key',
    from + step * (most - 1),
    low + 26,
    `dots: counted, dashed: α of γ = ${data.gamma}`,
    {'text-anchor': 'end', 'font-size': 11, fill: INK.faint},
  );
  for (const value of [1, 5, 9]) {
    add(`g${value}`, 'path', {
      d: `M${from} ${at(1, value)[1]}H${from + step * (most - 1)}`,
      stroke: INK.grid,
    });
    write(`G${value}`, from - 6, at(1, value)[1] + 4, String(value), {
      'text-anchor': 'end',
      'font-size': 11,
      fill: INK.faint,
    });
  }
  add('theory', 'path', {
    d: path(data.theory),
    fill: 'none',
    stroke: INK.line,
    'stroke-width': 1.6,
    'stroke-dasharray': '7 4',
    note: `Dashed: what α of γ = ${data.gamma} promises if all places have it.`,
  });
  data.tokens.forEach((value, i) => {
    const [px, py] = at(i + 1, value),
      now = i + 1 === data.gamma,
      ends = data.low && [data.low[i], data.high[i]];
    if (ends)
      add(`e${i}`, 'path', {
        d: `M${px} ${at(1, ends[0])[1]}V${at(1, ends[1])[1]}`,
        stroke: INK.yield,
        'stroke-width': 1.6,
      });
    add(`p${i}`, 'circle', {
      cx: px,
      cy: py,
      r: now ? 5.5 : 3.5,
      fill: INK.yield,
      stroke: now ? INK.line : 'none',
      'stroke-width': 2,
      note:
        `γ = ${i + 1}: ${value.toFixed(2)} tokens a round` +
        (ends ? `, 95 % interval ${ends.map(end => end.toFixed(2)).join(' to ')}` : '') +
        `; α of γ = ${data.gamma} at all places promises ${data.theory[i].toFixed(2)}.`,
    });
    write(`P${i}`, px, low + 12, String(i + 1), {
      'text-anchor': 'middle',
      'font-size': 11,
      'font-weight': now ? 700 : 400,
      fill: now ? INK.line : INK.faint,
    });
  });
}
