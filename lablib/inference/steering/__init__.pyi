# Made from the table in __init__.py by tests/stubs.py.
from lablib.inference.steering.particles import Generation as Generation
from lablib.inference.steering.particles import Particles as Particles
from lablib.inference.steering.particles import importance_sample as importance_sample
from lablib.inference.steering.particles import rejection_sample as rejection_sample
from lablib.inference.steering.particles import smc as smc
from lablib.inference.steering.power import Chains as Chains
from lablib.inference.steering.power import power_sample as power_sample
