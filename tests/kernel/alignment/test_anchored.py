from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given
from torch import nn

from symlab.alignment import anchored
from symlab.alignment import weight_matching as weights
from symlab.alignment.matching import match
from symlab.alignment.permute import permute
from symlab.alignment.similarities import Similarities
from symlab.alignment.weight_matching import STATISTICS, weight_matching
from symlab.symmetries.symmetry_spec import Group, SymmetrySpec, random_permutations

from .specs import ANY, ATTENTION, GROUPED, PERCEPTRON, TWO_AXES, inner, norm, random_state


def steps_and_states(spec, A, B, roots=None):
    kept = [name for name in A if name.rpartition(".")[2] not in STATISTICS]
    A, B = ({name: state[name] for name in kept} for state in (A, B))
    every = [root for root, group in spec.groups.items() if not group.within]
    return A, B, [step for root in roots or every for step in weights._steps(root, spec, A)]


def starts(spec, A, B, roots=None):
    """The anchored starts by their order, of some roots or all."""
    found = anchored.anchored_starts(spec, *steps_and_states(spec, A, B, roots), 1.0)
    return dict(zip(anchored.ORDERS, found, strict=True))


def same(one, other):
    return {name: pi.tolist() for name, pi in one.items()} == {name: pi.tolist() for name, pi in other.items()}


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
    expected = {"gain": by_gain, "share": inputs_first, "outputs": outputs_first}
    found = starts(PERCEPTRON, A, B)
    # Of a's weights 20 of 32 are anchored by the inputs, of b's 15 of 27 by the outputs.
    assert all(same(found[order], expected[order]) for order in anchored.ORDERS)
    # Also where the other layer is the first that is named.
    renamed = replace(PERCEPTRON, groups={name: PERCEPTRON.groups[name] for name in ("b", "a")})
    assert same(starts(renamed, A, B)["share"], inputs_first)
    # The other layer stays, and is in order, if it is not to be matched.
    for only_b in starts(PERCEPTRON, A, B, ["b"]).values():
        assert same(only_b, {"a": np.arange(4), "b": match(S([*of_b, "2.weight"], transposed=["4.weight"]))})


def test_a_root_is_tried_again_once_its_neighbours_are_in_order():
    """Of three layers the outer ones are matched first, then the middle one by both."""
    axes = {"0": ("a", None), "1": ("b", "a"), "2": ("c", "b"), "3": (None, "c")}
    spec = SymmetrySpec(axes, {name: Group(5) for name in "abc"})
    A, B = random_state(spec, 0), random_state(spec, 1)
    A = {name: tensor * {"0": 100, "1": 0.1, "2": 0.1, "3": 10}[name] for name, tensor in A.items()}
    a, c = (match((p.double() @ q.double().T).numpy()) for p, q in ((A["0"], B["0"]), (A["3"].T, B["3"].T)))
    both = A["1"].double() @ B["1"][:, a].double().T + A["2"].T.double() @ B["2"][c].double()
    assert same(starts(spec, A, B)["gain"], {"a": a, "b": match(both.numpy()), "c": c})


def test_from_the_outputs_the_last_of_all_roots_that_are_anchored_is_matched_first():
    """Each of three layers reads the inputs too, and the middle one would gain most."""
    axes = {"0": ("a", None), "1": ("b", None), "2": ("c", None), "01": ("b", "a"), "12": ("c", "b")}
    spec = SymmetrySpec(axes, {name: Group(5) for name in "abc"})
    A, B = random_state(spec, 0), random_state(spec, 1)
    A["1"] = 5 * A["1"]
    a = {name: tensor.double() for name, tensor in A.items()}
    b = {name: tensor.double() for name, tensor in B.items()}
    last = match((a["2"] @ b["2"].T).numpy())
    middle = match((a["1"] @ b["1"].T + a["12"].T @ b["12"][last]).numpy())
    first = match((a["0"] @ b["0"].T + a["01"].T @ b["01"][middle]).numpy())
    assert same(starts(spec, A, B)["outputs"], {"a": first, "b": middle, "c": last})


@pytest.mark.parametrize(
    "spec", [PERCEPTRON, ATTENTION, GROUPED, TWO_AXES], ids=["mlp", "heads", "grouped", "two axes"]
)
def test_an_anchored_start_is_a_planted_permutation(spec):
    for seed in range(10):
        A = random_state(spec, seed)
        B = permute(A, spec, random_permutations(spec, np.random.default_rng(seed)))
        for start in starts(spec, A, B).values():
            aligned = permute(B, spec, start)
            assert all(torch.equal(aligned[name], tensor) for name, tensor in A.items())


