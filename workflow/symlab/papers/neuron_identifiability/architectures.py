"""The paper's architectures, as the rows of a table that its claims are about."""

from __future__ import annotations

import math

from symlab.papers.neuron_identifiability.variants import apart_from_fractions, of_scheme

STANDARD = of_scheme("standard")
W = apart_from_fractions(of_scheme("w_asymmetric"))
W_0 = apart_from_fractions(of_scheme("w_asymmetric", 0, 0))
W_1 = apart_from_fractions(of_scheme("w_asymmetric", 1, 1))
W_FROM_1 = apart_from_fractions(of_scheme("w_asymmetric", 1, math.inf))
W_FROM_2 = apart_from_fractions(of_scheme("w_asymmetric", 2, math.inf))
SYRE = of_scheme("syre")
SYRE_1 = of_scheme("syre", 1, 1)
SYRE_FROM_1 = of_scheme("syre", 1, math.inf)
