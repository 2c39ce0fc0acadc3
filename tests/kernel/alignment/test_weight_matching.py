import math
from dataclasses import replace
from itertools import pairwise, permutations, product
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from symlab.alignment import similarities
from symlab.alignment import weight_matching as weights
from symlab.alignment.matching import compose, joint, match, match_all
from symlab.alignment.permute import check_alignment, permute
from symlab.alignment.weight_matching import STATISTICS, weight_matching
from symlab.errors import UserError
from symlab.networks import MLP, VGG, ResNet20, ViT, build
from symlab.symmetries.symmetry_spec import Group, Product, SymmetrySpec, identity, random_permutations, shape
from symlab.symmetries.trace import trace

# Specs written by hand, so that these tests do not rest on the tracer.
PERCEPTRON = SymmetrySpec(
    {
        "0.weight": ("a", None),
        "0.bias": ("a",),
        "1.weight": ("a",),
        "1.bias": ("a",),
        "1.running_mean": ("a",),
        "1.running_var": ("a",),
        "1.num_batches_tracked": (),
        "2.weight": ("b", "a"),
        "2.bias": ("b",),
        "4.weight": (None, "b"),
        "4.bias": (None,),
    },
    {"a": Group(4), "b": Group(3)},
)
ATTENTION = SymmetrySpec(
    {
        "query": (Product(("h", "qk")), "s"),
        "key": (Product(("h", "qk")), "s"),
        "value": (Product(("h", "v")), "s"),
        "output": ("s", Product(("h", "v"))),
        "embedding": (None, "s"),
    },
    {"s": Group(4), "h": Group(2), "qk": Group(2, ("h",)), "v": Group(3, ("h",))},
)
GROUPED = SymmetrySpec(
    {
        "0.weight": (Product(("g", "i")), None, None, None),
        "0.bias": (Product(("g", "i")),),
        "2.weight": (Product(("g", "o")), "i", None, None),
        "2.bias": (Product(("g", "o")),),
        "5.weight": (None, Product(("g", "o"))),
        "5.bias": (None,),
    },
    {"g": Group(3), "i": Group(2, ("g",)), "o": Group(3, ("g",))},
)
TWO_AXES = SymmetrySpec({"C": ("a", "a"), "W": ("a", None)}, {"a": Group(6)})
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


def random_state(spec, seed, like=None):
    generator = torch.Generator().manual_seed(seed)
    if like is not None:
        shapes = {name: tensor.shape for name, tensor in like.items()}
    else:
        sizes = {name: group.size for name, group in spec.groups.items()} | {None: 5}
        shapes = {
            name: tuple(
                int(np.prod([sizes[part] for part in axis.parts])) if isinstance(axis, Product) else sizes[axis]
                for axis in axes
            )
            for name, axes in spec.axes.items()
        }
    return {
        name: torch.randn(shape, generator=generator)
        if not name.endswith(("running_var", "tracked"))
        else torch.ones(shape)
        for name, shape in shapes.items()
    }


def inner(A, B, leave_out=("running_mean", "running_var", "num_batches_tracked")):
    return sum(
        float((A[name].double() * B[name].double()).sum()) for name in A if name.rpartition(".")[2] not in leave_out
    )


def norm(A):
    return inner(A, A) ** 0.5


def choices(spec, names):
    """All permutations of some groups; the others are missing."""
    single = []
    for name in names:
        rows = int(np.prod(shape(name, spec.groups)[:-1]))
        every = product(permutations(range(spec.groups[name].size)), repeat=rows)
        single.append([np.array(choice).reshape(shape(name, spec.groups)) for choice in every])
    for choice in product(*single):
        yield dict(zip(names, choice, strict=True))


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
        best = max(inner(A, permute(aligned, spec, identity(spec) | chosen)) for chosen in choices(spec, names))
        assert inner(A, aligned) == pytest.approx(best)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(spec=st.sampled_from([PERCEPTRON, ATTENTION, GROUPED, TWO_AXES]), seed=st.integers(0, 1000))
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


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    spec=st.sampled_from([PERCEPTRON, ATTENTION, GROUPED, TWO_AXES]),
    seed=st.integers(0, 1000),
    large=st.sampled_from([(torch.float64, 1e-12), (torch.float32, 1e-7)]),
)
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


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    spec=st.sampled_from([PERCEPTRON, ATTENTION, GROUPED, TWO_AXES]),
    seed=st.integers(0, 1000),
    large=st.sampled_from([(torch.float64, 1e-12), (torch.float32, 1e-7)]),
)
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


