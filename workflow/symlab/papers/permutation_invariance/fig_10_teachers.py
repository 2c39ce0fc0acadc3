"""Fig. 10: barriers between students against their width, above several teachers."""

from __future__ import annotations

from functools import partial

from symlab.errors import UserError
from symlab.papers.permutation_invariance.drawing import key_of
from symlab.papers.permutation_invariance.fig_02_widths import TABLE, TEACHER, draw_by_teacher, trained_over_samples
from symlab.plotting.settings import Style
from symlab.plotting.types import Figure
from symlab.study.card import Drawing, Sentence, at
from symlab.study.claim import Claim, Tables, at_most
from symlab.study.tables import need


def above_each_teacher(tables: Tables, style: Style) -> Figure:
    """Fig. 10: as ``above_first_teacher``, a panel a teacher (M, d)."""
    table = need(tables, TABLE)
    if len(table[TEACHER].drop_duplicates()) < 2:
        raise UserError(
            f"{key_of(table, 'widths')} has one teacher (M, d) only; make it a list of grids with other M, d."
        )
    return draw_by_teacher(table, style)


FIGURES = (
    Drawing(
        "permutation-10",
        "Barrier between students against width, by teacher",
        "Loss barrier on the straight line between two students of m neurons against m, a panel for each teacher of M "
        "neurons in d dimensions: of students trained by gradient descent (GD) or online SGD, and of uniform samples "
        "of the global minima, as they are (direct) and matched by type and rank (Algorithm 1) or by linear "
        "assignment. Samples are shown up to the widest trained students. Pairs with a run that diverged or ended with "
        "a loss above 1e-5 are not drawn.",
        above_each_teacher,
        Sentence("The matched barrier is largest at a width of {peaks} M.", {"peaks": at("permutation-2-peak-at-2M")}),
        "The paper has 20 pairs up to m = 6M; wide students of M = 30 have fewer or none here, since the time of a "
        "step grows as m².",
    ),
)

CLAIMS = (
    Claim(
        id="permutation-10-far-below-uniform",
        statement="With a wider teacher, matched barriers of wide trained students are far below those of samples",
        quantity="ratio of the mean matched barriers at the largest width, for every M but the smallest",
        bound=at_most(0.5),
        owner="paper",
        origin="pilot",
        reason="The paper: 'when M is larger, barrier of permuted SGD solutions is way more lower', without a number; "
        "half was chosen when a pilot had 0.12 at m = 30 for M = 12.",
        tables=(TABLE,),
        measure=partial(trained_over_samples, from_ratio=2.5, last=True, narrowest=False),
    ),
)
