"""What an alignment or a merge says when it is printed: what was matched, what it is worth, what to do next."""

import math
from collections.abc import Collection, Sequence

import pandas as pd
from torch import nn
from torch.nn.modules.conv import _ConvNd

from symlab.connectivity.merge import CONSTANT
from symlab.own.models import Models
from symlab.own.weights import Weights
from symlab.symmetries.actions import Action
from symlab.symmetries.propagation import listed
from symlab.symmetries.symmetry_spec import SymmetrySpec, groups_of, shape
from symlab.words import counted

GROUPS_SHOWN = 16
UNSUPPORTED_SHOWN = 8
# Rows of the tables of scores, after those of the networks themselves.
PLAIN, ALIGNED = "midpoint with B as it is", "midpoint with B aligned"
PLAIN_AVERAGE, MERGED = "plain average", "merged"
# Of what the networks have learned beyond a constant, what an average must keep to be called as good, or broken.
AS_GOOD, BROKEN = 0.98, 0.5
KINDS_TOLD = {
    "scaled": "scales of each neuron",
    "orthogonal": "rotations and reflections",
    "orthogonal fixing ones": "rotations and reflections that fix the vector of ones",
    "invertible": "invertible maps",
    "planes": "turns and scales of each pair of dimensions that rotary embeddings turn",
}


def of_actions(actions: Sequence[Action]) -> list[str]:
    """Lines on maps of a group's neurons that change nothing; of those that read alike one, with how many they are."""
    alike: dict[tuple[str, str], list[float]] = {}
    for action in actions:
        inverse = [name for name, where in action.powers.items() if min(where.values()) < 0]
        acted = f", inversely of {', '.join(inverse)}" if inverse else ""
        gains = ", ".join(gain.name for gain in action.gains)
        folded = f", once what reads them has taken up the gains {gains}" if gains else ""
        alike.setdefault((KINDS_TOLD[action.kind], f"{acted}{folded}"), []).append(action.change)
    return [
        f"{kind} free{f' in {len(changes)} ways' * (len(changes) > 1)}{more} "
        f"(a random one changes {max(changes):.0e} of the outputs)"
        for (kind, more), changes in alike.items()
    ]


def short_names(files: Sequence[Weights]) -> list[str]:
    """What networks are called in a sentence: names of files and folders, or, of equal ones, whole paths."""
    names = [each.path.name for each in files]
    return names if len({*names}) == len(names) else [str(each.path) for each in files]


def scored_samples(models: Models) -> str:
    """How many samples averages are scored on, and that they are not those of the match."""
    n = 0 if models.scored is None else len(models.scored[0])
    return counted(n, "samples" if models.test is None else "test samples")


def judged(scores: pd.DataFrame | None, average: str, n_networks: int, samples: str) -> list[str]:
    """The table of scores and a sentence on the average; that there is none without targets."""
    if scores is None:
        return ["No scores and no curve: the data hold no targets y."]
    return [_scores(scores, samples), verdict(scores, average, n_networks)]


def coverage(module: nn.Module, spec: SymmetrySpec, by_constants: Collection[tuple[str, int]] = ()) -> str:
    """Sentences on how many axes of the network's matrices are renumbered, which of them stay, and why.

    Axes that constants keep in place, by name and number, are counted; other sentences tell of them.
    """
    moved, stay = 0, []
    for name, parameter in module.named_parameters():
        axes = spec.axes.get(name, ())
        # The others of a convolution run over its kernel.
        layer = name.partition(".parametrizations.")[0] if ".parametrizations." in name else name.rpartition(".")[0]
        convolves = isinstance(module.get_submodule(layer), _ConvNd)
        for n, axis in enumerate(axes[: 2 if convolves else None] if parameter.dim() > 1 else ()):
            if set(groups_of(axis)) & set(spec.free):
                moved += 1
            elif spec.axes[name] and parameter.shape[n] > 1:
                stay.append((name, n))
    told = f"{moved} of {moved + len(stay)} axes of matrices are renumbered"
    for operation, blamed in spec.mixed.items():
        if kept := [axis for axis in stay if axis in blamed]:
            told += f"; these stay, for {operation} moves or combines what is along them: {listed(kept)}"
            stay = [axis for axis in stay if axis not in kept]
    stay = [axis for axis in stay if axis not in by_constants]
    return told + (f"; these stay, as those of inputs and outputs do: {listed(stay)}." if stay else ".")


