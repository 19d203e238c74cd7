"""A rule of one's own."""

from lablib.inference.speculation import rules
from lablib.inference.speculation.speculative_iterator import speculative_decode
from lablib.models import LanguageModel, llama_config

V = 40


def test_a_rule_of_ones_own_can_be_looked_into(monkeypatch):
    """It is called as it stands, with arrays that have numbers."""
    seen = []

    def curious(p, q, drafts):
        seen.append(drafts.tolist())
        return rules.rejection(p, q, drafts)

    monkeypatch.setitem(rules.RULE, "curious", curious)
    model = LanguageModel(llama_config(V, 16, 2, 1), seed=1)
    draft = LanguageModel(llama_config(V, 16, 2, 1), seed=2)
    texts = [
        speculative_decode(model, draft, [1, 2], 20, 3, 1.0, seed=4, rule=rule)[0].tolist()
        for rule in ("curious", "rejection")
    ]
    assert texts[0] == texts[1]
    assert len(seen) > 3