@settings(deadline=None, derandomize=True, max_examples=25)
@given(spec=st.sampled_from([PERCEPTRON, ATTENTION, GROUPED, TWO_AXES]), seed=st.integers(0, 1000))
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
        every = (found.permutations | chosen for chosen in choices(spec, names))
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


def test_a_group_on_two_axes_is_recovered():
    for seed in range(10):
        A = random_state(TWO_AXES, seed)
        B = permute(A, TWO_AXES, random_permutations(TWO_AXES, np.random.default_rng(seed)))
        found = weight_matching(TWO_AXES, A, B, np.random.default_rng(seed), restarts=5)
        assert found.similarity == pytest.approx(1.0)


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


def anchored(spec, A, B, from_outputs, roots=None):
    """The anchored start, of some roots or all."""
    kept = [name for name in A if name.rpartition(".")[2] not in STATISTICS]
    A, B = ({name: state[name] for name in kept} for state in (A, B))
    every = [root for root, group in spec.groups.items() if not group.within]
    steps = [step for root in roots or every for step in weights._steps(root, spec, A)]
    return weights._anchored(spec, A, B, steps, 1.0, from_outputs)


@pytest.mark.parametrize("louder", ["0.weight", "4.weight"])
@pytest.mark.parametrize("seed", range(3))
def test_an_anchored_start_matches_first_what_gains_most_and_by_what_is_in_order_already(seed, louder):
    A, B = random_state(PERCEPTRON, seed), random_state(PERCEPTRON, seed + 100)
    A[louder] = 100 * A[louder]

    def S(names, a=slice(None), b=slice(None), transposed=()):
        """Inner products of neurons in some tensors of A and of B, whose layers a and b are in an order."""
        ordered = dict(B) | {"2.weight": B["2.weight"][b][:, a], "4.weight": B["4.weight"][:, b]}
        pairs = [(A[name], ordered[name]) for name in names] + [(A[name].T, ordered[name].T) for name in transposed]
        return sum(p.double().reshape(len(p), -1) @ q.double().reshape(len(q), -1).T for p, q in pairs).numpy()

    of_a, of_b = ["0.weight", "0.bias", "1.weight", "1.bias"], ["2.bias"]
    first = match(S(of_a))
    inputs_first = {"a": first, "b": match(S([*of_b, "2.weight"], a=first, transposed=["4.weight"]))}
    last = match(S(of_b, transposed=["4.weight"]))
    outputs_first = {"a": match(S(of_a, b=last, transposed=["2.weight"])), "b": last}
    by_gain = inputs_first if louder == "0.weight" else outputs_first
    for from_outputs, expected in ((False, by_gain), (True, outputs_first)):
        found = anchored(PERCEPTRON, A, B, from_outputs)
        assert {name: [*pi] for name, pi in found.items()} == {name: [*pi] for name, pi in expected.items()}
    # The other layer stays, and is in order, if it is not to be matched.
    only_b = anchored(PERCEPTRON, A, B, False, ["b"])
    assert [*only_b["a"]] == [*range(4)]
    assert [*only_b["b"]] == [*match(S([*of_b, "2.weight"], transposed=["4.weight"]))]


