"""Judge a tree of drafts: which path stays, and the token after it."""

from collections.abc import Sequence
from dataclasses import replace

from lablib.inference.decoding.rows import Verdict
from lablib.inference.sampling import transforms
from lablib.inference.sampling.noise import ACCEPT, FOLLOW
from lablib.inference.sampling.text_sampler import check_finite
from lablib.inference.speculation import rules, tree_rules
from lablib.inference.speculation.judge import Judge, Queued
from lablib.inference.speculation.proposal import Proposal
from lablib.machine.arrays import listed

import mlx.core as mx
import numpy as np


class TreeJudge(Judge):
    """Verifies the drafts of one text, which may form a tree; arguments as for ``Judge``."""

    trees = True

    @property
    def plays_out(self) -> bool:
        """Return whether the target's own tokens decide, and no distribution is drawn from."""
        return tree_rules.tree_plays_out(self.rule, self.sampler.greedy)

    def decide(
        self, logits: mx.array, proposal: Proposal, n_drafts: list[int] | None = None
    ) -> list[Verdict]:
        """Decide which path of the tree stays; the host waits for the tokens on it."""
        raw = self.sampler.raw(logits)
        drafts: list[int] = listed(proposal.tokens)[0]
        chain = range(-1, len(drafts) - 1)
        parents = list(chain if proposal.parents is None else proposal.parents)
        paths = [tree_rules.path_to(node, parents) for node in range(-1, len(drafts))]
        texts = [[drafts[node] for node in path] for path in paths]
        plays_out = self.plays_out
        seen = None
        if self.trace or not plays_out:
            certain = rules.one_hot(proposal.tokens, raw.shape[-1])
            q = certain if proposal.q is None else proposal.q
            p = self.sampler.after(raw, texts)
            if self.sampler.greedy:
                p = rules.one_hot(mx.argmax(p, axis=-1), raw.shape[-1])
            if self.trace:
                before = mx.array(parents) + 1
                seen = self._evidence(raw[:, before], p[:, before], proposal, q)
        if plays_out:
            end, token = self._follow(raw, texts)
        else:
            end, token = self._draw(p, q, drafts, parents)
        path = paths[end]
        on_path = raw[:, mx.array([0, *(node + 1 for node in path)])]
        finite = mx.isfinite(mx.max(on_path, axis=-1))
        report = self.sampler.report(on_path, mx.array([[*texts[end], token]]), finite)
        kept = mx.array([len(path)])
        queued = Queued(report, proposal.tokens, kept, seen, self._draft_finite(proposal))
        (verdict,) = self._fetch(queued, None)
        # The children of the last node were judged too, if it has any.
        reached = min(verdict.reached, len(path) + (end - 1 in parents))
        return [replace(verdict, path=path, reached=reached)]

    def _draw(
        self, p: mx.array, q: mx.array, drafts: list[int], parents: list[int]
    ) -> tuple[int, int]:
        """Draw from the rule's outcome: which path stays, and the token after it."""
        target, draft = (np.array(rows[0], np.float64) for rows in (p, q))
        check_finite("target", [bool(np.isfinite(row).all()) for row in target])
        outcome = tree_rules.tree_rule(self.rule)(target, draft, drafts, parents)
        kept, following = (mx.array(x, mx.float32) for x in (outcome.kept, outcome.following))
        how_many, which = (self.sampler.numbers(use, 1, p.shape[-1]) for use in (ACCEPT, FOLLOW))
        end = int(transforms.draw(kept[None], how_many))
        token = int(transforms.draw(following[end][None], which))
        return end, token

    def _follow(self, raw: mx.array, texts: Sequence[list[int]]) -> tuple[int, int]:
        """Draw the target's own tokens while a node has them; ``texts`` are the paths' tokens.

        Returns:
            The index of that path, and the token after it.
        """
        sampler = self.sampler
        text: list[int] = []
        end = token = 0
        while text in texts:
            end, before = texts.index(text), mx.array([text], mx.int32)
            scores = sampler.process(raw[:, end : end + 1], before)
            drawn, finite = sampler.draw(scores, before)
            check_finite("target", listed(finite)[0])
            token = int(drawn)
            text = [*text, token]
        return end, token
