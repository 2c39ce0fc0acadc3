"""The weights' norm against what the localized loss makes of it (Proposition 2.2, corrected)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from symlab.papers.saddle_to_saddle.escapes import escape_time, networks, paper_networks
from symlab.plotting.style import COLUMN, Style, legend, line_entry, palette, panels
from symlab.study.card import Drawing
from symlab.study.claim import Claim, Tables
from symlab.study.tables import need

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COURSE = "escape_course.csv"


def norm_against_time(tables: Tables, style: Style) -> Figure:
    """Norms of trained networks against s, and |theta(0)| exp(-L int L0 ds) from the speeds measured on the way."""
    course = need(tables, COURSE)
    depths = sorted(course.loc[course["activation"] == "relu", "L"].unique())
    blue = palette(style)[0]
    figure, axes = panels(1, len(depths), max(COLUMN, 2.4 * len(depths)), 2.4, sharex=False, sharey=False)
    for axis, L in zip(axes[0], depths, strict=True):
        for _, rows in networks(paper_networks(course, int(L))):
            drawn = rows[rows["step"] > 0]
            axis.plot(drawn["s"], drawn["norm"], color=blue, linewidth=0.8, marker="")
            axis.plot(drawn["s"], predicted_norm(rows)[1:], color="black", linestyle=":", linewidth=1, marker="")
        axis.set(xscale="log", yscale="log", xlabel="$s$", title=f"depth {L}")
        axis.set_ylim(None, 3 * course.loc[course["L"] == L, "norm"].max())
    axes[0, 0].set_ylabel(r"$|\theta|$")
    entries = [line_entry("trained", color=blue), line_entry("localized loss", color="black", linestyle=":")]
    legend(figure, entries, "a line a network")
    return figure


def predicted_norm(rows: pd.DataFrame) -> np.ndarray:
    """|theta(0)| exp(L int -L0 ds) of one network, -L0 of the unit sphere being speed L^(-L/2), by trapezia in s."""
    L = int(rows["L"].iloc[0])
    loss = rows["speed"].to_numpy() * L ** (-L / 2)
    s = rows["s"].to_numpy()
    grown = np.concatenate([[0.0], np.cumsum(np.diff(s) * (loss[1:] + loss[:-1]) / 2)])
    return rows["norm"].iloc[0] * np.exp(np.minimum(L * grown, 50))


def _see(tables: Tables) -> str:
    course = tables[COURSE]
    told = []
    for L in sorted(course.loc[course["activation"] == "relu", "L"].unique()):
        errors = []
        for _, rows in networks(paper_networks(course, int(L))):
            before = rows["s"].to_numpy() < 0.9 * escape_time(rows)
            errors.append(float(np.abs(predicted_norm(rows) / rows["norm"].to_numpy() - 1)[before].max(initial=0)))
        told.append(f"{100 * max(errors):.2g} % at depth {L}")
    return f"Up to nine tenths of the time of escape the norm differs from the prediction by at most {', '.join(told)}."


FIGURES = (
    Drawing(
        "saddle-growth",
        "Norms on the way out",
        "Norm of the weights of the networks of the study `{study}` against s, the sum of rate times |θ|^(L-2), and "
        "what it is by the localized loss alone, from the speeds measured. They part when the network leaves.",
        norm_against_time,
        seen=_see,
        differs="Not in the paper, whose Proposition 2.2 lacks a factor L; the corrected form is drawn.",
    ),
)
CLAIMS: tuple[Claim, ...] = ()
