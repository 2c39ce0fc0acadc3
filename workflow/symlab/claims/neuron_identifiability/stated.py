"""What the claims of all figures are stated with: the paper's architectures and claims of one bound."""

from __future__ import annotations

import math
from collections.abc import Callable

from symlab.papers.claim import Bound, Claim, Measurement, Tables, bounded
from symlab.claims.variants import apart_from_fractions, scheme

STANDARD = scheme("standard")
W = apart_from_fractions(scheme("w_asymmetric"))
W_0 = apart_from_fractions(scheme("w_asymmetric", 0, 0))
W_1 = apart_from_fractions(scheme("w_asymmetric", 1, 1))
W_FROM_1 = apart_from_fractions(scheme("w_asymmetric", 1, math.inf))
W_FROM_2 = apart_from_fractions(scheme("w_asymmetric", 2, math.inf))
SYRE = scheme("syre")
SYRE_1 = scheme("syre", 1, 1)
SYRE_FROM_1 = scheme("syre", 1, math.inf)


def stated(
    id: str,
    figure: str,
    statement: str,
    bound: Bound,
    reason: str,
    table: str,
    measure: Callable[[Tables], list[Measurement]],
    also: tuple[str, ...] = (),
) -> Claim:
    """The claim that what ``measure`` finds in one table satisfies a bound, in each case."""
    return Claim(id, figure, statement, bound.text, reason, (table,), bounded(measure, bound), also)
