# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.decoding.batches import sample_many as sample_many
from lablib.inference.decoding.decoder import Decoder as Decoder
from lablib.inference.decoding.rows import Samples as Samples
from lablib.inference.decoding.rows import Verdict as Verdict
from lablib.inference.decoding.token_iterator import Token as Token
from lablib.inference.decoding.token_iterator import TokenIterator as TokenIterator
