# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.steering.confidence import GiveUp as GiveUp
from lablib.inference.steering.confidence import agreement as agreement
from lablib.inference.steering.confidence import by_confidence as by_confidence
from lablib.inference.steering.confidence import lowest_confidence as lowest_confidence
from lablib.inference.steering.confidence import mean_confidence as mean_confidence
from lablib.inference.steering.confidence import negative_entropy as negative_entropy
from lablib.inference.steering.confidence import self_certainty as self_certainty
from lablib.inference.steering.confidence import tail_confidence as tail_confidence
from lablib.inference.steering.confidence import token_confidence as token_confidence
from lablib.inference.steering.particles import Generation as Generation
from lablib.inference.steering.particles import Particles as Particles
from lablib.inference.steering.particles import importance_sample as importance_sample
from lablib.inference.steering.particles import rejection_sample as rejection_sample
from lablib.inference.steering.particles import smc as smc
from lablib.inference.steering.power import Chains as Chains
from lablib.inference.steering.power import power_sample as power_sample
