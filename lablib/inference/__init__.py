"""Turning logits into text: sampling, decoding, voting, speculation, steering.

After a lesson, open the file beside its number; the function is the lesson's idea, and it is the
code that runs. (The folders cache, models and course are lablib's, all others are here.) Where a
faster path stands beside it, ``with lablib.by_definition():`` closes that path, and a function that
you replace runs in its place at once.

    00b models/base.py                Blocks.__call__
    01  sampling/transforms.py        draw
        decoding/decoder.py           Decoder.plain_round
    02  cache/kv.py                   trim, copy
    03  sampling/transforms.py        min_p, top_p, top_k, cut
        sampling/text_sampler.py      TextSampler.draw
    04  decoding/decoder.py           Decoder.round
        decoding/batches.py           sample_many
        models/kernels.py             shared_attention
    05  voting/vote.py                best_of_n
        voting/scoring.py             score
        completions.py                complete
    06  voting/votes.py               tally
        voting/vote.py                majority_vote
        voting/stopping.py            StopRule.reason
        voting/leads.py               cannot_lose
    07  decoding/decoder.py           Decoder.speculative_round
        completions.py                complete
    08  speculation/rules.py          match, coupled, rejection, block
        speculation/judge.py          draw_outcome
    09  speculation/ngram.py          NGram.lookup
        speculation/draft_model.py    draw_in_turn
        speculation/draft_length.py   AdaptiveLength.choose
        speculation/costs.py          best_draft_tokens
    10  cache/rewind.py               Rewinder.rewind
    11  cache/trie.py                 TokenTrie.match, TokenTrie.insert, TokenTrie._split
        async_lm/plan.py              plan_runs
    12  speculation/trained_head.py   Head.propose, Watched
        course/replay/measure.py      measure_costs
    13  speculation/tree_rules.py     tree_rejection, tree_optimal
        speculation/draft_tree.py     grow
    14  engine/continuous_batch.py    ContinuousBatch.turn
    17  steering/constraints.py       Grammar.allowed, GrammarDrafter.propose
        steering/particles.py         smc
    18  steering/confidence.py        token_confidence, by_confidence
        steering/power.py             log_accept
        steering/search.py            beam_search, minimum_bayes_risk
    19  models/draft_block.py         DraftBlock.coupling
        speculation/block.py          Block.propose

The way of a call: voting/vote.py or text.py, completions.py, arguments.py (the checks),
decoding/scheduler.py (rows), decoding/decoder.py (rounds), sampling/text_sampler.py, noise.py
and row.py (tokens), speculation/judge.py (which drafts stay), cache/rewind_batch.py.

To add one thing, read the top of its file: a rule (speculation/rules.py) and a drafter
(speculation/drafter.py) need only a notebook's cell, a transform (sampling/transforms.py) edits.
"""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.async_lm": "AsyncMlxLM Query",
        "lablib.inference.decoding": ("Samples Token TokenIterator sample_many"),
        "lablib.inference.completions": (
            "sample_batches sample_n samples speculative_batch speculative_batches "
            "speculative_sample_n"
        ),
        "lablib.inference.likelihood": "logprobs",
        "lablib.inference.sampling": "SampleResult Sampler SamplerOptions sampled_by",
        "lablib.inference.speculation": (
            "AdaptiveLength Block Costs DraftModel Drafter EarlyExit FixedLength Head LookupFirst "
            "NGram NGramPool Proposal SpeculativeTokenIterator Tempered Tree speculative_decode"
        ),
        "lablib.inference.steering": (
            "Budget GiveUp Grammar GrammarDrafter Particles Vocabulary beam_search best_first "
            "by_confidence importance_sample minimum_bayes_risk power_sample rejection_sample smc"
        ),
        "lablib.inference.voting": (
            "AdaptiveVotes Candidate Votes best_of_n best_of_n_many majority_vote pass_at_k tally "
            "vote_many vote_until"
        ),
        "lablib.completion": "Completion",
        "lablib.text": "generate on_text",
        "lablib.text_stream": "stream",
    },
)
