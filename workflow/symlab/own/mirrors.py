"""Which neurons will merge or vanish at given settings of SGD, as a function: ``from symlab import mirrors``."""

import copy
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor, nn
from tqdm import tqdm

from symlab.alignment.forward import call
from symlab.alignment.signs import signs_of
from symlab.batches import in_precision, prediction
from symlab.connectivity.merge import CONSTANT, scores
from symlab.connectivity.norm_statistics import batch_norms
from symlab.connectivity.objective import losses
from symlab.errors import UserError
from symlab.own.models import Models, check_counts, load_models, traced_symmetries
from symlab.own.modules import foreign
from symlab.own.network import State
from symlab.seeds import torch_generator
from symlab.symmetries.mirrors import (
    Mirror,
    inner,
    neurons,
    norm,
    random_state,
    relative_distances,
    slopes,
    turned_lengths,
    unit,
    vanishing,
)
from symlab.symmetries.signs import Flip
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.words import counted

Found = tuple[Mirror, dict[str, Any]]
"""A mirror, and what is known of it before its exponent is: columns of its row."""
LANCZOS, LANCZOS_SAMPLES = 20, 256
"""Steps, and samples (or a batch, if that is more), by which the direction of least curvature is found."""
PAIRS = 3
STEPS = 300
"""Batches at most that an exponent is averaged over, of which the first third is left out."""
BLOCKS, LOOK, FEWEST_STEPS = 6, 30, 120
"""Blocks of steps whose means tell an exponent's error; steps between looks at it, and before averaging may end."""
ERRORS, KNOWN = 3, 0.1
"""An exponent is known when, at two looks in a row, so many standard errors are less than this share of it.

By momentum steps are alike for some ten others (correlation .8 from one to the next), and whoever looks often sees a
small error by chance: one error of a twentieth at one look is wrong by a tenth and more in up to 40 % of such series.
"""
ROUNDING = 1e-13
"""An exponent nearer to 0 is rounding: the neurons have no part in the outputs, and their distance stays."""
FEWEST_AT_ONCE = 64
"""Samples that the loss is differentiated at together, where batches are smaller."""
ZEROS = ["group", "turns", "neuron", "size", "curvature", "exponent", "error", "vanishes", "steps"]


@dataclass(frozen=True)
class SGD:
    """Settings of SGD, on which it depends which mirrors attract.

    Attributes:
        lr: learning rate, above 0.
        weight_decay: gradient added to a weight, as a multiple of it (torch's ``weight_decay``).
        momentum: from 0 to below 1.
        batch: samples a step.
    """

    lr: float
    weight_decay: float = 0.0
    momentum: float = 0.0
    batch: int = 64

    def check(self, samples: int) -> None:
        """Check that the settings are in range, and that a batch can be drawn from so many samples.

        Raises:
            UserError: they are not, or it cannot.
        """
        if not self.lr > 0 or self.weight_decay < 0 or not 0 <= self.momentum < 1:
            raise UserError("lr must be above 0, weight decay from 0 on, and momentum from 0 to below 1.")
        if not 1 <= self.batch <= samples:
            raise UserError(f"batches of {self.batch} cannot be drawn from {samples} samples; give another size.")


@dataclass(frozen=True, repr=False)
class Mirrors:
    """The closest pairs of neurons and single neurons, and which of them SGD will merge or let vanish; printed, a list.

    Attributes:
        pairs: a row a pair: ``group``; neurons ``a`` and ``b``; ``distance``, |theta_a - theta_b| over the sum of their
            norms; ``exponent``, by how much a step of SGD changes the logarithm of their distance in the mean, next to
            the mirror theta_a = theta_b, as the network trains on; ``error``, its standard error; ``curvature``, that
            of loss and decay across it in the direction that grows fastest; ``merges``, whether the exponent is below
            0; ``steps``, in which the distance halves or doubles (infinite where the exponent is 0: the loss does not
            depend on their difference).
            Exponent and curvature are NaN where the loss has no second derivative on the mirror.
        zeros: a row a neuron whose sign is free (of an odd activation; a dimension of query and key, or of value and
            output, in a head, or a norm's gain with what reads it, where signs are the reflections of rescalings):
            ``group``; ``turns``, the parameters that its sign turns round; ``neuron``, of heads one after another;
            ``size``, their norm over its mean; and the same of the mirror on which they are 0, with ``vanishes``.
        training: the settings that this is for.
        name: the network's class.
        remarks: sentences: what was renamed or left out, and what targets are compared by.
    """

    pairs: pd.DataFrame
    zeros: pd.DataFrame
    training: SGD
    name: str
    remarks: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"Pairs of neurons of {self.name} at {self.training}:"]
        for group, rows in self.pairs.groupby("group", sort=False):
            nearest = rows.loc[rows["distance"].idxmin()]
            line = f"{group}: {_drawn(rows['merges'], 'closest pairs')} drawn together"
            line += f"; the closest, {nearest['a']} and {nearest['b']}, is {nearest['distance']:.3g} apart"
            word = "halves" if nearest["merges"] else "doubles"
            in_steps = f"{word} in {counted(nearest['steps'], 'steps')}" if nearest["exponent"] else "stays so"
            line += "" if math.isnan(nearest["steps"]) else f", which {in_steps}"
            lines.append(f"{line}{_unsure(rows)}.")
        for (group, turns), rows in self.zeros.groupby(["group", "turns"], sort=False):
            drawn = _drawn(rows["vanishes"], "smallest neurons")
            lines.append(f"{group}: {drawn} drawn to 0, in {turns}{_unsure(rows)}.")
        return "\n".join([*lines, *self.remarks])

    def __repr__(self) -> str:
        return f"Mirrors({self.name}, {len(self.pairs)} pairs)"


