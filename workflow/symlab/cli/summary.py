"""What ``symlab align`` and ``symlab merge`` say at their ends."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from symlab.alignment.universe import Universe
from symlab.symmetries.symmetry_spec import SymmetrySpec, shape

GROUPS_SHOWN = 16
UNSUPPORTED_SHOWN = 8


def summary(
    names: tuple[str, str],
    network: str,
    spec: SymmetrySpec,
    matching: pd.DataFrame,
    remarks: Sequence[str],
    barriers: pd.DataFrame | None,
    n_samples: int,
    method: str,
    repair: bool,
) -> str:
    """The results as plain text for a terminal.

    Args:
        names: what A and B are called.
        network: the module's class.
        matching: columns ``group``, ``size``, ``permutation``, ``objective``.
        remarks: sentences on the match: weights' similarity, groups that were not matched by ``method``.
        barriers: as ``symlab.connectivity.barrier.barriers`` gives them by ``aligned``; None without targets.
        method: what neurons were matched by, "activation" or "weight".
        repair: whether activations were rescaled along the lines.
    """
    A, B = names
    parts = [f"{B} aligned to {A} ({network}): {_groups(spec)} of neurons, matched by {method}s."]
    if spec.unsupported:
        parts += [_unsupported(spec.unsupported)]
    parts += [
        _matching(matching, spec, method),
        *remarks,
        f"The permuted network computes what {B} does (checked on the data).",
        "No curve: the data hold no targets y." if barriers is None else _barriers(barriers, n_samples, repair),
    ]
    return "\n\n".join(parts)


def merge_summary(
    network: str,
    spec: SymmetrySpec,
    universe: Universe,
    remarks: Sequence[str],
    scores: pd.DataFrame | None,
    n_samples: int,
    method: str,
) -> str:
    """The results of a merge as plain text for a terminal.

    Args:
        network, spec, remarks, method: as of ``summary``.
        scores: as ``symlab.connectivity.merge.scores`` gives them; None without targets.
    """
    parts = [
        f"{len(universe.permutations)} networks merged ({network}): {_groups(spec)} of neurons, matched by {method}s "
        f"in {universe.sweeps} sweeps."
    ]
    if not universe.settled:
        parts += ["Neurons still moved in the last sweep: another --seed, or --method, may give a better match."]
    if spec.unsupported:
        parts += [_unsupported(spec.unsupported)]
    parts += [
        *remarks,
        "The permuted networks compute what theirs do (checked on the data).",
        "No scores: the data hold no targets y." if scores is None else _scores(scores, n_samples),
    ]
    return "\n\n".join(parts)


def _scores(scores: pd.DataFrame, n_samples: int) -> str:
    measured = ["loss"] + ["accuracy"] * bool(scores["accuracy"].notna().any())
    rows = [["", *measured]]
    for _, of in scores.iterrows():
        rows += [[of["network"], *(f"{_number(of[m], 4)} ± {_number(of[f'{m}_error'], 4)}" for m in measured)]]
    title = f"Mean ± standard error over {n_samples:,} samples (ensemble: the mean of the networks' outputs):"
    return "\n".join([title, *_table(rows)])


def _groups(spec: SymmetrySpec) -> str:
    n = len(spec.free)
    return "1 group" if n == 1 else f"{n} groups"


def _unsupported(sentences: Sequence[str]) -> str:
    lines = ["Not understood; the axes that these operations meet stay in place:"]
    lines += [f"  - {sentence}" for sentence in sentences[:UNSUPPORTED_SHOWN]]
    if len(sentences) > UNSUPPORTED_SHOWN:
        lines.append(f"  and {len(sentences) - UNSUPPORTED_SHOWN} more, in spec.json")
    return "\n".join(lines)


def _matching(matching: pd.DataFrame, spec: SymmetrySpec, method: str) -> str:
    objective = matching.set_index(["group", "permutation"])["objective"]
    shown = spec.free[:GROUPS_SHOWN]
    rows = [["group", "neurons", "matched", "identity", "random"]]
    rows += [
        [group, " x ".join(map(str, shape(group, spec.groups)))]
        + [_number(objective[group, kind], 3) for kind in ("match", "identity", "random")]
        for group in shown
    ]
    lines = ["Mean correlation of the activations of neurons that are put together:", *_table(rows)]
    if method == "weight":
        lines.append("  (the match was made by weights: it may correlate less than the identity here and there)")
    elif any(group.within for group in spec.groups.values()):
        lines.append("  (a group is matched together with those within it: its own row may lie below the identity)")
    if objective[shown].isna().any():
        lines.append("  (-: no activations of its own that vary)")
    if len(spec.free) > GROUPS_SHOWN:
        lines.append(f"  and {len(spec.free) - GROUPS_SHOWN} more, in matching.csv")
    return "\n".join(lines)


def _barriers(barriers: pd.DataFrame, n_samples: int, repair: bool) -> str:
    by = barriers.set_index("aligned")
    rows = [["", "B as it is", "B aligned"]]
    rows += [["loss barrier", *(_number(by.loc[aligned, "barrier_max"], 4) for aligned in (False, True))]]
    if barriers["drop_max_pp"].notna().any():
        drops = (f"{_number(by.loc[aligned, 'drop_max_pp'], 2)} pp" for aligned in (False, True))
        rows += [["accuracy drop", *drops]]
    title = f"Largest barrier on the line from A to B ({n_samples:,} samples{', with REPAIR' if repair else ''}):"
    return "\n".join([title, *_table(rows)])


def _number(value: float, digits: int) -> str:
    # Adding zero takes the sign off a negative one.
    return "-" if pd.isna(value) else f"{round(value, digits) + 0.0:.{digits}f}"


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
