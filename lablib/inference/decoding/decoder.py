"""One decoder: texts grow side by side, a round at a time.

In a round a drafter proposes tokens for each row, the target reads them all in one forward, the
judge says which of them stay, and the caches forget the others. Without a drafter, or where it has
no guess, a round is one token of the target: a verdict on no drafts. Rows that have ended leave;
others that wait then join.

Everything that writes text is a door to this loop: one row (``TokenIterator``, and
``SpeculativeTokenIterator`` with a drafter), rows of one prompt (``sample_n``), rows of many
prompts (``samples``, ``sample_many``, ``generate`` with a list).
"""

import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from lablib.cache.rewind import Rewinder
from lablib.cache.rewind_batch import BatchRewinder
from lablib.inference.decoding.rows import Verdict, no_counts
from lablib.inference.sampling.row import Row
from lablib.inference.sampling.text_sampler import Drawn, TextSampler, check_finite
from lablib.validation import BadType

import mlx.core as mx

Reader = Rewinder | BatchRewinder
Rows = Sequence[Row]  # rows that join together


def row_and_token(row: Row) -> str:
    """Return the place that a message names: the row and its next token."""
    return f"row {row.number}, token {len(row.tokens)}"


class Decoder:
    """Rows that grow together, by a target and perhaps a drafter.

    Args:
        sampler: the sampler of all rows.
        judge: verifies drafts; None without a drafter.
        draft_length: chooses the number of drafts in a round; None without a drafter.
        closable: whether the caller may stop between two tokens and go on with the cache.
        label: the place that messages name, given a row.

    Attributes:
        rows: the rows that still grow, in the order of the batch.
        target: the target's reader; None before rows join.
        drafter: the drafter that ``begin`` returned; None before rows join, or without one.
        counts: the counts of all rounds.
    """

    def __init__(
        self,
        sampler: TextSampler,
        judge: Any = None,
        draft_length: Any = None,
        *,
        closable: bool = False,
        label: Callable[[Row], str] = row_and_token,
    ) -> None:
        self.sampler = sampler
        self.judge = judge
        self.draft_length = draft_length
        self.rows: list[Row] = []
        self.target: Any = None
        self.drafter: Any = None
        self.counts = no_counts()
        self._closable = closable
        self._label = label
        self._logits: mx.array | None = None  # (B, V), after all texts, if they are known already
        self._pending: deque[Drawn] = deque()  # plain tokens that nobody has looked at yet
        self._plain_left = 0  # plain rounds until drafting is considered again

    def run(self, admit: Callable[[], bool] | None = None) -> Iterator[list[Verdict]]:
        """Run rounds until no row is left; yield the verdicts of each, one for each row.

        ``admit`` is called before each round: it may let rows join, and tells whether any did.
        """
        while (admit is not None and admit()) or self.rows:
            target, drafter, start = self.target, self.drafter, time.perf_counter()
            calls, draft_calls = target.calls, 0 if drafter is None else drafter.calls
            verdicts = self.round()
            self._count(verdicts, target.calls - calls)
            if drafter is not None:
                self.counts["draft_calls"] += drafter.calls - draft_calls
                self._learn(verdicts, time.perf_counter() - start)
            yield verdicts

    def join(
        self, rows: Rows, target: Reader, drafter: Any = None, logits: mx.array | None = None
    ) -> None:
        """Add rows, whose prompts the caller reads before the next round, all but the end of each.

        That round reads the end: the last token, or some more (``prompts.most_unread``). Or
        ``target`` has read the prompts whole, and the ``logits (B, V)`` after them are given. The
        ``drafter`` is the one that ``begin`` returned.
        """
        if self.judge is not None and drafter is None:
            raise BadType("begin of a drafter must return a drafter, got None")
        order = None
        if self.rows:
            order = self.target.extend(target, replace=drafter is None)
            if drafter is not None:
                self.drafter.extend(drafter)
        else:  # a new batch
            self.target = target
            self.drafter = drafter
            self.sampler.begin()
            self._plain_left = 0
        self.sampler.add(rows)
        self.rows = [*self.rows, *rows]
        if order is not None:
            self.sampler.select(order)
            self.rows = [self.rows[row] for row in order]
        self._logits = logits
        self.counts["target_calls"] += target.calls
        self.counts["draft_calls"] += 0 if drafter is None else drafter.calls

    def round(self) -> list[Verdict]:
        """Run one round, and return a verdict for each row; rows that have ended leave."""
        verdicts = None if self.drafter is None else self.speculative_round()
        if verdicts is None:  # nothing is drafted
            verdicts = self.plain_round()
        for row in self.rows:
            if row.left <= 0:
                self.let_leave()
                break
        return verdicts

    def _count(self, verdicts: Sequence[Verdict], target_calls: int) -> None:
        """Count a round of each text, and the forwards of the target that it took."""
        counts = self.counts
        counts["target_calls"] += target_calls
        counts["rounds"] += len(verdicts)
        for verdict in verdicts:
            counts["tokens"] += len(verdict.tokens)
            counts["total_drafted"] += len(verdict.drafted)
            counts["total_accepted"] += verdict.accepted
            counts["total_reached"] += verdict.reached

    # A round with drafts.

    def speculative_round(self) -> list[Verdict] | None:
        """Run a round with drafts; return None where nothing is drafted."""
        limits = self._limits()
        if max(limits) <= 0:
            return None
        self.target.settle()  # everything from earlier rounds stays
        texts = [row.text for row in self.rows]
        proposal = self.drafter.propose(texts, limits, self.sampler)  # draft
        if proposal is None:
            self.draft_length.miss()
            return None
        n_drafts = self.judge.check(proposal, limits)
        logits = self._read(proposal.tokens, proposal.parents)  # verify
        verdicts = self.judge.decide(logits, proposal, n_drafts)  # keep
        if proposal.parents is not None:  # a tree, of which one path stays
            self.target.follow(len(proposal.parents), verdicts[0].path)
        self._append(verdicts)
        lengths = [len(row.text) - 1 for row in self.rows]
        self.target.keep(lengths)  # take back
        self.drafter.keep(lengths)
        return verdicts

    def _limits(self) -> list[int]:
        """Return the most drafts for each row: one place is left for the target's own token."""
        if self._plain_left:
            return [0] * len(self.rows)
        most = self.draft_length.choose()
        room = self.target.room()
        if room is not None:
            most = min(most, room - 1)
        return [min(most, row.left - 1) for row in self.rows]

    def _read(
        self, drafts: mx.array | None = None, parents: Sequence[int] | None = None
    ) -> mx.array:
        """Let the target read the unread tokens of the texts, and the drafts ``(B, γ)``.

        Returns:
            Its logits ``(B, γ+1, V)``, after the last token of each text and after each draft.
        """
        positions = self.target.positions
        unread = [row.text[at:] for row, at in zip(self.rows, positions, strict=True)]
        tokens = mx.array(unread, mx.int32)
        extra = len(unread[0]) - 1  # unread tokens before the last
        # Read for good, unless a logits processor raises afterwards.
        stays = drafts is None and not self.sampler.processors
        if drafts is not None:
            tokens = mx.concatenate([tokens, drafts], axis=1)
        if parents is not None:  # the unread tokens come first
            parents = [*range(-1, extra), *(extra + 1 + parent for parent in parents)]
        logits = self.target.forward(tokens, stays, parents)
        return logits[:, extra:] if extra else logits

    def _learn(self, verdicts: Sequence[Verdict], seconds: float) -> None:
        """Tell the policy of draft lengths how the round went."""
        for verdict in verdicts:
            self.draft_length.observe(verdict.reached, verdict.accepted)
        is_first = self.counts["rounds"] == len(verdicts)
        if not is_first:  # the first round also reads the prompt's end
            self.draft_length.timed(len(verdicts[0].drafted), seconds)

    # A round without drafts.

    def plain_round(self) -> list[Verdict]:
        """Let the target write one token of each row by itself."""
        if not self._pending:
            self._ask()
        if self._may_run_ahead():
            self._ask()
        verdicts = self._fetch()
        self._append(verdicts)
        return verdicts

    def _plain_rounds(self) -> int:
        """Return how many rounds are plain ones from now on."""
        most = max(row.left for row in self.rows)
        return most if self.drafter is None else min(self.draft_length.plain_tokens, most)

    def _ask(self) -> None:
        """Queue a forward and the draw of the tokens after it; nothing waits for the result."""
        if not self._plain_left:
            self._plain_left = self._plain_rounds()
        before = self._pending[-1].tokens if self._pending else None
        if self._logits is not None:
            logits, self._logits = self._logits[:, None], None
        elif before is None:
            self.target.settle()
            logits = self._read()
        else:
            logits = self.target.forward(before, stays=True)
        drawn = self.sampler.plain(logits, before)
        self._pending.append(drawn)
        mx.async_eval(drawn)

    def _may_run_ahead(self) -> bool:
        """Return whether the next forward may begin before anybody has looked at the last tokens.

        It may not where a row may end first: the forward would be in vain. A text that is alone
        takes the risk if its cache can give a token back. A logits processor may keep a state of
        its own, so it sees no token before its turn.
        """
        if self._plain_left <= 1 or self.sampler.processors:  # the next round may begin with drafts
            return False
        at_risk = self._closable
        for row in self.rows:
            if row.left <= 1:
                return False
            at_risk = at_risk or row.may_stop_early
        return not at_risk or self.target.can_give_back(after=1)

    def _fetch(self) -> list[Verdict]:
        """Wait for the oldest tokens that were asked for; a plain round waits nowhere else."""
        drawn = self._pending[0]
        mx.eval(drawn)
        columns: Any = drawn.tokens.tolist(), drawn.logprobs.tolist(), drawn.finite.tolist()
        for row, finite in zip(self.rows, columns[2], strict=True):
            if not finite[0]:  # else nobody needs the label
                check_finite(self._label(row), finite)
        self._pending.popleft()
        self._plain_left -= 1
        verdicts = []
        for i, (tokens, logprobs, _) in enumerate(zip(*columns, strict=True)):
            top = drawn.top(i) if drawn.best else ()
            verdicts.append(Verdict((), tokens, 0, 0, logprobs, top))
        return verdicts

    # Rows.

    def _append(self, verdicts: Sequence[Verdict]) -> None:
        """Write the decided tokens down."""
        for row, verdict in zip(self.rows, verdicts, strict=True):
            row.append(verdict.tokens, verdict.logprobs, verdict.top)
        if self.drafter is not None or self.sampler.processors:
            self.sampler.end_round()

    def let_leave(self, others: Collection[Row] = ()) -> None:
        """Let the rows go that have ended, and others; no forward runs ahead of a row that may."""
        rows = enumerate(self.rows)
        stay = [index for index, row in rows if row.left > 0 and row not in others]
        self.rows = [self.rows[index] for index in stay]
        self.sampler.select(stay)
        if not stay:
            self._pending.clear()
            return
        self.target.select(stay)
        if self.drafter is not None:
            self.drafter.select(stay)