def _drawn(which: pd.Series, what: str) -> str:
    """ "2 of 3 closest pairs are", "0 of 1 closest pair is"."""
    drawn = int(which.sum())
    return f"{drawn} of {counted(len(which), what)} {'is' if 1 in (drawn, len(which)) else 'are'}"


def _unsure(rows: pd.DataFrame) -> str:
    """How many of some rows have no exponent, or none that tells its sign, if any."""
    unknown = int(rows["exponent"].isna().sum())
    near = int((rows["exponent"].abs() < ERRORS * rows["error"]).sum())
    few = int((np.isfinite(rows["exponent"]) & rows["error"].isna()).sum())
    told = f"; of {unknown} nothing is known, for the loss has no second derivative on their mirrors" if unknown else ""
    told += f"; of {few} it is uncertain, for so few steps tell no error of the exponent" if few else ""
    return told + (f"; of {near} it is uncertain, for the exponent lies within {ERRORS} errors of 0" if near else "")


def mirrors(
    module: nn.Module | str,
    weights: Any,
    data: Any,
    *,
    training: SGD,
    pairs: int = PAIRS,
    steps: int = STEPS,
    seed: int = 0,
    **options: Any,
) -> Mirrors:
    """Tell which neurons SGD will merge (Ziyin 2024, Theorems 4 and 5), of the closest pairs in each group.

    And which it will take to 0 (Theorem 2), of the smallest neurons whose sign is free.

    Next to the mirror theta_a = theta_b a step of SGD multiplies the difference of two neurons by I - lr (H + decay), H
    the Hessian of the batch's loss across it. It vanishes where the largest Lyapunov exponent of these matrices is
    below 0, in one dimension E log|1 - lr h|; it is found by taking the difference along through as many batches,
    with momentum, while the network trains on from its nearest point of the mirror. Adam does not follow this.

    Args:
        module, data, options: as of ``symlab.align``, with targets.
        weights: a state dict, a module, or the path of a file or folder; None for the module's own.
        training: SGD's settings from here on.
        pairs: how many pairs of each group, and neurons of each sign.
        steps: batches at most that an exponent is averaged over, of which the first third is left out; fewer where it
            is known to a tenth before.
        seed: of the batches.

    Raises:
        UserError: as ``symlab.align``; there are no targets; the settings, pairs or steps are none; or training
            diverges at the settings, or undoes what the network has learned.
    """
    models = load_models(module, {"the network": weights}, data, seed=seed, **options)
    if models.y is None:
        raise UserError("the loss needs targets: give them as y in the data.")
    training.check(len(models.y))
    check_counts(pairs=pairs, steps=steps)
    traced = traced_symmetries(models)
    spec = traced.spec
    across = _Across(models, training, steps, seed)
    like = models.network.by_all_names(models.states[0])
    flips = signs_of(models.module, traced, models.inputs()[:2], like, seed)
    close = _close(spec, across.own, pairs)
    if not close:
        raise UserError(f"{models.name} has no group of two neurons or more whose weights lie along one axis each.")
    small = _small(spec, flips, across.own, pairs)
    shown = tqdm(total=len(close) + len(small), desc="following neurons", unit="mirror", leave=False, disable=None)
    with shown:
        of_pairs = across.table(close, "merges", shown)
        zeros = across.table(small, "vanishes", shown).reindex(columns=ZEROS)
    return Mirrors(of_pairs, zeros, training, models.name, models.remarks)


def _close(spec: SymmetrySpec, state: Mapping[str, Tensor], pairs: int) -> list[Found]:
    """The mirrors between the closest pairs of each group."""
    return [
        (neurons(spec, group, a, b), {"group": group, "a": a, "b": b, "distance": distance})
        for group in spec.free
        for a, b, distance in closest_pairs(spec, state, group, pairs)
    ]


