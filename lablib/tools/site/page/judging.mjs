// Judge an exercise's answers as the notebook does: the smallest case that fails is shown, and who
// answers all the lesson's own cases as a known wrong idea does is told which it looks like.

const FAILS = 'error';

export function same(wanted, got, tolerance) {
  if (typeof wanted === 'number' && typeof got === 'number')
    return Math.abs(wanted - got) <= tolerance * Math.max(1, Math.abs(wanted));
  if (Array.isArray(wanted) && Array.isArray(got))
    return wanted.length === got.length && wanted.every((each, i) => same(each, got[i], tolerance));
  if (wanted?.[FAILS] || got?.[FAILS]) return Boolean(wanted?.[FAILS] && got?.[FAILS]);
  return wanted === got;
}

// Return whether answers are right and, if not, the case that shows it and what it looks like.
export function judge({cases, right, wrong, own, tolerance}, answers) {
  const fails = i => !same(right[i], answers[i], tolerance);
  const failing = cases.map((_, i) => i).filter(fails);
  if (!failing.length) return {correct: true};
  const size = i => JSON.stringify(cases[i]).length;
  const at = failing.reduce((least, i) => (size(i) < size(least) ? i : least));
  const until = failing.some(i => i < own) ? own : cases.length;
  const like = wrong.find(idea =>
    idea.answers.slice(0, until).every((each, i) => same(each, answers[i], tolerance)),
  );
  return {correct: false, at, like: like?.text ?? ''};
}
