// What lessons draw of a model, computed in the page: of each picture what a reader's own text
// makes of it, and its data for any setting of its controls. The data are those that the widget in
// Jupyter would draw, and the same scene draws them (lablib/course/plots/scenes). What `ask`
// returns is said then.

import {STOP} from '../engine/rounds.mjs';
import {NEUTRAL, cut, order, softmax} from '../engine/transforms.mjs';
import {answerOf} from '../engine/vote.mjs';
import {darting, expecting} from './expecting.mjs';
import {BARS, barsAcross, fixed, number, sureness} from './marks.mjs';
import {isSum, readable} from './parts.mjs';
import {tossing} from './tossing.mjs';
import {weaving} from './weaving.mjs';

const share = value => `${(100 * value).toFixed(0)}%`;

// Lesson 00: a story at each temperature, beside the chances of its first word. `given`: the tokens
// of its beginning; the best words, their ids, and all logits; and by temperature the story's
// tokens, the chances that they had, the id of the first, and the number of the whole text among
// the scene's.
const telling = {
  async ask(lab, prompt, {constants, stops}, show) {
    const ids = lab.encode(prompt),
      words = id => lab.decode([id]).trim() || '␣';
    const logits = [...(await lab.next(ids))];
    // Two rows are of others.
    const best = order(logits).slice(0, -constants.panels[0].y.ends[0] - 1.5);
    const opening = ids.slice(1).map(id => lab.decode([id]));
    const own = {...constants, texts: [...constants.texts, opening]}; // room as before
    const given = {
      opening,
      begun: constants.texts.length,
      best,
      words: best.map(words),
      logits,
      stories: {},
      constants: own,
    };
    for (const temperature of stops('temperature')) {
      const told = await lab.write({prompt: ids, max_tokens: 56, temperature, seed: 0});
      const tokens = told.tokens.filter(id => id !== STOP),
        chances = told.chances.slice(0, tokens.length);
      const story = tokens.map(id => lab.decode([id]));
      given.stories[temperature] = {
        tokens: story,
        chances,
        first: tokens[0],
        text: own.texts.length,
      };
      own.texts.push([...opening, ...story]);
      show(given);
    }
  },

  frame({opening, begun, best, words, logits, stories}, {temperature}) {
    const told = stories[temperature] ?? {tokens: [], chances: [], text: begun};
    const scores = Float64Array.from(logits, score => score / (temperature || 1));
    const chances = temperature === 0 ? scores.map((_, id) => id === best[0]) : softmax(scores);
    const notes = told.tokens.map(
      (token, i) => `“${token.trim()}”: the model gave it ${number(told.chances[i])}.`,
    );
    const comes = told.first,
      rare = comes !== undefined && !best.includes(comes),
      came = told.tokens[0]?.trim() || '␣';
    let fate = '';
    if (comes === best[0]) fate = ' and came';
    else if (comes !== undefined)
      fate = `; ‘${rare ? came : words[best.indexOf(comes)]}’ came, which has ${number(chances[comes])}`;
    const caption = `At temperature ${temperature} ‘${words[0]}’ has probability ${chances[best[0]].toFixed(2)}${fate}.`;
    const rows = every => {
      const named = best.map(id => every[id]);
      return [
        ...named,
        Math.max(
          0,
          named.reduce((rest, chance) => rest - chance, 1),
        ),
        ...(rare ? [every[comes]] : []),
      ];
    };
    const short = chance => (chance > 0 && chance < 0.005 ? '<0.01' : fixed(chance, 2));
    const own = rows(softmax(Float64Array.from(logits))),
      now = rows(chances);
    const says = own.map((chance, row) => [...new Set([chance, now[row]].map(short))].join(' → '));
    const dark = rare ? own.length - 1 : best.indexOf(comes);
    const fills = own.map((_, row) =>
      row === dark ? BARS.dark : row === best.length ? BARS.rest : BARS.light,
    );
    const panel = barsAcross([...words, 'all others', ...(rare ? [came] : [])], now, fills, says);
    own.forEach((chance, row) => {
      const end = panel.marks[2 * row + 1];
      end.at[0] = Math.max(end.at[0], chance + 0.03); // beyond both
      if (row === dark)
        Object.assign(end, {
          bold: true,
          colour: BARS.dark,
          text: end.text + (rare ? ', one of them' : ''),
        });
      panel.marks.push({bar: [0, chance, -row - 0.45, -row + 0.45], fill: BARS.own, hollow: true});
    });
    return [
      {
        text: told.text,
        looks: [...opening.map(() => -1), ...told.chances.map(sureness)],
        notes: [...opening.map(() => 'This was given.'), ...notes],
        marked: told.tokens.length ? opening.length : -1,
        panels: [panel],
      },
      caption,
    ];
  },
};