def _small(spec: SymmetrySpec, flips: Sequence[Flip], state: Mapping[str, Tensor], count: int) -> list[Found]:
    """The mirrors on which the smallest neurons of each sign are 0."""
    return [
        (
            vanishing(spec, flip, neuron),
            {"group": flip.group, "turns": ", ".join(flip.turned), "neuron": neuron, "size": size},
        )
        for flip in flips
        for neuron, size in smallest(turned_lengths(spec, flip, state), count)
    ]


def smallest(lengths: Float[Tensor, " neurons"], count: int) -> list[tuple[int, float]]:
    """The shortest of some neurons and their lengths over the mean of all."""
    values, order = lengths.sort(stable=True)
    return list(zip(order[:count].tolist(), (values[:count] / lengths.mean()).tolist(), strict=True))


def closest_pairs(
    spec: SymmetrySpec, state: Mapping[str, Tensor], group: str, pairs: int
) -> Iterator[tuple[int, int, float]]:
    """The pairs of a group whose weights differ least, over the sum of their norms."""
    theta = neuron_vectors(spec, state, group)
    if theta is None or len(theta) < 2:
        return
    a, b = np.triu_indices(len(theta), 1)
    values = relative_distances(theta).cpu().numpy()[a, b]
    for place in np.argsort(values, kind="stable")[:pairs]:
        yield int(a[place]), int(b[place]), float(values[place])


def neuron_vectors(spec: SymmetrySpec, state: Mapping[str, Tensor], group: str) -> Float[Tensor, "m p"] | None:
    """All weights of each neuron of a group, a row each; None if none lie along an axis that is the group's alone."""
    parts = [
        value.movedim(axis, 0).flatten(1) if value.dim() > 1 else value[:, None]
        for name, value in state.items()
        for axis, acts in enumerate(spec.axes.get(name, ()))
        if acts == group
    ]
    return torch.cat(parts, dim=1) if parts else None


