"""Alignment learned from labels, with the control that says what it is worth: the same with an untrained network."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn

from symlab.alignment.averaging import average, in_type
from symlab.alignment.rotations import Mapped, foldable
from symlab.connectivity.learning import learned_maps, moved
from symlab.connectivity.merge import scores
from symlab.connectivity.norm_statistics import batch_norms
from symlab.errors import UserError
from symlab.own.maps import Maps
from symlab.own.models import Models, copied
from symlab.own.modules import bare, is_of_transformers, load_module
from symlab.own.network import State
from symlab.seeds import stable_seed

UNTRAINED = "the untrained network"
CLOSED_FORM, LEARNED, CONTROL = "closed form", "learned", "learned, untrained B"
# Of the samples the share that descent does not see, by which it is scored if there are no test data.
HELD_OUT = 0.2
# Of what descent gains on the closed form: what an untrained B may reach of it before the gain says little about B.
SAYS_LITTLE = 0.5


@dataclass(frozen=True)
class Learned:
    """What descent over the maps gave, and what it gave with an untrained network in B's place.

    Attributes:
        scores: rows "closed form" and "learned" of the midpoint with B, and "learned, untrained B" of the midpoint
            with that, on samples that descent did not see; as ``symlab.connectivity.merge.scores`` gives them.
        samples: how many these are: the test data, or a fifth of the data.
        control: the untrained network in A's bases, by the module's names.
    """

    scores: pd.DataFrame
    samples: int
    control: State

    def __str__(self) -> str:
        by = self.scores.set_index("network")
        accurate = bool(by.loc[[CLOSED_FORM, LEARNED, CONTROL], "accuracy"].notna().all())
        what, sign = ("accuracy", 1) if accurate else ("loss", -1)
        closed, learned, control = (float(by.loc[row, what]) for row in (CLOSED_FORM, LEARNED, CONTROL))
        of_all, of_control = sign * (learned - closed), sign * (control - closed)
        if of_all <= 0:
            judged = "descent gains nothing on the closed form"
        elif of_control > SAYS_LITTLE * of_all:
            judged = "what is gained says little about B"
        else:
            judged = f"an untrained B reaches {max(0, 100 * of_control / of_all):.0f} % of what is gained"

        def shown(value: float) -> str:
            return f"{100 * value:.1f} %" if accurate else f"a {what} of {value:.4f}"

        error = float(by.loc[[CLOSED_FORM, LEARNED, CONTROL], f"{what}_error"].max())
        return (
            f"On {self.samples:,} samples that descent did not see, learned alignment reaches {shown(learned)} at the "
            f"midpoint, the closed form {shown(closed)}; with an untrained B learned alignment reaches "
            f"{shown(control)}: {judged} (standard errors up to "
            f"{f'{100 * error:.1f} points' if accurate else f'{error:.4f}'})."
        )


def check_learning(models: Models, maps: Maps, untrained: State) -> None:
    """Check that there are maps, targets and a loss that descent can use.

    Raises:
        UserError: there are not.
    """
    if models.y is None:
        raise UserError("learning an alignment needs targets: give data as (x, y).")
    if not maps.actions:
        raise UserError(
            f"no maps but renumbering (and signs) are free in {models.name}, and descent has nothing to move: align it "
            "without learning."
        )
    if batch_norms(models.module):
        raise UserError(
            f"{models.name} has batch norms, whose statistics at the midpoint change with every map: align it without "
            "learning."
        )
    if not all(foldable(untrained, action) for action in maps.actions):
        raise UserError("gains of the untrained network are next to 0, so they cannot be folded: give another one.")


def learn(
    models: Models,
    maps: Maps,
    reference: State | dict[str, Tensor],
    aligned: Sequence[Mapped],
    steps: int,
    seed: int,
) -> tuple[Mapped, Learned]:
    """Descent from closed forms, of B and of an untrained network.

    Args:
        reference: A as ``maps.prepared`` gives it.
        aligned: both in its bases.
    """
    x, y, dtype, names = models.inputs(), models.y, models.network.dtype, models.network.names
    assert y is not None
    held = models.test
    if held is None:
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
        seen, rest = order.tensor_split([len(x) - max(1, int(HELD_OUT * len(x)))])
        held, x, y = (x[rest], y[rest]), x[seen], y[seen]
    A = in_type(reference, dtype)

    def descended(mapped: Mapped) -> Mapped:
        B = in_type(mapped.state, dtype)
        given = (A, B, maps.actions, x, y, models.task, steps, maps.scales, seed)
        found = learned_maps(models.module, names, *given)
        composed = {n: M @ mapped.maps[n] if n in mapped.maps else M for n, M in found.items()}
        return replace(mapped, state=moved(mapped.state, maps.actions, found), maps=mapped.maps | composed)

    learned, control = map(descended, aligned)

    def midpoint(mapped: Mapped) -> State:
        mean = average([A, in_type(mapped.state, dtype)])
        return State({name: mean[name] for name in names}, dtype)

    midpoints = {CLOSED_FORM: midpoint(aligned[0]), LEARNED: midpoint(learned), CONTROL: midpoint(control)}
    table = scores(models.module, midpoints, *held, models.task, {}, models.rows)
    return learned, Learned(table, len(held[0]), State({name: control.state[name] for name in names}, dtype))


def untrained_weights(module: nn.Module | str, folder: str | Path | None = None, seed: int = 0) -> dict[str, Tensor]:
    """The weights of a network that was never trained.

    Args:
        module: the network, or ``pkg.module:function``, which builds it with fresh weights.
        folder: where the config.json of a class of transformers lies.

    Raises:
        UserError: weights of the module cannot be drawn anew.
    """
    with torch.random.fork_rng(devices=[]):
        # Not the seed itself: networks that started from it would be compared with their own start.
        torch.manual_seed(stable_seed("align", seed, "untrained"))
        if isinstance(module, str):
            return bare(load_module(module, folder)).state_dict()
        fresh: Any = copied(bare(module))
        if is_of_transformers(fresh):
            return type(fresh)(fresh.config).state_dict()
        drawn: set[int] = set()
        for part in fresh.modules():
            reset = getattr(part, "reset_parameters", None) or getattr(part, "_reset_parameters", None)
            if reset is not None:
                reset()
                drawn |= {id(parameter) for parameter in part.parameters(recurse=False)}
        kept = [name for name, parameter in fresh.named_parameters() if id(parameter) not in drawn]
        if kept:
            raise UserError(
                f"an untrained network is needed as a control, and nothing draws {kept[0]} anew (no reset_parameters): "
                "give one as untrained."
            )
        return fresh.state_dict()
