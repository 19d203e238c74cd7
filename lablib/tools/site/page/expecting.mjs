// Lesson 01: what a model expects next, as the line that a dart falls on, and at each place of a
// text.

import {STOP} from '../engine/rounds.mjs';
import {order, softmax} from '../engine/transforms.mjs';
import {BARS, barsAcross, fixed, number, sureness, visible} from './marks.mjs';

const warmed = (logits, temperature) =>
  softmax(Float64Array.from(logits, score => score / temperature));

const total = values => values.reduce((sum, value) => sum + value, 0);

// `given`: words, the best first, and logits in the same order. Of a text of the reader's there are
// more logits than words: the last word stands for all the others.
export const darting = {
  best: 5,

  async ask(lab, prompt, {constants}, show) {
    const logits = await lab.next(lab.encode(prompt));
    const ids = order(logits);
    const words = [...ids.slice(0, this.best).map(id => visible(lab.spell(id))), 'others'];
    show({words, logits: ids.map(id => logits[id]), constants: {...constants, words}});
  },

  frame({words, logits}, {u, temperature}) {
    const chances = warmed(logits, temperature),
      last = words.length - 1;
    const pieces = [...chances.slice(0, last), total(chances.slice(last))];
    const ends = pieces.map((_, i) => total(pieces.slice(0, i + 1)));
    const begins = ends.map((end, i) => end - pieces[i]);
    const notes = words.map(
      (word, i) =>
        `${word}: from ${fixed(begins[i], 3)} to ` +
        `${fixed(ends[i], 3)}, a piece of ${fixed(pieces[i], 3)}.`,
    );
    const token = ends.findIndex(end => end > u * ends.at(-1));
    const rest = token === last && logits.length > words.length;
    const hit = rest
      ? `one of the others, whose probabilities sum to ${fixed(pieces[token], 2)}`
      : `'${words[token]}', whose probability is ${fixed(pieces[token], 2)}`;
    const caption =
      `u = ${fixed(u, 2)} falls between ${fixed(begins[token], 2)} and ` +
      `${fixed(ends[token], 2)}, so the token is ${hit}.`;
    return [{u, pieces, notes}, caption];
  },
};

// `given`: the text's name and ids, the words of all ids, and the logits after each token of it.
export const expecting = {
  best: 8,

  async ask(lab, text, {constants, stops}, show) {
    const places = stops('position'),
      ids = [...lab.encode(text), STOP],
      most = places.at(-1);
    if (ids.length - 1 > most)
      throw new Error(
        `The text is too long: ${ids.length - 1} tokens of ${most}, its end included.`,
      );
    const {target: logits} = await lab.read(ids, 0);
    const words = Array.from(logits[0], (_, id) => lab.spell(id));
    const dressed = {...constants, texts: [[...ids.slice(1, -1).map(id => words[id]), ' ?']]};
    const last = places.findLastIndex(place => place < ids.length);
    const given = {
      name: 'your text',
      ids,
      words,
      logits,
      open: true,
      constants: dressed,
      ends: {position: last},
    };
    show(given, {position: places[last]});
    return 'The last place is what comes after your text. Reset brings the lesson’s picture back.';
  },

  frame({name, ids, words, logits, open}, values) {
    const end = ids.length - 1,
      place = Math.min(values.position, end);
    const every = logits.slice(0, -1).map(row => warmed(row, values.temperature));
    const read = every.map((row, i) => row[ids[i + 1]]),
      here = every[place - 1];
    const best = order(logits[place - 1]).slice(0, this.best),
      told = id => visible(words[id]);
    const looks = read.map(sureness);
    const notes = read.map(
      (chance, i) => `“${words[ids[i + 1]].trim()}”: ${number(chance)} at this temperature.`,
    );
    if (open) [looks[end - 1], notes[end - 1]] = [-1, 'Nothing has come here yet.'];
    const came = open && place === end ? null : ids[place],
      first = fixed(here[best[0]], 2);
    const other =
      came === best[0] ? ', the highest' : `; the likeliest was '${told(best[0])}' with ${first}`;
    const caption =
      came === null
        ? `After your text '${told(best[0])}' is the likeliest token, with probability ${first}.`
        : `At place ${place} of ${name} '${told(came)}' came, which had probability ${fixed(here[came], 2)}${other}.`;
    const entropy = -total(here.map(chance => (chance > 0 ? chance * Math.log2(chance) : 0)));
    const title = `at the frame (entropy: ${fixed(entropy, 1)} bits)`;
    const own = came === null ? null : best.indexOf(came);
    const panels = [
      {
        ...this.panel(
          best.map(told),
          best.map(id => here[id]),
          own,
        ),
        title,
      },
    ];
    return [{text: 0, looks, notes, marked: place - 1, panels}, caption];
  },

  // Bars of the best words and of all others; `came` is the number of the one that came, -1 if it
  // is among the others, null if nothing came.
  panel(words, best, came) {
    const chances = [...best, Math.max(0, 1 - total(best))],
      own = came === -1 ? best.length : came;
    const listed = (text, i) => (i === own || chances[i] >= 0.0005 ? text : '');
    const says = chances.map((chance, i) => `${number(chance)}${i === own ? ' ← came' : ''}`);
    const fills = chances.map((_, i) =>
      i === own ? BARS.dark : i < best.length ? BARS.light : BARS.rest,
    );
    return barsAcross([...words, 'all others'].map(listed), chances, fills, says.map(listed));
  },
};
