"""Fig. 15: as Fig. 5, by ridge regression."""

from __future__ import annotations

from symlab.papers.neuron_identifiability import swap_costs, swap_panels
from symlab.papers.neuron_identifiability.fig_05_swap_maps import (
    CAPTION,
    DIFFERS,
    ONE_NETWORK,
    claims_by_k,
    maps_of,
    seen,
)
from symlab.plotting.style import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing
from symlab.study.claim import Tables
from symlab.study.tables import need


def ridge_maps_by_k(tables: Tables, style: Style) -> Figure:
    """As Fig. 5 with ridge costs at the reported beta."""
    need(tables, swap_costs.RIDGE)
    ridge = swap_costs.reported(tables, swap_costs.RIDGE)
    return swap_panels.draw_maps(maps_of(ridge), style, f"{ONE_NETWORK},  {swap_panels.name_beta(ridge)}")


FIGURES = (
    Drawing(
        "identifiability-15",
        "Ridge swap costs by k and σ_F",
        CAPTION + "\nCosts are estimated by ridge regression (Definition E.3), at the β above the maps.\n",
        ridge_maps_by_k,
        seen("identifiability-15"),
        DIFFERS,
    ),
)
CLAIMS = claims_by_k("identifiability-15", ", ridge estimate", swap_costs.RIDGE, also=())