// Lesson 03: probabilities of the next word, and where they are cut. `given`: words, the best
// first, and logits in the same order; of a text of the reader's there are more logits than words
// are shown.
const cutting = {
  colours: {warm: '#767676', stays: '#0072B2'},

  async ask(lab, prompt, {constants}, show) {
    const logits = await lab.next(lab.encode(prompt));
    const ids = order(logits),
      [left, right] = constants.panels;
    const words = ids.slice(0, left.x.ticks.length).map(id => readable(lab.decode([id])));
    const x = {...left.x, ticks: words.map((word, i) => [i, word])};
    const dressed = {
      ...constants,
      panels: [
        {...left, x},
        {...right, x},
      ],
    };
    show({words, logits: ids.map(id => logits[id]), constants: dressed});
  },

  frame({words, logits}, {temperature, top_k, top_p, min_p}) {
    const scores = Float32Array.from(logits);
    const after = softmax(cut(scores, [], {...NEUTRAL, temperature, top_k, top_p, min_p}));
    const warm = softmax(cut(scores, [], {...NEUTRAL, temperature}));
    const kept = [...after.keys()].filter(i => after[i] > 0);
    const mass = kept.reduce((sum, i) => sum + warm[i], 0);
    const best = after.indexOf(Math.max(...after));
    const caption =
      `${kept.length} of ${after.length} words stay, ${share(mass)} of the mass. ` +
      `'${words[best]}' now has ${share(after[best])}.`;
    return [{panels: this.panels(words, warm, after, {top_k, top_p, min_p})}, caption];
  },

  panels(words, warm, after, {top_k, top_p, min_p}) {
    const {warm: grey, stays: blue} = this.colours;
    const edge = {rule: {x: top_k - 0.5}, dash: '5 3', text: 'top-k'};
    // Beside the bars.
    const [left, right] = [0, 8].map(line_down => (top_k ? [{...edge, line_down}] : []));
    if (min_p) {
      const text = `min-p: ${min_p.toFixed(2)} of the best`;
      left.push({rule: {y: min_p * Math.max(...warm)}, dash: '5 3', text});
    }
    if (top_p < 1)
      right.push({
        rule: {y: top_p},
        text: `top-p ${top_p.toFixed(2)}`,
        dash: '5 3',
        below: top_p > 0.1,
      });
    let mass = 0;
    words.forEach((word, i) => {
      const ends = [i - 0.4, i + 0.4],
        stays = after[i] > 0;
      const note = `${word}: ${warm[i].toFixed(3)} before the cut, ${after[i].toFixed(3)} after it.`;
      left.push({bar: [...ends, 0, after[i]], fill: blue, note});
      left.push({bar: [...ends, 0, warm[i]], fill: grey, hollow: true, note});
      right.push({
        key: `m${i}`,
        bar: [...ends, mass, mass + warm[i]],
        fill: stays ? blue : grey,
        hollow: !stays,
        note: `Before ${word} stands ${mass.toFixed(3)} of the mass: it ${stays ? 'stays' : 'goes'}.`,
      });
      mass += warm[i];
    });
    return [{marks: left}, {marks: right}];
  },
};

