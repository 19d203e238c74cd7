// A text as it is read, each token on the colour of what became of it, and charts below or beside
// it.
//
// constants: {texts: [[token]], looks: [[colour, name, edge?]], about, beside, panels, verdicts}: all
// texts and verdicts that
//   may come, so that none makes the picture jump; what the colours are about; the text's share of
//   the line if it stands beside charts.
// data: {text or tokens, looks: [number or -1], notes: [what is said of a token], marked, verdict,
// right, calls, panels}: the text's
//   number, of each token the number of its look; the token with a frame, -1 for none; a line below
//   the text; how many tokens each call wrote: it has a bracket.

const LETTER = 7.9,
  HIGH = 26,
  PAD = 3; // a letter's width, a line's height, from a word to its edge

function reading(constants, data, room) {
  const width = Math.max(250, Math.min(room, 850)),
    narrow = room < 700 || !constants.beside;
  const high = data.calls ? HIGH + 8 : HIGH,
    column = narrow ? width : Math.round(width * constants.beside);
  const shapes = [],
    pens = cloth.pens(shapes),
    [add, write] = pens;
  const top = colours(pens, constants, column);
  // What a reader typed is no text that was known.
  const tokens = data.tokens || constants.texts[data.text];
  const lines = Math.max(...[...constants.texts, tokens].map(each => height(each, column)));
  const said = Math.max(
    0,
    ...(constants.verdicts || []).map(verdict => cloth.wrapped(verdict, column / 8.2).length),
  );
  const places = placed(tokens, column);
  let frame = null; // it lies on the tokens beside it
  places.forEach(([line, left, letters, first, last], i) => {
    const look = constants.looks[data.looks[i]],
      x = left - (first ? PAD : 0),
      y = top + line * high;
    const wide = letters.length * LETTER + PAD * (first + last);
    if (i === data.marked) frame = {x, y, width: wide};
    add(`t${i}`, 'rect', {
      x,
      y,
      width: wide,
      height: HIGH - 4,
      rx: 2,
      fill: look ? look[0] : '#FFFFFF',
      stroke: look?.[2] || '#FFFFFF',
      ...(data.notes[i]
        ? {
            note: data.notes[i],
            cell: [line, i - places.findIndex(each => each[0] === line)],
            class: 'lablib-cell',
          }
        : {}),
    });
    write(`w${i}`, left, y + 16, letters, {
      'font-family': cloth.MONO,
      'font-size': 13,
      textLength: letters.length * LETTER,
      lengthAdjust: 'spacingAndGlyphs',
      'pointer-events': 'none',
      fill: look ? '#111111' : '#555555',
    });
  });
  if (frame)
    add('frame', 'rect', {
      ...frame,
      height: HIGH - 4,
      rx: 2,
      fill: 'none',
      stroke: '#000000',
      'stroke-width': 2.5,
      'pointer-events': 'none',
    });
  brackets(add, data.calls || [], places, top, high);
  const low = top + lines * high;
  cloth.wrapped(data.verdict || '', column / 8.2).forEach((text, i) =>
    write(`v${i}`, 4, low + 15 + 18 * i, text, {
      'font-size': 13,
      'font-weight': 600,
      fill: data.right ? '#006B4E' : '#B34A00',
    }),
  );
  const end = low + 18 * said + 6;
  if (!constants.panels?.length) return {width, height: end, shapes};
  const [right, down] = narrow ? [0, end + 8] : [column + 24, 0];
  const below = chart(constants, data, width - right);
  for (const shape of below.shapes) {
    const cell = shape.cell ? {cell: [shape.cell[0] + places.at(-1)[0] + 1, shape.cell[1]]} : {};
    shapes.push({
      ...shape,
      ...cell,
      key: `p${shape.key}`,
      transform: `translate(${right} ${down}) ${shape.transform || ''}`,
    });
  }
  return {width, height: narrow ? down + below.height : Math.max(end, below.height), shapes};
}

// Draw a bracket below the tokens of each call; where it goes on in the next line it is open.
function brackets(add, calls, places, top, high) {
  let first = 0;
  calls.forEach((count, number) => {
    const own = places.slice(first, first + count);
    first += count;
    for (const line of new Set(own.map(each => each[0]))) {
      const here = own.filter(each => each[0] === line),
        end = here.at(-1),
        y = top + line * high + HIGH + 2;
      const from = `M${here[0][1] - PAD} ${y}${here[0] === own[0] ? 'm0 -4v4' : ''}`;
      const to = `H${end[1] + end[2].length * LETTER + PAD}${end === own.at(-1) ? 'v-4' : ''}`;
      add(`c${number}.${line}`, 'path', {d: from + to, fill: 'none', stroke: cloth.INK.line});
    }
  });
}

// Name the colours; return where the text begins.
function colours([add, write], {looks, about}, width) {
  let x = 4,
    y = 13;
  const step = wanted => {
    if (x > 4 && x + wanted - 12 > width) [x, y] = [4, y + 18];
  };
  y = cloth.words(write, 'about', x, y, about, width);
  x += about ? 6 * about.length + 10 : 0;
  looks.forEach(([colour, name], i) => {
    const wanted = 30 + 6 * name.length;
    step(wanted);
    add(`l${i}`, 'rect', {
      x,
      y: y - 10,
      width: 13,
      height: 13,
      rx: 2,
      fill: colour,
      stroke: '#767676',
      'stroke-width': 0.8,
    });
    y = cloth.words(write, `L${i}`, x + 18, y, name, width);
    x += wanted;
  });
  return y + 12;
}

// Return of each token its line, left edge and letters, and whether a word begins and ends with it.
// A word that does not fit goes to the next line with all of its pieces; only one that no line
// could hold is broken.
function placed(tokens, width) {
  const words = [],
    most = Math.floor((width - 12) / LETTER);
  for (const token of tokens) {
    if (!words.length || /^\s/.test(token)) words.push([]);
    words.at(-1).push(token.trim() || (token ? '␣' : '∅'));
  }
  let line = 0,
    column = 0;
  return words.flatMap(word => {
    if (column && column + word.join('').length > most) [line, column] = [line + 1, 0];
    const pieces = word.map((letters, i) => {
      if (column && column + letters.length > most) [line, column] = [line + 1, 0];
      column += letters.length;
      return [
        line,
        6 + (column - letters.length) * LETTER,
        letters,
        i === 0,
        i === word.length - 1,
      ];
    });
    column += 1.6;
    return pieces;
  });
}

const height = (tokens, width) => placed(tokens, width).at(-1)[0] + 1;
