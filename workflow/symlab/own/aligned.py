"""What aligning one network to another gives: the network, and what lies between both."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from safetensors.torch import save_file
from torch import Tensor
from tqdm import tqdm

from symlab.alignment.matching import Permutations
from symlab.alignment.signs import Signs
from symlab.connectivity.barrier import barriers
from symlab.connectivity.merge import average_network, scores
from symlab.connectivity.norm_statistics import batch_norms
from symlab.connectivity.path import curve
from symlab.errors import UserError
from symlab.own import report
from symlab.own.learning import Learned
from symlab.own.models import Models
from symlab.own.modules import foreign
from symlab.own.network import State
from symlab.own.weights import unshared
from symlab.symmetries.signs import Flip
from symlab.symmetries.symmetry_spec import SymmetrySpec
from symlab.words import counted

# Points of the line that are computed in one pass: a step of the progress bar.
POINTS_AT_ONCE = 5
MOST_POINTS = 10_001


@dataclass(frozen=True, repr=False)
class Aligned:
    """Network B with its neurons in A's order; printed, the summary that ``symlab align`` prints.

    Attributes:
        permutations: by group of neurons, [size] or [*sizes of the groups it lies within, size]: which neuron of B
            stands at each position.
        permuted: B's weights with its neurons in A's order, by B's names and in its types.
        matching: for each group and kind of permutation (match, identity, random) the mean correlation of the
            activations of neurons that it puts together; NaN without data.
        remarks: sentences: groups left in place or matched by weights and why, what was renamed or left out.
        spec: the groups, and which axes they act on.
        method: "activation" or "weight", by which neurons were compared.
        models: both networks and the data, as they were read.
        flips: the ways in which signs of neurons are free, if the ``group`` was "signed".
        signs: by the number of a flip those by which B's neurons were multiplied when they stood in A's order.
        reference: with the ``group`` "orthogonal" or "full" A as it is to be averaged with ``permuted``: the same
            function, gains folded and sides of equal size; by A's names and in A's types.
        transforms: with those, by number and group of neurons the matrices that map B's, when they stand in A's order.
        learned: if alignment was learned what descent gained, and what it gained with an untrained network.
    """

    permutations: Permutations
    permuted: dict[str, Tensor]
    matching: pd.DataFrame
    remarks: tuple[str, ...]
    spec: SymmetrySpec
    method: str
    models: Models
    flips: tuple[Flip, ...] = ()
    signs: Signs = field(default_factory=dict)
    reference: dict[str, Tensor] | None = None
    transforms: dict[str, np.ndarray] = field(default_factory=dict)
    learned: Learned | None = None

    @cached_property
    def start(self) -> State:
        """A as it is averaged with B renumbered, by the module's names."""
        return self.models.states[0] if self.reference is None else self.models.network.state(self.reference)

    @cached_property
    def aligned(self) -> State:
        """B, renumbered, by the module's names."""
        return self.models.network.state(self.permuted)

    def interpolate(self, lam: float, *, repair: bool = False) -> dict[str, Tensor]:
        """The network at (1 - lam) A + lam B, B renumbered; its batch norm statistics are estimated anew on the data.

        Args:
            lam: 0 gives A and 1 gives B, as they are.
            repair: rescale the channels of layers with a bias to their mean statistics (Jordan et al. 2023).

        Returns:
            Its weights by A's names and in A's types.

        Raises:
            UserError: it has batch norms, or REPAIR is asked for, and there are no data.
        """
        A, ends = self.models.files[0].tensors, [self.start, self.aligned]
        if lam in (0, 1):
            return self.models.network.as_given(ends[int(lam)], A)
        return self.models.network.as_given(
            average_network(self.models.module, ends, self.models.x, [1 - lam, lam], repair), A
        )

    def curve(self, points: int = 25, *, repair: bool = False) -> pd.DataFrame:
        """Loss and accuracy on the line from A to B as it is (``aligned`` False) and renumbered (True).

        Args:
            points: on each line, odd, so that the middle is one.
            repair: rescale activations along both lines to the statistics of their ends.

        Returns:
            One row a point: ``aligned``, ``lambda`` (0 at A), ``loss``, ``accuracy`` (a fraction; NaN without labels).

        Raises:
            UserError: there are no targets, or ``points`` is even or below 3.
        """
        if not 3 <= points <= MOST_POINTS or points % 2 == 0:
            raise UserError(
                f"points is {points}; it must be an odd number from 3 to {MOST_POINTS}, so that the middle is on the "
                "line."
            )
        models = self.models
        if models.scored is None:
            raise UserError("a curve needs targets: give data as (x, y).")
        x, y = models.scored
        lambdas = np.linspace(0, 1, points).tolist()
        parts = [lambdas[start : start + POINTS_AT_ONCE] for start in range(0, len(lambdas), POINTS_AT_ONCE)]
        ends = {False: (models.states[0], models.states[1]), True: (self.start, self.aligned)}
        tables = []
        steps = [(aligned, part) for aligned in ends for part in parts]
        for aligned, part in tqdm(steps, desc="walking from A to B", leave=False, disable=None):
            with foreign("computing the network on the line from A to B"):
                table = curve(
                    models.module, *ends[aligned], part, x, y, models.task, models.rows, models.x, repair=repair
                )
            tables.append(table.assign(aligned=aligned))
        return pd.concat(tables, ignore_index=True)[["aligned", "lambda", "loss", "accuracy"]]

    def barrier(self, points: int = 25, *, repair: bool = False) -> pd.DataFrame:
        """Barriers on both lines, by ``aligned``, as ``symlab.connectivity.barrier.barriers`` describes them."""
        return barriers(self.curve(points, repair=repair), ["aligned"])

    @cached_property
    def scores(self) -> pd.DataFrame | None:
        """Loss and accuracy of A, B, the midpoints, the ensemble and a constant; None without targets."""
        models = self.models
        if models.scored is None:
            return None
        A, B = models.files
        networks: dict[str, Mapping[str, Tensor]] = dict(zip((str(A.path), str(B.path)), models.states, strict=True))
        with foreign("computing the networks between A and B"):
            for name, ends in ((report.PLAIN, models.states), (report.ALIGNED, (self.start, self.aligned))):
                mean = average_network(models.module, ends, models.x)
                networks[name] = models.network.state(models.network.as_given(mean, A.tensors))
        given = [str(A.path), str(B.path)]
        ensemble = {"ensemble": dict.fromkeys(given, 1.0)}
        return scores(models.module, networks, *models.scored, models.task, ensemble, models.rows, given)

    def save(self, path: str | Path) -> None:
        """Write B's renumbered weights to a safetensors file."""
        save_file(unshared(self.permuted), path, metadata=self.models.files[1].metadata or None)

    def summary(self, barriers: pd.DataFrame | None = None, repair: bool = False) -> str:
        """What was matched, what it is worth, and what to do next, as plain text for a terminal.

        Args:
            barriers: as ``barrier`` gives them, if they were measured.
            repair: whether activations were rescaled along the lines.
        """
        models, samples = self.models, report.scored_samples(self.models)
        A, B = report.short_names(models.files)
        groups = counted(len(self.spec.free), "groups")
        parts = [
            f"{B} aligned to {A} ({models.name}): {groups} of neurons, matched by {self.method}s.",
            report.coverage(models.module, self.spec),
            *report.not_understood(self.spec.unsupported),
            report.matching_table(self.matching, self.spec, self.method, self.reference is not None),
            *self.remarks,
        ]
        if models.x is not None:
            parts.append("The permuted network computes what B does (checked on the data).")
        has_batch_norms = bool(batch_norms(models.module))
        parts += [] if barriers is None else [report.barriers_table(barriers, samples, repair, has_batch_norms)]
        parts += report.judged(self.scores, report.ALIGNED, 2, samples)
        parts += [] if self.learned is None else [str(self.learned)]
        reference = models.files[0].tensors if self.reference is None else self.reference
        if any(not torch.equal(reference[name], tensor) for name, tensor in models.files[0].tensors.items()):
            parts.append(
                "A changes too, in its weights and not in its function: its reference is what to average B with."
            )
        option = "" if self.reference is None else ", with the same group"
        parts.append(
            f"To average them: symlab merge A B, symlab.merge(module, [A, B], data){option}, or .interpolate(0.5) of "
            "this."
        )
        return "\n\n".join(parts)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"Aligned({self.models.name}, {len(self.permutations)} groups, method={self.method!r})"
