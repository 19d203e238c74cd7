"""Turning logits into text: sampling, generation, voting, speculation.

After a lesson, open the file that it names; the function is the lesson's idea, and it is what runs.
Of the sampler's cuts it is the definition; ``sampling/fast_paths.py`` finds the same tokens sooner.

    01  sampling/transforms.py        draw
        token_loop.py                 TokenLoop._ask
    02  cache/kv.py                   trim, copy
    03  sampling/transforms.py        min_p, top_p, top_k, cut
        sampling/sampler.py           Sampler.sample
    04  voting/batch.py               GrowingBatch.step
        voting/continuous.py          sample_many
        models/kernels.py             shared_attention
    05  voting/vote.py                best_of_n
        voting/scoring.py             score
        voting/many.py                sample_batches
    06  voting/vote.py                tally, majority_vote
        voting/stopping.py            StopRule.reason
        voting/leads.py               cannot_lose
    07  speculation/round.py          Rounds.round
        speculation/tokens.py         SpeculativeTokenIterator._advance
        speculation/many.py           speculative_batches
    08  speculation/rules.py          match, coupled, rejection, block
        speculation/judge.py          draw_outcome
    09  speculation/ngram.py          NGram.lookup
        speculation/drafters.py       draw_in_turn
        speculation/draft_length.py   AdaptiveLength.choose
        speculation/costs.py          best_draft_tokens
    10  cache/rewind.py               Rewinder.rewind
    11  cache/trie.py                 TokenTrie.match, TokenTrie.insert, TokenTrie._split
        async_lm/plan.py              plan_runs
    12  speculation/trained_head.py   Head.propose, Watched
        course/replay/measure.py      measure_costs
    13  speculation/tree_rules.py     rejection
        speculation/draft_tree.py     grow

To add one thing, read the top of its file: a rule (speculation/rules.py) and a drafter
(speculation/drafters.py) need only a notebook's cell, a transform (sampling/transforms.py) edits.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.speculation": "EarlyExit Head NGram Tree",
        "lablib.inference.async_lm.lm": "AsyncMlxLM",
        "lablib.inference.async_lm.queue": "Query",
        "lablib.inference.samples": "Samples",
        "lablib.inference.sampling.options": "SamplerOptions",
        "lablib.inference.sampling.sampler": "SampleResult Sampler",
        "lablib.inference.speculation.draft_length": "AdaptiveLength",
        "lablib.inference.speculation.drafters": "DraftModel Drafter",
        "lablib.inference.speculation.many": (
            "speculative_batch speculative_batches speculative_sample_n"
        ),
        "lablib.inference.speculation.proposal": "Proposal",
        "lablib.inference.speculation.tokens": (
            "FixedLength SpeculativeTokenIterator speculative_decode"
        ),
        "lablib.inference.token_loop": "Token",
        "lablib.inference.tokens": "TokenIterator",
        "lablib.inference.voting.continuous": "sample_many",
        "lablib.inference.voting.many": "sample_batches sample_n",
        "lablib.inference.voting.vote": (
            "AdaptiveVotes Candidate Votes best_of_n majority_vote tally vote_until"
        ),
        "lablib.text": "Completion generate on_text stream",
        "lablib.inference.speculation.costs": "Costs",
        "lablib.inference.voting.estimate": "pass_at_k",
    },
)
