import math
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from symlab.alignment import similarities
from symlab.alignment import weight_matching as weights
from symlab.alignment.matching import compose, joint, match, match_all
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.weight_matching import STATISTICS, weight_matching
from symlab.errors import UserError
from symlab.networks import MLP, VGG, ResNet20, ViT, build
from symlab.symmetries.symmetry_spec import identity, random_permutations, shape
from symlab.symmetries.trace import trace

from .specs import ANY, ATTENTION, GROUPED, PERCEPTRON, TWO_AXES, choices, inner, norm, random_state

MODULES = {
    "perceptron": (
        PERCEPTRON,
        lambda: nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2)),
    ),
    "grouped": (
        GROUPED,
        lambda: nn.Sequential(
            nn.Conv2d(2, 6, 2), nn.ReLU(), nn.Conv2d(6, 9, 1, groups=3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)
        ),
    ),
}
INPUTS = {"perceptron": (20, 5), "grouped": (20, 2, 2, 2)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("spec", "steps"),
    [(PERCEPTRON, [["a"], ["b"]]), (ATTENTION, [["s"], ["h", "qk", "v"]]), (GROUPED, [["g", "i"], ["g", "o"]])],
    ids=["perceptron", "attention", "grouped"],
)
def test_no_step_can_improve_what_is_found(spec, steps, seed):
    A, B = random_state(spec, seed), random_state(spec, seed + 100)
    found = weight_matching(spec, A, B, np.random.default_rng(seed))
    aligned = permute(B, spec, found.permutations)
    assert found.similarity == pytest.approx(inner(A, aligned) / (norm(A) * norm(B)))
    for names in steps:
        best = max(inner(A, permute(aligned, spec, identity(spec) | chosen)) for chosen in choices(spec.groups, names))
        assert inner(A, aligned) == pytest.approx(best)


@given(**ANY)
def test_every_step_gains_and_the_best_restart_wins(spec, seed):
    A, B = random_state(spec, seed), random_state(spec, seed + 1)
    found = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=4)
    assert len(found.histories) == 4
    for history in found.histories:
        assert all(later > earlier for earlier, later in pairwise(history))
    assert found.similarity == max(history[-1] for history in found.histories)
    assert found.histories[0][0] == pytest.approx(inner(A, B) / (norm(A) * norm(B)))
    aligned = permute(B, spec, found.permutations)
    assert found.similarity == pytest.approx(inner(A, aligned) / (norm(A) * norm(B)))
    again = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=4)
    assert all(np.array_equal(pi, again.permutations[name]) for name, pi in found.permutations.items())


def test_a_step_on_two_axes_of_one_tensor_may_lower_the_sum_and_is_refused():
    lowered = 0
    for seed in range(20):
        A, B = random_state(TWO_AXES, seed), random_state(TWO_AXES, seed + 100)
        found = weight_matching(TWO_AXES, A, B, np.random.default_rng(seed))
        assert found.similarity >= found.histories[0][0]
        B = permute(B, TWO_AXES, found.permutations)
        pairs = ((A["C"], B["C"]), (A["C"].T, B["C"].T), (A["W"], B["W"]))
        S = sum(a.double() @ b.double().T for a, b in pairs)
        lowered += inner(A, permute(B, TWO_AXES, {"a": match(S.numpy())})) < inner(A, B) - 1e-6
    assert lowered > 0, "no step that had to be refused was seen"


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("seed", range(5))
def test_planted_permutations_of_modules_are_recovered(name, seed):
    spec, build = MODULES[name]
    module = build()
    A = random_state(spec, seed, module.state_dict())
    B = permute(A, spec, random_permutations(spec, np.random.default_rng(seed)))
    check_alignment(module, A, B, torch.randn(INPUTS[name], generator=torch.Generator().manual_seed(seed)))
    found = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=5)
    aligned = permute(B, spec, found.permutations)
    assert all(torch.equal(aligned[entry], tensor) for entry, tensor in A.items())
    assert found.similarity == pytest.approx(1.0)


