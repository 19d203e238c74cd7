// What lessons 07 and 08 share: how long a round may be, and an interval.

export const LONGEST = 8; // drafts in a round, at most

const Z = 1.959963984540054; // 95 % of a normal distribution lie closer than so many deviations

// Return Wilson's interval for a share, 95 % (lablib/course/theory/estimators.py).
export function wilson(successes, n) {
  const mean = successes / n,
    wide = 1 + (Z * Z) / n;
  const centre = (mean + (Z * Z) / (2 * n)) / wide;
  const half = (Z / wide) * Math.sqrt((mean * (1 - mean)) / n + (Z * Z) / (4 * n * n));
  return [mean > 0 ? centre - half : 0, mean < 1 ? centre + half : 1];
}