def test_a_group_within_a_root_is_anchored_by_another_in_it():
    """A grouped convolution's outputs are told by their weights alone, once its inputs are in order."""
    A = random_state(GROUPED, 0)
    A |= {name: torch.zeros_like(A[name]) for name in ("2.bias", "5.weight")}
    B = permute(A, GROUPED, random_permutations(GROUPED, np.random.default_rng(1)))
    aligned = permute(B, GROUPED, starts(GROUPED, A, B)["gain"])
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


@given(**ANY)
def test_a_start_is_the_same_without_what_others_have_matched(spec, seed):
    A, B = random_state(spec, seed), random_state(spec, seed + 1)
    A, B, steps = steps_and_states(spec, A, B)
    for order, start in zip(anchored.ORDERS, anchored.anchored_starts(spec, A, B, steps, 1.0), strict=True):
        assert same(start, anchored._anchored(Similarities(spec, A, B, steps, 1.0), B, order, {}))


def test_the_only_root_is_matched_once_and_random_starts_follow_the_one_anchored():
    spec = SymmetrySpec({"0.weight": ("a", None), "1.weight": (None, "a")}, {"a": Group(7)})
    A, B = random_state(spec, 0), random_state(spec, 1)
    with patch.object(anchored, "_match_root", wraps=anchored._match_root) as matched:
        found = weight_matching(spec, A, B, np.random.default_rng(0), restarts=4)
    assert matched.call_count == 1
    identity_at, anchored_at, *random_at = (history[0] for history in found.histories)
    assert anchored_at > max(identity_at, *random_at) and anchored_at == pytest.approx(found.similarity)


@pytest.mark.parametrize("seed", range(5))
def test_what_the_inputs_tell_is_found_beside_an_output_layer_that_is_larger_and_tells_nothing(seed):
    """By gain the large layer comes first: most of it is common to all neurons, and the rest is noise."""
    sizes = {"a": 20, "b": 20}
    spec = SymmetrySpec({"0": ("a", None), "1": ("b", "a"), "2": (None, "b")}, {k: Group(n) for k, n in sizes.items()})
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return torch.from_numpy(rng.normal(size=shape))

    A = {"0": normal(20, 30), "1": normal(20, 20)}
    planted = random_permutations(spec, rng)
    B = {"0": A["0"][planted["a"]], "1": A["1"][planted["b"]][:, planted["a"]]}
    A["2"], B["2"] = (30 + 0.1 * normal(4, 20) for _ in range(2))
    back = {name: np.argsort(pi) for name, pi in planted.items()}
    # Computed without symlab: equal layers, and the sum over the outputs with B's neurons as they were planted.
    worth = float((A["0"] ** 2).sum() + (A["1"] ** 2).sum() + (A["2"] * B["2"][:, back["b"]]).sum())
    by = starts(spec, A, B)
    assert inner(A, permute(B, spec, by["share"])) == pytest.approx(worth, rel=1e-9)
    assert inner(A, permute(B, spec, by["gain"])) < worth - 0.1 * float((A["1"] ** 2).sum())
    found = weight_matching(spec, A, B, np.random.default_rng(seed), restarts=4)
    assert max(each[0] for each in found.histories) * norm(A) * norm(B) == pytest.approx(worth, rel=1e-9)
    assert found.similarity * norm(A) * norm(B) >= worth * (1 - 1e-9)


def test_a_group_is_matched_by_the_order_that_a_start_gave_its_neighbour_and_not_by_another_starts():
    """A branch of a stream: the outputs put the stream in one order, and the first layer, set first, in another."""
    axes = {"0": ("a", None), "1": ("r", "a"), "2": (None, "r"), "3": ("c", "r"), "4": ("r", "c")}
    spec = SymmetrySpec(axes, {"a": Group(5), "r": Group(5), "c": Group(5)})
    A, B = random_state(spec, 0), random_state(spec, 1)
    found, orders = starts(spec, A, B), set()
    for start in found.values():
        r = start["r"]
        S = A["3"].double() @ B["3"][:, r].double().T + A["4"].T.double() @ B["4"][r].double()
        assert start["c"].tolist() == match(S.numpy()).tolist()
        orders.add(tuple(r))
    assert len(orders) > 1, "Starts of one order of the stream would show nothing."
