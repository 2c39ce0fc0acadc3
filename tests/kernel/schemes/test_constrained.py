"""Constraints by symmetry: every weight can be reached, gradients are autograd's, and decay is the right penalty."""

import math
import re
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
import yaml
from pydantic import ValidationError
from safetensors.numpy import save_file

from symlab.errors import UserError
from symlab.schemes import Constrained, Mirror
from symlab.schemes.constrained import Groups, Pairs, constrain
from symlab.schemes.hadamard import Product
from symlab.schemes.parametrisation import is_decayed


def Rows(first):
    return Groups(first, "w", kept=(0,), balanced=True)


def Paired(first):
    return Pairs(first, "w")


KINDS = [Rows, Paired]
SHAPES = [(6, 4), (5, 4), (4, 3, 2, 2)]


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_reached_and_gradients_are_the_chain_rules(kind, shape, stacked):
    theta = drawn(*([3] if stacked else []), *shape)
    assert_reached_with_gradients(kind(int(stacked)), theta)


def assert_reached_with_gradients(by, theta):
    """What is trained composes to theta, and its gradients are autograd's, laid out as it is."""
    trained = [part.clone().requires_grad_() for part in by.start(theta)]
    composed = by.compose(*trained)
    torch.testing.assert_close(composed, theta)
    target = torch.empty_like(theta)
    by.compose_into(target, *(part.detach() for part in trained))
    assert torch.equal(target, composed.detach())
    gradient = drawn(*theta.shape).flip(-1)
    expected = torch.autograd.grad((composed * gradient).sum(), trained)
    pulled = by.pull_back(gradient.clone(), *(part.detach() for part in trained))
    for each, right, part in zip(pulled, expected, trained, strict=True):
        torch.testing.assert_close(each, right)
        assert each.stride() == part.stride(), "fused updates ask for one layout"


def test_rows_vanish_and_pairs_merge_where_their_factors_are_zero():
    s, w = Rows(0).start(drawn(4, 3))
    s[1] = 0
    assert (Rows(0).compose(s, w)[1] == 0).all()
    v, u, w = Pairs(0, "w").start(drawn(5, 3))
    u[1] = 0
    theta = Pairs(0, "w").compose(v, u, w)
    assert torch.equal(theta[2], theta[3]) and not torch.equal(theta[0], theta[1])


@pytest.mark.parametrize(("kind", "norm"), [(Rows, "row"), (Paired, "difference")])
def test_the_least_decay_of_a_weight_is_twice_its_norm(kind, norm):
    """Rows: 2 |theta_row|_2. Pairs: 2 |O^T theta|_1 and |v|^2. The least over all factors is found by descent."""
    theta = drawn(4, 3)
    by = kind(0)
    factors = by.start(theta)
    if kind is Rows:
        expected = 2 * theta.norm(dim=1).sum()
    else:
        expected = 2 * ((theta[0::2] - theta[1::2]) * math.sqrt(0.5)).abs().sum() + factors[0].square().sum()
    # What leaves theta as it is: s e^t and w e^-t.
    first, second = (factors[0], factors[1]) if kind is Rows else (factors[1], factors[2])
    t = torch.zeros_like(first, requires_grad=True)
    for _ in range(400):
        decay = (first * t.exp()).square().sum() + (second * (-t).exp()).square().sum()
        (g,) = torch.autograd.grad(decay, t)
        t = (t - 0.05 * g).detach().requires_grad_()
    rest = 0 if kind is Rows else factors[0].square().sum()
    assert float(decay.detach() + rest) == pytest.approx(float(expected), rel=1e-6)


ORTHONORMAL = np.linalg.qr(np.random.default_rng(3).normal(size=(24, 5)))[0]


def parametrisation_of(mirror, value, **keys):
    """Of a parameter that is called theta, one replica or stacked ones."""
    scheme = Constrained(name="dcs", mirrors={"theta": Mirror(**mirror)}, **keys)
    stacked = value.dim() > len(SHAPE)
    return constrain(scheme, ["theta"], {}, stacked)["theta"]