@given(**ANY, large=st.sampled_from([(torch.float64, 1e-12), (torch.float32, 1e-7)]))
def test_similarities_of_large_steps_lead_where_those_computed_anew_do(spec, seed, large):
    dtype, error = large
    A, B = (
        {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in state.items()}
        for state in (random_state(spec, seed), random_state(spec, seed + 1))
    )
    with patch.object(similarities, "LARGE", 0):
        kept = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=3)
    anew = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=3)
    assert all(np.array_equal(pi, anew.permutations[name]) for name, pi in kept.permutations.items())
    assert kept.similarity == pytest.approx(anew.similarity, rel=1e-12, abs=1e-12)
    for one, other in zip(kept.histories, anew.histories, strict=True):
        assert one == pytest.approx(other, rel=0, abs=error)


@given(**ANY, large=st.sampled_from([(torch.float64, 1e-12), (torch.float32, 1e-7)]))
def test_a_large_step_gains_what_renumbering_the_weights_gains(spec, seed, large):
    dtype, error = large
    states = [random_state(spec, each) for each in (seed, seed + 1)]
    spec = replace(spec, axes={name: axes for name, axes in spec.axes.items() if name.split(".")[-1] not in STATISTICS})
    A, B = ({name: state[name].to(dtype) for name in spec.axes} for state in states)
    before = {name: tensor.clone() for name, tensor in B.items()}
    gain, gained = similarities.Similarities.gain, []

    def told_and_computed(self, index, moved, found, update):
        told = gain(self, index, moved, found, update)
        after = permute(moved, spec, identity(spec) | {name: update[name] for name in self.steps[index].active})
        gained.append((told, inner(A, after) - inner(A, moved)))
        return told

    with patch.object(similarities, "LARGE", 0), patch.object(similarities.Similarities, "gain", told_and_computed):
        weight_matching(spec, A, B, np.random.default_rng(seed), restarts=3)
    assert gained
    for told, computed in gained:
        assert told == pytest.approx(computed, rel=0, abs=error * norm(A) * norm(B))
    assert all(torch.equal(B[name], tensor) for name, tensor in before.items())


def every_step_anew(spec, A, B, rng):
    """The coordinate descent without anything left out: every step in every pass, from all tensors in float64."""
    A, B = ({name: tensor.double() for name, tensor in state.items() if "running" not in name} for state in (A, B))
    spec = replace(spec, axes={name: spec.axes[name] for name in A})
    steps = [step for root in spec.groups if not spec.groups[root].within for step in weights._steps(root, spec, A)]
    current, gained = identity(spec), True
    while gained:
        gained = False
        for index in rng.permutation(len(steps)):
            moved = permute(B, spec, current)
            scores = similarities.Similarities(spec, A, B, steps, 1.0).of(index, moved, current)
            then = compose(current, match_all(scores, spec.groups), spec.groups)
            if inner(A, permute(B, spec, then)) - inner(A, moved) > weights.SMALLEST_GAIN * norm(A) * norm(B):
                current, gained = then, True
    return current


@given(**ANY)
def test_steps_that_are_left_out_would_have_found_nothing(spec, seed):
    A, B = random_state(spec, seed), random_state(spec, seed + 1)
    found = weight_matching(spec, A, B, np.random.default_rng(seed)).permutations
    expected = every_step_anew(spec, A, B, np.random.default_rng(seed))
    assert all(np.array_equal(pi, expected[name]) for name, pi in found.items())


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("spec", "told", "steps"),
    [(PERCEPTRON, ["a", "b"], [["a"], ["b"]]), (ATTENTION, ["s", "v"], [["s"], ["h", "qk", "v"]])],
    ids=["perceptron", "attention"],
)
def test_no_step_can_improve_what_correlations_and_weights_find_together(spec, told, steps, seed):
    """Half of the neurons correlate with none: weights decide on them, step after step, as other groups move."""
    A, B = random_state(spec, seed), random_state(spec, seed + 100)
    rng = np.random.default_rng(seed)
    correlations = {}
    for group in told:
        d = math.prod(shape(group, spec.groups))
        correlations[group] = rng.uniform(-1, 1, (d, d)) * np.outer(rng.permutation(d) % 2, rng.permutation(d) % 2)

    def worth(permutations):
        in_S = sum(S[range(len(S)), joint(group, permutations, spec.groups)].sum() for group, S in correlations.items())
        return inner(A, permute(B, spec, permutations)) / (norm(A) * norm(B)) + weights.CORRELATION * in_S

    found = weight_matching(spec, A, B, np.random.default_rng(seed), correlations=correlations)
    assert found.similarity - found.histories[0][0] == pytest.approx(worth(found.permutations) - worth(identity(spec)))
    for names in steps:
        every = (found.permutations | chosen for chosen in choices(spec.groups, names))
        assert worth(found.permutations) == pytest.approx(max(map(worth, every)), abs=1e-9)


