"""Act 4: texts that are wanted for more than their probability."""

from lablib.lazy import exports

__getattr__, __dir__, __all__ = exports(
    __name__,
    {
        "lablib.inference.steering.confidence": (
            "GiveUp agreement by_confidence lowest_confidence mean_confidence negative_entropy "
            "self_certainty tail_confidence token_confidence"
        ),
        "lablib.inference.steering.constraints": "Grammar GrammarDrafter Vocabulary",
        "lablib.inference.steering.particles": (
            "Generation Particles importance_sample rejection_sample smc"
        ),
        "lablib.inference.steering.power": "power_sample",
        "lablib.inference.steering.search": (
            "Budget Found Hypothesis beam_search best_first edit_distance edit_similarity "
            "minimum_bayes_risk"
        ),
    },
)