def verdict(scores: pd.DataFrame, average: str, n_networks: int) -> str:
    """One sentence on whether an average is worth using.

    What the networks have learned is how far they are, in the mean, from the best constant: in accuracy, or in loss
    where there is none. An average is as good as they are if it keeps ``AS_GOOD`` of that, and broken if it keeps less
    than ``BROKEN``; between, and broken, only if it lies more than two standard errors of its difference from them
    away, sample by sample. So do the networks from the constant, or there is no verdict.

    Args:
        scores: as ``symlab.connectivity.merge.scores`` gives them with the networks as parents; its first
            ``n_networks`` rows are theirs.
        average: which row is judged.
    """
    by = scores.set_index("network")
    of_networks = by.iloc[:n_networks]
    accurate = bool(of_networks["accuracy"].notna().all())
    what, sign = ("accuracy", 1) if accurate else ("loss", -1)
    value, parents = float(by.loc[average, what]), float(of_networks[what].mean(skipna=False))
    if not math.isfinite(parents):
        return "Verdict: none, for the loss of some network is no number."
    if not math.isfinite(value):
        return "Verdict: the average is broken, its loss is no number."
    apart = [f"{what}_difference", f"{what}_difference_error"]
    gap, error = by.loc[average, apart] * [-sign, 1]
    learned, unsure = by.loc[CONSTANT, apart] * [-sign, 1]
    kept = 1 - gap / learned if learned > 0 else 0.0
    size, beside = (f"{100 * each:.1f}" if accurate else f"{each:.3g}" for each in (abs(gap), error))
    shown = size + f" ± {beside}" * (error > 0) + (" points of accuracy" if accurate else " in loss")
    place = f"{shown} {'below' if (gap > 0) == accurate else 'above'} the networks' mean"
    # A share is not rounded over the edge that it was judged by.
    rounded = round(100 * kept) / 100
    digits = int(any((kept < edge) != (rounded < edge) for edge in (AS_GOOD, BROKEN)))
    of_learned = f"; it keeps {100 * kept:.{digits}f} % of what they have learned beyond a constant"
    if math.isnan(unsure):
        return f"Verdict: none, for one number has no error ({place}): give several samples, and a loss of each."
    if not learned > 2 * unsure:
        return (
            "Verdict: none, for these data do not show the networks to be better than a constant "
            f"(the average is {place}). Are x prepared as in training?"
        )
    if kept >= AS_GOOD:
        return f"Verdict: averaging is advisable, {place}{of_learned}."
    if not gap > 2 * error:
        return f"Verdict: undecided on so few samples, {place}, which is within two standard errors{of_learned}."
    if kept <= 0:
        return f"Verdict: the average is broken, no better than a constant ({place}): do not use it."
    if kept < BROKEN:
        return f"Verdict: the average is broken, {place}{of_learned}."
    return f"Verdict: averaging has a price, {place}{of_learned}."


def _scores(scores: pd.DataFrame, samples: str) -> str:
    measured = ["loss"] + ["accuracy"] * bool(scores["accuracy"].notna().any())
    rows = [["", *measured]]
    for _, of in scores.iterrows():
        rows += [[of["network"], *(_with_error(of[what], of[f"{what}_error"]) for what in measured)]]
    title = f"Mean ± standard error over {samples} (ensemble: the mean of the networks' outputs):"
    return "\n".join([title, *_table(rows)])


def _with_error(value: float, error: float) -> str:
    return _number(value, 4) + ("" if pd.isna(error) else f" ± {_number(error, 4)}")


def not_understood(sentences: Sequence[str]) -> list[str]:
    """What the tracer says of operations that it does not know, the first of it."""
    if not sentences:
        return []
    lines = ["Not understood; the axes that these operations meet stay in place:"]
    lines += [f"  - {sentence}" for sentence in sentences[:UNSUPPORTED_SHOWN]]
    if len(sentences) > UNSUPPORTED_SHOWN:
        lines.append(f"  and {len(sentences) - UNSUPPORTED_SHOWN} more, in spec.json")
    return ["\n".join(lines)]


def matching_table(matching: pd.DataFrame, spec: SymmetrySpec, method: str, mapped: bool) -> str:
    """``Aligned.matching`` for a terminal; ``mapped`` if some groups were mapped instead."""
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
        lines.append(f"  (-: no activations of its own that vary{', or mapped' if mapped else ''})")
    if len(spec.free) > GROUPS_SHOWN:
        lines.append(f"  and {len(spec.free) - GROUPS_SHOWN} more, in matching.csv")
    return "\n".join(lines)


def barriers_table(barriers: pd.DataFrame, samples: str, repair: bool, has_batch_norms: bool) -> str:
    """Both barriers on the line between two networks."""
    by = barriers.set_index("aligned")
    rows = [["", "B as it is", "B aligned"]]
    rows += [["loss barrier", *(_number(by.loc[aligned, "barrier_max"], 4) for aligned in (False, True))]]
    if barriers["drop_max_pp"].notna().any():
        drops = (f"{_number(by.loc[aligned, 'drop_max_pp'], 2)} pp" for aligned in (False, True))
        rows += [["accuracy drop", *drops]]
    title = f"Largest barrier on the line from A to B ({samples}{', with REPAIR' if repair else ''}):"
    lines = [title, *_table(rows)]
    if has_batch_norms:
        lines.append(
            "  (batch norm statistics are estimated anew at every point, at A and B too, which keep their own below)"
        )
    return "\n".join(lines)


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
