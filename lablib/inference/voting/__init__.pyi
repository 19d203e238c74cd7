# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.voting.estimate import pass_at_k as pass_at_k
from lablib.inference.voting.many import best_of_n_many as best_of_n_many
from lablib.inference.voting.many import vote_many as vote_many
from lablib.inference.voting.stopping import StopRule as StopRule
from lablib.inference.voting.vote import Candidate as Candidate
from lablib.inference.voting.vote import best_of_n as best_of_n
from lablib.inference.voting.vote import majority_vote as majority_vote
from lablib.inference.voting.vote import vote_until as vote_until
from lablib.inference.voting.votes import AdaptiveVotes as AdaptiveVotes
from lablib.inference.voting.votes import Votes as Votes
from lablib.inference.voting.votes import tally as tally