class _Across:
    """A network's loss and its tangent across mirrors, batch by batch, in double precision."""

    def __init__(self, models: Models, training: SGD, steps: int, seed: int) -> None:
        with foreign(f"copying {models.name}"):
            self.module = copy.deepcopy(models.module).double()
        self.state = dict(State(models.states[0].stored, torch.float64))
        trained = dict(self.module.named_parameters())
        self.own = {name: value for name, value in self.state.items() if name in trained}
        self.models, self.training, self.steps, self.seed = models, training, steps, seed

    def table(self, rows: Sequence[Found], drawn_to: str, shown: Any) -> pd.DataFrame:
        """What is known of mirrors, a row each, and the exponents across them."""
        found = []
        for mirror, known in rows:
            curvature, exponent, error = self.exponent(mirror)
            steps = math.log(2) / abs(exponent) if exponent else math.inf
            across = {"curvature": curvature, "exponent": exponent, "error": error}
            found.append(known | across | {drawn_to: exponent < 0, "steps": steps})
            shown.update()
        return pd.DataFrame(found)

    def exponent(self, mirror: Mirror) -> tuple[float, float, float]:
        """Curvature in the direction that grows fastest, the exponent at the mirror's nearest point, and its error."""
        on, training = mirror.on(self.state), self.training
        anywhere = mirror.off(random_state(self.own, torch_generator("mirrors", self.seed)))
        turned = [name for name, value in anywhere.items() if value.any()]
        v, anywhere = ({name: of[name] for name in turned} for of in (mirror.off(self.own), anywhere))
        v = unit(v if norm(v) > 0 else anywhere)
        grown: list[float] = []
        curvatures: list[float] = []
        drawn = torch_generator("mirrors", "batches", self.seed)
        first = torch.randperm(len(self._targets), generator=drawn)[: max(training.batch, LANCZOS_SAMPLES)]
        v = self._least_curved(on, v, first, mirror)
        velocity = {name: torch.zeros_like(value) for name, value in v.items()}
        speed = {name: torch.zeros_like(value) for name, value in self.own.items()}
        for _ in range(self.steps):
            rows = torch.randperm(len(self._targets), generator=drawn)[: training.batch]
            gradient, pull = self._pull(on, v, rows)
            curvatures.append(float(inner(v, pull)))
            velocity = {name: training.momentum * velocity[name] + pull[name] for name in v}
            v = {name: v[name] - training.lr * velocity[name] for name in v}
            # The network trains on, on the mirror: what its fluctuations and its curvature have to do with each other
            # is as large as what the batches' noise adds to the exponent.
            speed = {name: training.momentum * speed[name] + gradient[name] for name in speed}
            on = mirror.on({**on, **{name: on[name] - training.lr * speed[name] for name in speed}})
            # At the mirror the Hessian leads from across it to across it; what rounding adds within is taken off.
            length = norm(v := mirror.off(v))
            if not math.isfinite(length) and grown:
                fixed = " (its batch norms' statistics stay fixed here)" if batch_norms(self.models.module) else ""
                raise UserError(f"Training of {self.models.name}{fixed} diverges at {training}; give a lower rate.")
            if math.isnan(length):
                return math.nan, math.nan, math.nan
            if not length > 0:
                return float(np.mean(_late(curvatures))), -math.inf, math.nan
            grown.append(math.log(length))
            v, velocity = ({name: each / length for name, each in state.items()} for state in (v, velocity))
            if is_known(grown):
                break
        self._check_learned(mirror.on(self.state), on, first)
        mean, error = mean_growth(grown)
        return float(np.mean(_late(curvatures))), mean if abs(mean) > ROUNDING else 0.0, error

    def _check_learned(self, first: dict[str, Tensor], last: dict[str, Tensor], rows: Tensor) -> None:
        """Check that a network on a mirror that was better than a constant is so after it has trained on."""
        models, rows = self.models, rows.to(self._targets.device)
        x, states = in_precision(models.inputs()[rows], torch.float64), {"before": first, "after": last}
        with foreign("computing the loss"):
            scored = scores(self.module, states, x, self._targets[rows], models.task, {})
        before, after, constant = scored.set_index("network").loc[["before", "after", CONSTANT], "loss"]
        if before < constant and not after < constant:
            raise UserError(
                f"Training of {models.name} at {self.training} undoes what it has learned: its loss goes from "
                f"{before:.3g} to {after:.3g}, that of a constant is {constant:.3g}; give a lower rate."
            )

    def _least_curved(
        self, on: dict[str, Tensor], v: dict[str, Tensor], rows: Tensor, mirror: Mirror
    ) -> dict[str, Tensor]:
        """The direction of least curvature across the mirror by Lanczos' method, from which exponents settle soon."""
        basis, T = [v], np.zeros((LANCZOS, LANCZOS))
        for step in range(LANCZOS):
            w = mirror.off(self._pull(on, basis[-1], rows)[1])
            for place, each in enumerate(basis):
                T[place, step] = T[step, place] = float(inner(w, each))
                w = {name: w[name] - T[place, step] * each[name] for name in w}
            if not norm(w) > 1e-8 * abs(T).max() or step == LANCZOS - 1:
                break
            basis.append(unit(w))
        if not np.isfinite(T).all():
            return v
        _, vectors = np.linalg.eigh(T[: len(basis), : len(basis)])
        return unit({name: sum(c * each[name] for c, each in zip(vectors[:, 0], basis, strict=True)) for name in v})

    @property
    def _targets(self) -> Tensor:
        assert self.models.y is not None, "checked by mirrors"
        return self.models.y

    def _pull(
        self, on: dict[str, Tensor], v: dict[str, Tensor], rows: Tensor
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Of a batch's loss with decay: the gradient, and the Hessian's product with v across the mirror."""
        rest = {name: value for name, value in on.items() if name not in self.own}
        at = {name: on[name] for name in self.own}
        gradient, product = ({name: self.training.weight_decay * of[name] for name in of} for of in (at, v))
        for part in rows.to(self._targets.device).split(max(self.training.batch, FEWEST_AT_ONCE)):

            def loss(at: dict[str, Tensor], part: Tensor = part) -> Tensor:
                x = in_precision(self.models.inputs()[part], torch.float64)
                given, task = call(self.module, {**rest, **at}, x), self.models.task
                return losses(given if callable(task) else prediction(given), self._targets[part], task).mean()

            with foreign("differentiating the loss twice"):
                slope, bent = slopes(loss, at, v)
            share = len(part) / len(rows)
            gradient = {name: each + share * slope[name] for name, each in gradient.items()}
            product = {name: each + share * bent[name] for name, each in product.items()}
        return gradient, product


def is_known(grown: Sequence[float]) -> bool:
    """Whether an exponent is known to ``KNOWN`` of it by so many steps, of which no more are needed then."""
    if len(grown) < FEWEST_STEPS or len(grown) % LOOK:
        return False
    looks = (mean_growth(seen) for seen in (grown[:-LOOK], grown))
    return all(ERRORS * error < KNOWN * abs(mean) for mean, error in looks)


def mean_growth(grown: Sequence[float]) -> tuple[float, float]:
    """The mean of the late ones of some steps, and its standard error by the means of ``BLOCKS`` blocks."""
    late = np.array(_late(grown))
    if len(late) < BLOCKS:
        return float(late.mean()), math.nan
    means = late[len(late) % BLOCKS :].reshape(BLOCKS, -1).mean(1)
    return float(late.mean()), float(means.std(ddof=1)) / math.sqrt(BLOCKS)


def _late(values: Sequence[float]) -> Sequence[float]:
    """Without the first third, in which the direction that grows fastest is still sought."""
    return values[len(values) // 3 :]
