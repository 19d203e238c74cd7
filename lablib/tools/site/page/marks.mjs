// Marks that several pictures share, as lablib/course/plots/marks.py makes them.

// Dark: what came.
export const BARS = {light: '#56B4E9', dark: '#0072B2', rest: '#999999', own: '#767676'};

// Return a number with so many digits; of a half the even one is nearer, as Python writes it.
export function fixed(value, digits) {
  const large = value * 10 ** digits,
    least = Math.floor(large);
  return (large - least === 0.5 && least % 2 === 0 ? least / 10 ** digits : value).toFixed(digits);
}

// Return a probability with two places, a small one with three.
export const number = chance => {
  if (chance > 0 && chance < 0.0005) return '<0.001';
  return fixed(chance, chance === 0 || chance >= 0.0995 ? 2 : 3);
};

// Return the number of a token's look, by the probability that it had.
export const sureness = chance => [0.9, 0.5, 0.01].filter(least => chance < least).length;

// Return a token with its white space made visible.
export const visible = text => text.replaceAll(' ', '␣').replaceAll('\n', '⏎') || '∅';

// Return the marks of bars across, the first on top, and their names; `says` stands at their ends.
export const barsAcross = (names, chances, fills, says = chances.map(number)) => ({
  marks: names.flatMap((name, row) => {
    const chance = chances[row],
      note = `“${name}” has probability ${number(chance)}.`;
    return [
      {bar: [0, chance, -row - 0.38, -row + 0.38], fill: fills[row], note},
      {text: says[row], at: [chance + 0.012, -row - 0.2]},
    ];
  }),
  y: {ticks: names.map((name, row) => [-row, name])},
});
