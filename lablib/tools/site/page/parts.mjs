// Small parts of the page: elements, tokens as they are read, and the chart of the next token.

import {NEUTRAL, cut, order, softmax} from '../engine/transforms.mjs';

const ROWS = 8;
const MOST_BITS = 6; // of surprise; beyond it the colour stays

export const make = (tag, more = {}, ...inside) => {
  const {data = {}, ...rest} = more;
  const element = Object.assign(document.createElement(tag), rest);
  for (const [name, value] of Object.entries(data)) element.setAttribute(name, value);
  element.append(...inside);
  return element;
};

export const percent = share => {
  if (share > 0 && share < 0.001) return '<0.1 %';
  return `${(100 * share).toFixed(share < 0.1 || share > 0.99 ? 1 : 0).replace(/^100\.0$/, '100')} %`;
};

// Return a token as it is to be read: a space before it is a dot, and what has no letters a word.
export function readable(text) {
  if (text === '') return 'end';
  return text.replaceAll(' ', '·').replaceAll('\n', '⏎');
}

// Return whether a text is the prompt of a sum.
export const isSum = text => /^sum( \d){6}:$/.test(text);

export const bits = share => -Math.log2(Math.max(share, 2 ** -40));

// Colour an element by how surprising its token was.
export function tint(element, surprise) {
  const share = Math.min(1, surprise / MOST_BITS);
  element.style.setProperty('--surprise', share.toFixed(2));
}

// Return the chart's rows for the logits after a text: tokens, their chances, raw and as set.
export function nextTokens(logits, text, options) {
  const raw = softmax(logits);
  const set = softmax(cut(logits, text, {...NEUTRAL, ...options}));
  return order(logits)
    .slice(0, ROWS)
    .map(id => ({id, raw: raw[id], set: set[id]}));
}

// Draw the chart into a table's body; `chosen` is the token that was drawn there.
export function drawChart(body, rows, decode, chosen) {
  body.replaceChildren(
    ...rows.map(({id, raw, set}) => {
      const bar = make('span', {className: 'play-bar', data: {'aria-hidden': 'true'}});
      bar.style.setProperty('--raw', raw);
      bar.style.setProperty('--set', set);
      const row = make(
        'tr',
        {className: set === 0 ? 'is-cut' : ''},
        make('th', {scope: 'row'}, readable(decode([id])), id === chosen ? ' ◂' : ''),
        make('td', {}, bar),
        make('td', {}, set === 0 ? 'cut' : percent(set)),
        make('td', {}, percent(raw)),
      );
      if (id === chosen) row.setAttribute('aria-current', 'true');
      return row;
    }),
  );
}