SHAPE = (6, 4)
BY_CONFIG = {
    "identity": {"P": "identity"},
    "rows": {"P": "rows"},
    "columns": {"P": "columns"},
    "blocks": {"P": "blocks", "block": [3, 2]},
    "pairs": {"P": "pairs", "pairs": [[4, 1], [0, 5]]},
    "pairs of inputs": {"P": "pairs", "axis": 1, "together": True},
    "matrix": {"P": "matrix"},
    "matrix together": {"P": "matrix", "together": True},
    "matrix along an axis": {"P": "matrix", "axis": 1},
    "matrix of outputs": {"P": "matrix", "axis": 0, "together": True},
}


@pytest.fixture
def by_config(tmp_path):
    def of(name):
        mirror = dict(BY_CONFIG[name])
        if mirror["P"] == "matrix":
            axis = mirror.get("axis")
            mirror["file"] = str(tmp_path / "O.npy")
            columns = ORTHONORMAL if axis is None else np.linalg.qr(ORTHONORMAL[: SHAPE[axis], :2])[0]
            np.save(mirror["file"], columns)
        return mirror

    return of


def columns_of(name):
    """O [24, k] of each of these mirrors by what it is, entries of theta in one row, and its groups of columns."""
    eye, entry = np.eye(24), np.arange(24).reshape(SHAPE)
    along = {axis: np.linalg.qr(ORTHONORMAL[: SHAPE[axis], :2])[0] for axis in (0, 1)}

    def differences(pairs):
        return np.stack([(eye[a] - eye[b]) / np.sqrt(2) for a, b in pairs], axis=1)

    return {
        "identity": (eye, list(range(24))),
        "rows": (eye, [each // 4 for each in range(24)]),
        "columns": (eye, [each % 4 for each in range(24)]),
        "blocks": (eye, [each // 4 // 3 * 2 + each % 4 // 2 for each in range(24)]),
        "pairs": (
            differences([(entry[a, j], entry[b, j]) for a, b in ((4, 1), (0, 5)) for j in range(4)]), list(range(8))
        ),
        "pairs of inputs": (
            differences([(entry[i, a], entry[i, a + 1]) for a in (0, 2) for i in range(6)]), [0] * 6 + [1] * 6
        ),
        "matrix": (ORTHONORMAL, list(range(5))),
        "matrix together": (ORTHONORMAL, [0] * 5),
        "matrix along an axis": (np.kron(np.eye(6), along[1]), list(range(12))),
        "matrix of outputs": (np.kron(along[0], np.eye(4)), [0] * 8),
    }[name]  # fmt: skip


@pytest.mark.parametrize("stacked", [False, True])
@pytest.mark.parametrize("name", BY_CONFIG)
def test_weights_of_every_mirror_are_reached_and_gradients_are_the_chain_rules(by_config, name, stacked):
    theta = drawn(*([3] if stacked else []), *SHAPE)
    assert_reached_with_gradients(parametrisation_of(by_config(name), theta), theta)


@pytest.mark.parametrize("name", BY_CONFIG)
def test_composed_weights_are_those_of_the_formula(by_config, name):
    """T = (I - P) v + O ((O^T w) o (O^T u)), with one entry of O^T u for each group where it is a group lasso."""
    off, groups = columns_of(name)
    P = off @ off.T
    by = parametrisation_of(by_config(name), drawn(*SHAPE))
    # Away from the start, and with a part of v off the mirror, which must not count.
    trained = [part + 0.3 * drawn(*part.shape) for part in by.start(drawn(*SHAPE))]
    theta = by.compose(*trained).numpy().flatten()
    factors = trained[-2:]
    z = off.T @ theta
    # What decay draws to 0: with the first factor at 0 all of P theta is, and nothing else has changed.
    rest = by.compose(*trained[:-2], 0 * factors[0], factors[1]).numpy().flatten()
    np.testing.assert_allclose(rest, theta - P @ theta, atol=1e-12)
    assert np.linalg.norm(z) > 0.1
    # A group's part of z is proportional to its factor s, an entry's to its u.
    for group in set(groups):
        of = np.array(groups) == group
        doubled = factors[0].clone()
        found = [
            np.abs(off.T @ by.compose(*trained[:-2], _doubled(doubled, k), factors[1]).numpy().flatten() - z) > 1e-12
            for k in range(doubled.numel())
        ]
        assert any((each == of).all() for each in found)


def _doubled(factor, k):
    changed = factor.clone().contiguous()
    changed.view(-1)[k] *= 2
    return changed


def test_a_matrix_gives_the_formula_of_numpy(by_config):
    by = parametrisation_of(by_config("matrix"), drawn(*SHAPE))
    v, u, w = drawn(*SHAPE), drawn(5), drawn(5).flip(0)
    by.start(drawn(*SHAPE))
    flat, z = v.numpy().flatten(), u.numpy() * w.numpy()
    expected = (np.eye(24) - ORTHONORMAL @ ORTHONORMAL.T) @ flat + ORTHONORMAL @ z
    np.testing.assert_allclose(by.compose(v, u, w).numpy().flatten(), expected, atol=1e-12)


def test_no_factor_starts_on_a_mirror_and_zeros_do_not_start_dead(by_config):
    """Corrections A1: |u| = |w| and u = w = 0 are never left."""
    for name in BY_CONFIG:
        for value in (drawn(*SHAPE), torch.zeros(*SHAPE, dtype=torch.float64)):
            u, w = parametrisation_of(by_config(name), value).start(value)[-2:]
            assert ((u != 0) | (w != 0)).all()
            if u.shape == w.shape:
                assert (u.abs() != w.abs()).all()
            else:
                alike = [axis for axis, size in enumerate(u.shape) if size == 1]
                # A group's factor is 5/4 of what would balance it: |s| is 5/4 sqrt(|theta|).
                of_group = (u * w).square().sum(dim=alike, keepdim=True).sqrt()
                torch.testing.assert_close(u[of_group > 0], 1.25 * of_group[of_group > 0].sqrt())
                assert (u > 0).all()
                assert ((u.square() - w.square().sum(dim=alike, keepdim=True)).abs() > 1e-3).all()


def test_a_reflection_is_not_taken_for_its_columns(tmp_path):
    n = np.array([0.6, 0.8, 0, 0])
    np.save(tmp_path / "R.npy", np.eye(4) - 2 * np.outer(n, n))
    with pytest.raises(UserError, match="is a reflection"):
        parametrisation_of({"P": "matrix", "file": str(tmp_path / "R.npy")}, drawn(2, 2))


def test_projections_are_taken_as_their_columns(tmp_path):
    np.save(tmp_path / "P.npy", np.diag([0.0, 1, 0, 1]))
    theta = drawn(2, 2)
    by = parametrisation_of({"P": "matrix", "file": str(tmp_path / "P.npy")}, theta)
    v, u, w = by.start(theta)
    np.testing.assert_allclose(v, [[theta[0, 0], 0], [theta[1, 0], 0]])
    np.testing.assert_allclose(u * w, [theta[0, 1], theta[1, 1]])
    # Of any projection, if all of P theta is to vanish as a whole.
    P = ORTHONORMAL @ ORTHONORMAL.T
    save_file({"theta": P, "another": P[:2]}, tmp_path / "P.safetensors")
    theta = drawn(*SHAPE)
    mirror = {"P": "matrix", "file": str(tmp_path / "P.safetensors")}
    v, s, w = parametrisation_of({**mirror, "together": True}, theta).start(theta)
    np.testing.assert_allclose(v.flatten(), (np.eye(24) - P) @ theta.flatten().numpy(), atol=1e-12)
    assert float((s * w).norm()) == pytest.approx(np.linalg.norm(P @ theta.flatten().numpy()))
    with pytest.raises(UserError, match="not diagonal, which does not say in which coordinates"):
        parametrisation_of(mirror, theta)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (ORTHONORMAL[:20], "columns are not orthonormal"),
        (np.linalg.qr(ORTHONORMAL[:20])[0], "has 20 rows, but the parameter, which is 6 x 4, has 24 entries"),
        (ORTHONORMAL * 1.001, "columns are not orthonormal .O.T O differs from I by up to 0.002"),
        (ORTHONORMAL.T, "5 x 24"),
        (ORTHONORMAL[:, 0], "has shape 24"),
        (np.where(np.eye(24, 5) == 1, np.nan, 0), "finite matrix"),
        (np.zeros((24, 24)), "projection onto nothing"),
        (np.array([["a"]]), "real numbers"),
    ],
)
def test_what_is_no_mirror_is_refused_in_a_sentence(tmp_path, matrix, said):
    np.save(tmp_path / "O.npy", matrix)
    with pytest.raises(UserError, match=said):
        parametrisation_of({"P": "matrix", "file": str(tmp_path / "O.npy")}, drawn(*SHAPE)).start(drawn(*SHAPE))


def test_an_axis_that_a_parameter_lacks_is_refused(tmp_path):
    np.save(tmp_path / "O.npy", np.eye(6, 2))
    for mirror, theta, said in (
        (
            {"P": "matrix", "file": str(tmp_path / "O.npy"), "axis": 2},
            drawn(*SHAPE),
            "theta is 6 x 4 and has no axis 2",
        ),
        ({"P": "columns"}, drawn(6), "theta, 6, has no columns"),
    ):
        with pytest.raises(UserError, match=said):
            parametrisation_of(mirror, theta).start(theta)


def test_columns_that_are_exact_in_half_precision_are_taken(tmp_path):
    columns = torch.eye(SHAPE[1], 2, dtype=torch.bfloat16)
    safetensors.torch.save_file({"O": columns}, tmp_path / "half.safetensors")
    found = parametrisation_of({"P": "matrix", "file": str(tmp_path / "half.safetensors"), "axis": 1}, drawn(*SHAPE))
    assert torch.equal(found.O, columns.double())


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path):
    (tmp_path / "O.npy").write_bytes(b"no matrix")
    (tmp_path / "O.safetensors").write_bytes(b"no matrix")
    (tmp_path / "O.txt").write_text("1 0")
    save_file({"a": ORTHONORMAL, "b": ORTHONORMAL}, tmp_path / "others.safetensors")
    np.save(tmp_path / "pickled.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "empty.npy").write_bytes(b"")
    np.savez(tmp_path / "several.npz", a=ORTHONORMAL)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    cases = dict.fromkeys(("O.npy", "pickled.npy", "empty.npy", "several.npy"), "no array that numpy.save wrote")
    cases |= {"O.safetensors": "cannot be read", "O.txt": "neither a .npy"}
    cases |= {"others.safetensors": "has no tensor theta; it has a, b"}
    for name, said in cases.items():
        with pytest.raises(UserError, match=said):
            parametrisation_of({"P": "matrix", "file": str(tmp_path / name)}, drawn(*SHAPE))


@pytest.mark.parametrize(
    ("mirror", "said"),
    [
        ({"P": "blocks", "block": [4, 2]}, "blocks of 4 x 2 do not tile theta, which is 6 x 4"),
        ({"P": "pairs", "pairs": [[0, 6]]}, "name neuron 6, but theta, 6 x 4, has those from 0 to 5 along axis 0"),
        ({"P": "pairs", "axis": 2}, "theta, 6 x 4, has no axis 2"),
    ],
)
def test_mirrors_that_do_not_fit_a_parameter_are_refused_in_a_sentence(mirror, said):
    with pytest.raises(UserError, match=said):
        parametrisation_of(mirror, drawn(*SHAPE)).start(drawn(*SHAPE))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "exactly one of mirror and mirrors"),
        ({"mirror": "rows", "mirrors": {"*": {"P": "rows"}}}, "exactly one of mirror and mirrors"),
        ({"mirrors": {"*": {"P": "blocks"}}}, "blocks needs block"),
        ({"mirrors": {"*": {"P": "matrix"}}}, "matrix needs file"),
        ({"mirrors": {"*": {"P": "rows", "together": True}}}, "rows takes no together"),
        ({"mirrors": {"*": {"P": "rows", "axis": 0}}}, "rows takes no axis"),
        ({"mirrors": {"*": {"P": "matrix", "file": "no.npy"}}}, "there is no file no.npy"),
        ({"mirrors": {"*": {"P": "pairs", "pairs": [[0, 1], [1, 2]]}}}, "a neuron stands in two pairs"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys, said):
    with pytest.raises(ValidationError, match=said):
        Constrained(name="dcs", **keys)


def test_a_pattern_without_a_parameter_is_refused():
    scheme = Constrained(name="dcs", mirrors={"theta": {"P": "rows"}, "xi*": {"P": "rows"}})
    with pytest.raises(UserError, match=r"pattern 'xi\*' matches no parameter .* leave \(theta"):
        constrain(scheme, ["theta"], {}, False)
    scheme = Constrained(name="dcs", mirrors={"*": {"P": "rows"}, "theta": {"P": "columns"}})
    with pytest.raises(UserError, match="pattern 'theta' matches no parameter"):
        constrain(scheme, ["theta"], {}, False)


def test_the_first_pattern_counts_and_parameters_without_one_are_trained_as_they_are():
    scheme = Constrained(name="dcs", mirrors={"a.w": {"P": "identity"}, "*.w": {"P": "rows"}})
    found = constrain(scheme, ["a.w", "a.b", "c.w"], {}, False)
    assert {name: type(by) for name, by in found.items()} == {"a.w": Product, "c.w": Groups}


@pytest.mark.parametrize("keys", [{"mirror": "pairs"}, {"mirrors": {"w": {"P": "pairs"}}}])
@pytest.mark.parametrize("decay_rest", [True, False])
def test_the_rest_decays_as_the_scheme_says_in_both_ways_to_give_mirrors(keys, decay_rest):
    scheme = Constrained(name="dcs", decay_rest=decay_rest, **keys)
    rest, *factors = constrain(scheme, ["w"], {"w": (None, None)}, False)["w"].suffixes
    assert is_decayed(f"w/{rest}") == decay_rest and all(is_decayed(f"w/{each}") for each in factors)


def test_the_worked_example_is_a_scheme(tmp_path, monkeypatch):
    page = Path(__file__).parents[3] / "docs" / "explanation" / "papers" / "mirror-symmetry.md"
    (example,) = re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    np.save("O.npy", np.eye(16, 2))
    scheme = Constrained.model_validate(yaml.safe_load(example)["scheme"])
    assert scheme.files() == ["O.npy"]
    assert Constrained.from_spec(scheme.spec()) == scheme
    kinds = [f"linears.{layer}" for layer in range(4)] + ["norms.0"]
    parameters = [f"{kind}.{part}" for kind in kinds for part in ("weight", "bias")]
    assert len(constrain(scheme, parameters, {}, False)) == 7


def test_independent_factors_are_as_large_as_their_parameter_and_lie_on_no_mirror():
    value = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    u, w = Product(on_mirror=False, stacked=True, independent=True).start(value)
    torch.testing.assert_close(u.abs().flatten(1).sort().values, w.abs().flatten(1).sort().values)
    assert (u * w).square().mean().sqrt() == pytest.approx(float(value.square().mean().sqrt()), rel=0.2)
    assert (u.abs() != w.abs()).float().mean() > 0.9
    # What is 0 has no entries to take another order of.
    zeros = Product(on_mirror=False, stacked=True, independent=True).start(torch.zeros(2, 3))
    assert not zeros[0].any() and zeros[1].all()
