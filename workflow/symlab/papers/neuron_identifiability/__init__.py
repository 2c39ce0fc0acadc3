"""stub"""

from symlab.papers.card import Paper

NEURON_IDENTIFIABILITY = Paper("neuron-identifiability", "identifiability", "a", "b", "t", "w", "l", ())
