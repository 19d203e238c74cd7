"""What must come out: closed forms, unbiased estimators, curves of drawn samples, replayed texts.

Theory stands on top of the three acts, for lessons and measurements; the engine does not need it.
"""