def test_a_root_is_tried_again_once_its_neighbours_are_in_order():
    """Of three layers the outer ones are matched first, then the middle one by both."""
    axes = {"0": ("a", None), "1": ("b", "a"), "2": ("c", "b"), "3": (None, "c")}
    spec = SymmetrySpec(axes, {name: Group(5) for name in "abc"})
    A, B = random_state(spec, 0), random_state(spec, 1)
    A = {name: tensor * {"0": 100, "1": 0.1, "2": 0.1, "3": 10}[name] for name, tensor in A.items()}
    a, c = (match((p.double() @ q.double().T).numpy()) for p, q in ((A["0"], B["0"]), (A["3"].T, B["3"].T)))
    both = A["1"].double() @ B["1"][:, a].double().T + A["2"].T.double() @ B["2"][c].double()
    found = anchored(spec, A, B, False)
    expected = {"a": a, "b": match(both.numpy()), "c": c}
    assert {name: [*pi] for name, pi in found.items()} == {name: [*pi] for name, pi in expected.items()}


@pytest.mark.parametrize("from_outputs", [False, True])
@pytest.mark.parametrize(
    "spec", [PERCEPTRON, ATTENTION, GROUPED, TWO_AXES], ids=["mlp", "heads", "grouped", "two axes"]
)
def test_an_anchored_start_is_a_planted_permutation(spec, from_outputs):
    for seed in range(10):
        A = random_state(spec, seed)
        B = permute(A, spec, random_permutations(spec, np.random.default_rng(seed)))
        aligned = permute(B, spec, anchored(spec, A, B, from_outputs))
        assert all(torch.equal(aligned[name], tensor) for name, tensor in A.items())


def test_a_group_within_a_root_is_anchored_by_another_in_it():
    """A grouped convolution's outputs are told by their weights alone, once its inputs are in order."""
    A = random_state(GROUPED, 0)
    A |= {name: torch.zeros_like(A[name]) for name in ("2.bias", "5.weight")}
    B = permute(A, GROUPED, random_permutations(GROUPED, np.random.default_rng(1)))
    aligned = permute(B, GROUPED, anchored(GROUPED, A, B, False))
    assert all(torch.equal(aligned[name], tensor) for name, tensor in A.items())


def test_anchored_starts_exceed_the_descent_from_the_identity_on_random_networks():
    groups = {name: Group(256) for name in "abc"}
    sizes = [784, 256, 256, 256, 10]
    axes = {}
    for layer, (before, after) in enumerate(pairwise([None, *groups, None])):
        axes |= {f"{layer}.weight": (after, before), f"{layer}.bias": (after,)}
    for seed in (0, 2):
        states = []
        for each in (seed, seed + 1):
            torch.manual_seed(each)
            states.append(nn.Sequential(*(nn.Linear(n, m) for n, m in pairwise(sizes))).state_dict())
        plain, found = (
            weight_matching(SymmetrySpec(axes, groups), *states, np.random.default_rng(seed), restarts).similarity
            for restarts in (1, 3)
        )
        assert found > 1.05 * plain


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
        found = weight_matching(spec, A, B, np.random.default_rng(0), restarts=4)
    assert len(descended) == 4
    for start_and_end in descended:
        for each in start_and_end:
            check_alignment(nets[1], B, permute(B, spec, each), x)
    assert found.similarity == max(history[-1] for history in found.histories)
    # Anchored by the inputs, the network starts above those that are not anchored: its own order and a random one.
    at_start = [history[0] for history in found.histories]
    assert at_start[1] > max(at_start[0], at_start[3])


def test_a_random_start_follows_where_an_anchored_one_is_known_already():
    spec = SymmetrySpec({"0.weight": ("a", None), "1.weight": (None, "a")}, {"a": Group(7)})
    A, B = random_state(spec, 0), random_state(spec, 1)
    assert np.array_equal(*(anchored(spec, A, B, from_outputs)["a"] for from_outputs in (False, True)))
    found = weight_matching(spec, A, B, np.random.default_rng(0), restarts=3)
    identity_at, anchored_at, random_at = (history[0] for history in found.histories)
    assert anchored_at > max(identity_at, random_at) and anchored_at == pytest.approx(found.similarity)