// Lessons 00 and 06: votes for each answer, and the race between them. `given`: the answers so far,
// in the order of the samples, the right one, how many samples there will be, and the votes at
// which the axis ends; constants.reach: whether what the second can still reach is shown.
const racing = {
  colours: {right: '#009E73', wrong: '#E69F00', reach: '#D9D9D9', edge: '#767676', came: '#222222'},

  async ask(lab, prompt, {constants, stops}, show) {
    if (!isSum(prompt)) throw new Error('Write a sum of six digits, as “sum 7 3 9 0 4 8:”.');
    const digits = prompt.match(/\d/g).map(Number);
    const truth = String(digits.reduce((sum, digit) => sum + digit) % 10);
    const all = stops('samples').at(-1),
      answers = [];
    const top = 1.35 * all,
      y = {ends: [0, top], ticks: [0, all / 2, all].map(v => [v, String(v)])};
    const dress = panel => ({...panel, y: {...panel.y, ...y}});
    const dressed = {...constants, panels: constants.panels.map(dress)};
    let drawn = 0;
    const run = {prompt: lab.encode(prompt), max_tokens: 40, temperature: 1, seed: 0};
    await lab.samples(run, all, (stream, tokens) => {
      answers[stream] = answerOf(lab.decode(tokens));
      while (answers[drawn] !== undefined) drawn += 1; // later ones wait for their turn
      show({answers, truth, all, top, constants: dressed}, {samples: drawn});
    });
  },

  frame({answers, truth, all, top, constants: {reach: reaches}}, {samples}) {
    const cast = answers.slice(0, samples);
    const digits = Array.from({length: 10}, (_, digit) => String(digit));
    const growth = digits.map(digit =>
      cast.reduce((line, answer) => [...line, line.at(-1) + (answer === digit)], [0]),
    );
    const settled = reaches ? this.settled(cast, all) : 0,
      {right: green, wrong: orange, reach, edge, came} = this.colours;
    const tally = at => growth.map(line => line.at(at));
    const n = samples,
      at = settled || n,
      late = n >= all / 4,
      [most, second] = tally(at).sort((a, b) => b - a);
    const now = tally(-1),
      [leads, rival] = now.toSorted((a, b) => b - a);
    // Of equals the first to come.
    const leader = cast.find(answer => answer !== null && now[answer] === leads);
    const left = all - at,
      high = Math.min(second + left, top);
    const area = [
      [at, second],
      [at + high - second, high],
      [all, high],
      [all, second],
    ];
    const bars = [],
      ticks = [],
      edged = {colour: edge, wide: 1.5};
    const lines =
      late && reaches
        ? [
            {area, fill: reach},
            {line: area.slice(0, 2), ...edged},
          ]
        : [];
    digits.forEach(digit => {
      const votes = growth[digit].at(-1),
        right = digit === truth,
        hollow = !right && digit !== leader;
      const place = (Number(digit) - Number(truth) + 10) % 10,
        fill = right ? green : orange;
      const note = `${digit}: ${votes} of ${n} votes${right ? ', the right answer' : ''}.`;
      bars.push({key: digit, bar: [place - 0.4, place + 0.4, 0, votes], fill, hollow, note});
      ticks.push([place, digit]);
      const newest = [place - 0.4, place + 0.4, votes - 1, votes];
      if (digit === cast.at(-1)) bars.push({key: 'came', bar: newest, fill: came});
      if (!votes) return;
      bars.push({
        key: `s${digit}`,
        text: `${Math.floor((100 * votes) / n + 0.5)}%`,
        at: [place, votes + 0.8],
        anchor: 'middle',
      });
      const line = growth[digit].map((count, after) => [after, count]);
      lines.push({
        key: `l${digit}`,
        line,
        label: late && votes >= rival ? `“${digit}”` : '',
        colour: fill,
        wide: hollow ? 1.5 : 3,
        r: 1,
      });
    });
    if (late && reaches) {
      const text = `${settled ? "can't lose: " : ''}${left} left, ${most - second} behind`;
      lines.push({rule: {x: at}, text}, {rule: {y: most}, dash: '5 3'});
    }
    return [
      {panels: [{marks: bars, x: {ticks}}, {marks: lines}]},
      this.caption(growth, cast, {truth, settled, leader}),
    ];
  },

  // Return after how many samples the leader could no longer lose; 0 if it still can.
  settled(cast, all) {
    const counts = new Map(); // in the order of first appearance, by which equals rank
    for (const [i, answer] of cast.entries()) {
      if (answer !== null) counts.set(answer, (counts.get(answer) ?? 0) + 1);
      const votes = [...counts.values()],
        most = Math.max(0, ...votes),
        leader = votes.indexOf(most);
      const needed = (count, place) => most - count + (place < leader ? 0 : 1); // to overtake it
      const rivals = votes.map(needed).filter((_, place) => place !== leader);
      if (votes.length && Math.min(most + 1, ...rivals) > all - i - 1) return i + 1;
    }
    return 0;
  },

  caption(growth, {length}, {truth, settled, leader}) {
    const votes = growth.map(line => line.at(-1)),
      most = Math.max(...votes),
      right = leader === truth;
    if (!most) return `No votes yet. The right answer is ${truth}.`;
    const first = votes.filter(count => count === most).length > 1 ? ', the first of equals' : '';
    const other = right ? '' : `; the right answer, ${truth}, has ${votes[truth]}`,
      s = count => (count > 1 ? 's' : '');
    const found =
      `After ${length} sample${s(length)} answer ${leader}${right ? ', the right one,' : ''} leads with ` +
      `${most} vote${s(most)}${first}${settled ? ' and cannot lose any more' : ''}${other}.`;
    return settled && !right ? `${found} So the vote is wrong.` : found;
  },
};

export const PICTURES = {
  story: telling,
  dart: darting,
  expected: expecting,
  cuts: cutting,
  race: racing,
  carpet: weaving,
  dashboard: tossing,
};
