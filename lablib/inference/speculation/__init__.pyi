# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.speculation.block import Block as Block
from lablib.inference.speculation.costs import Costs as Costs
from lablib.inference.speculation.draft_length import AdaptiveLength as AdaptiveLength
from lablib.inference.speculation.draft_length import DraftLength as DraftLength
from lablib.inference.speculation.draft_length import FixedLength as FixedLength
from lablib.inference.speculation.draft_model import DraftModel as DraftModel
from lablib.inference.speculation.draft_tree import Tree as Tree
from lablib.inference.speculation.drafter import Drafter as Drafter
from lablib.inference.speculation.early_exit import EarlyExit as EarlyExit
from lablib.inference.speculation.early_exit import first_layers as first_layers
from lablib.inference.speculation.ngram import NGram as NGram
from lablib.inference.speculation.proposal import Proposal as Proposal
from lablib.inference.speculation.speculative_iterator import SpeculativeTokenIterator as SpeculativeTokenIterator
from lablib.inference.speculation.speculative_iterator import speculative_decode as speculative_decode
from lablib.inference.speculation.trained_head import Head as Head