def test_states_keep_their_types_and_half_precision_is_matched_as_it_is():
    A = {name: tensor.half() for name, tensor in random_state(ATTENTION, 0).items()}
    B = {name: tensor.half() for name, tensor in random_state(ATTENTION, 1).items()}
    in_half = weight_matching(ATTENTION, A, B, np.random.default_rng(0), restarts=2)
    wide = ({name: tensor.double() for name, tensor in state.items()} for state in (A, B))
    in_double = weight_matching(ATTENTION, *wide, np.random.default_rng(0), restarts=2)
    assert in_half.histories == in_double.histories
    assert all(np.array_equal(pi, in_double.permutations[name]) for name, pi in in_half.permutations.items())


def test_no_start_follows_one_that_makes_the_networks_equal():
    A = random_state(PERCEPTRON, 0)
    found = weight_matching(PERCEPTRON, A, A, np.random.default_rng(0), restarts=4)
    assert len(found.histories) == 1 and found.similarity == pytest.approx(1.0)


def test_running_statistics_do_not_count():
    spec, build = MODULES["perceptron"]
    A, B = (random_state(spec, seed, build().state_dict()) for seed in (0, 1))
    without = weight_matching(spec, A, B, np.random.default_rng(0))
    B["1.running_mean"] = 1000 * torch.randn(4)
    assert weight_matching(spec, A, B, np.random.default_rng(0)).similarity == without.similarity


def test_weights_that_are_not_finite_and_specs_that_do_not_fit_are_refused():
    A = random_state(TWO_AXES, 0)
    with pytest.raises(UserError, match="'W' has entries that are not finite"):
        weight_matching(TWO_AXES, A, A | {"W": torch.full((6, 5), torch.nan)}, np.random.default_rng(0))
    with pytest.raises(UserError, match="says nothing of"):
        weight_matching(TWO_AXES, A | {"bias": torch.zeros(6)}, A, np.random.default_rng(0))


@pytest.mark.parametrize(
    "network",
    [
        ResNet20(name="resnet20", channels=1),
        ViT(name="vit", channels=1, patch=2, dim=12, depth=2, heads=3, mlp_ratio=2),
        MLP(name="mlp", widths=[12, 12, 12], residual=True),
        VGG(name="vgg", width=4, depth=8, channels=1),
    ],
    ids=lambda network: network.name,
)
def test_every_start_keeps_the_function_of_a_network(network):
    torch.manual_seed(0)
    n_inputs = 1024 if network.name == "vgg" else 64
    nets = [build(network, n_inputs, 10).eval() for _ in range(2)]
    A, B = (net.state_dict() for net in nets)
    x = torch.randn(4, n_inputs)
    spec = trace(nets[1], x).spec
    descended, one = [], weights._descend

    def descend(spec, A, B, start, *others):
        found, history = one(spec, A, B, start, *others)
        descended.append((start, found))
        return found, history

    with patch.object(weights, "_descend", descend):
        found = weight_matching(spec, A, B, np.random.default_rng(0), restarts=5)
    assert len(descended) == 5
    for start_and_end in descended:
        for each in start_and_end:
            check_alignment(nets[1], B, permute(B, spec, each), x)
    assert found.similarity == max(history[-1] for history in found.histories)
    # What is anchored by gain begins above the network's own order and the random one at the end.
    own, by_gain, *_, random = (history[0] for history in found.histories)
    assert by_gain > max(own, random)
