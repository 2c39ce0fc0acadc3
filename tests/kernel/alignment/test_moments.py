import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from symlab.alignment.forward import outputs, watching
from symlab.alignment.moments import PairMoments, record_pair_moments, samples
from symlab.errors import UserError
from symlab.symmetries.symmetry_spec import Concat, Group, Point, Product, SymmetrySpec

from ..symmetries.nets import columns


def streamed(z_a, z_b, sizes):
    moments = PairMoments(z_a.shape[1])
    for part_a, part_b in zip(torch.split(z_a, sizes), torch.split(z_b, sizes), strict=True):
        moments.add(part_a, part_b)
    return moments.correlation()


def reference(z_a, z_b):
    d = z_a.shape[1]
    return np.corrcoef(z_a.double().numpy().T, z_b.double().numpy().T)[:d, d:]


@given(
    sizes=st.lists(st.integers(1, 40), min_size=2, max_size=8),
    d=st.integers(1, 6),
    log_mean=st.floats(-3, 3),
    log_std=st.floats(-1, 3),
    seed=st.integers(0, 1000),
)
def test_equals_corrcoef_on_stored_activations(sizes, d, log_mean, log_std, seed):
    generator = torch.Generator().manual_seed(seed)
    common = torch.randn(sum(sizes) + 3, d, generator=generator)
    z_a, z_b = (common + torch.randn(common.shape, generator=generator) for _ in range(2))
    z_a, z_b = 10**log_mean + 10**log_std * z_a, 10**log_std * z_b - 10**log_mean
    np.testing.assert_allclose(streamed(z_a, z_b, [*sizes, 3]), reference(z_a, z_b), atol=1e-5)


def test_moments_of_no_samples_add_nothing():
    moments = PairMoments(3)
    moments.add(*torch.randn(2, 9, 3, generator=torch.Generator().manual_seed(0)))
    for joined in (moments.joined(PairMoments(3)), PairMoments(3).joined(moments)):
        assert joined.n == 9 and np.array_equal(joined.correlation(), moments.correlation())


def test_large_mean_and_small_variance_survive_float32():
    generator = torch.Generator().manual_seed(0)
    z_a = 1000 + 0.05 * torch.randn(5000, 8, generator=generator)
    z_b = z_a.flip(1) + 0.05 * torch.randn(5000, 8, generator=generator)
    expected = reference(z_a, z_b)
    np.testing.assert_allclose(streamed(z_a, z_b, 512), expected, atol=1e-5)
    n = len(z_a)
    unshifted = ((z_a.T @ z_b) / n - torch.outer(z_a.mean(0), z_b.mean(0))) / torch.outer(z_a.std(0), z_b.std(0))
    assert np.abs(unshifted.numpy() - expected).max() > 0.1, "the data are too easy to tell why there is a shift"


def test_sorted_inputs_whose_first_batch_is_unlike_the_rest():
    z_a = torch.sort(torch.randn(4000, 5, generator=torch.Generator().manual_seed(1)), dim=0).values
    z_b = z_a.square()
    np.testing.assert_allclose(streamed(z_a, z_b, 100), reference(z_a, z_b), atol=1e-5)


@pytest.mark.parametrize("value", [0.0, 0.1, -1234.567, 3e-5])
def test_a_constant_neuron_correlates_zero_with_everything(value):
    generator = torch.Generator().manual_seed(2)
    z_a, z_b = torch.randn(300, 4, generator=generator), torch.randn(300, 4, generator=generator)
    z_a[:, 1] = value
    z_b[:, 2] = value
    # Rounding noise of one unit in the last place is not information.
    z_b[::3, 2] = torch.nextafter(torch.tensor(value), torch.tensor(1e6)) if value else 0.0
    S = streamed(z_a, z_b, 64)
    assert (S[1] == 0).all() and (S[:, 2] == 0).all()
    varying = np.ix_([0, 2, 3], [0, 1, 3])
    np.testing.assert_allclose(S[varying], reference(z_a[:, [0, 2, 3]], z_b[:, [0, 1, 3]]), atol=1e-5)


def test_unusable_activations_are_refused():
    moments = PairMoments(2)
    with pytest.raises(UserError, match="at least one batch"):
        moments.correlation()
    with pytest.raises(UserError, match=r"\(4, 2\) and \(5, 2\)"):
        moments.add(torch.zeros(4, 2), torch.zeros(5, 2))
    with pytest.raises(UserError, match="not finite"):
        streamed(torch.tensor([[1.0], [torch.nan], [2.0]]), torch.rand(3, 1), 2)


def test_a_batch_of_images_is_the_same_as_its_pixels():
    generator = torch.Generator().manual_seed(3)
    for shape in ((6, 4, 25), (50, 4, 3)):
        z_a = torch.rand(shape, generator=generator)
        z_b = z_a.flip(1) + 0.5 * torch.rand(shape, generator=generator)
        pixels = [z.movedim(1, 2).flatten(0, 1) for z in (z_a, z_b)]
        expected = reference(*pixels)
        for shift in (0.0, 500.0):
            moments = PairMoments(4)
            for image_a, image_b in zip(z_a.split(5), z_b.split(5), strict=True):
                moments.add(image_a + shift, image_b)
            assert moments.n == len(pixels[0])
            np.testing.assert_allclose(moments.correlation(), expected, atol=1e-5 if shift == 0 else 1e-4)


@pytest.mark.parametrize("channels_last", [False, True])
def test_samples_are_the_columns_without_a_copy(channels_last):
    groups = {"h": Group(3), "d": Group(2, ("h",)), "c": Group(4)}
    generator = torch.Generator().manual_seed(4)
    cases = [
        ((5, 4, 3, 3), (None, "c", None, None), "c"),
        ((5, 7, 6), (None, None, Product(("h", "d"))), "d"),
        ((5, 3, 7, 2), (None, "h", None, "d"), "d"),
        ((5, 7, 10), (None, None, Concat(("c", Product(("h", "d"))))), "d"),
        ((5, 36), (None, Product(("c", 9))), "c"),
        ((5, 8, 2, 2), (None, Concat(("c", "c")), None, None), "c"),
        ((5, 4), (None, "c"), "c"),
    ]
    for shape, axes, group in cases:
        value = torch.randn(shape, generator=generator)
        if channels_last and value.dim() == 4:
            value = value.contiguous(memory_format=torch.channels_last)
        found = list(samples(value, axes, group, groups))
        rows = [z if z.dim() == 2 else z.movedim(1, 2).flatten(0, 1) for z in found]
        expected = columns(value, axes, group, groups)
        assert len(rows) == len(expected)
        for one, other in zip(rows, expected, strict=True):
            assert torch.equal(one.sort(dim=0).values, other.sort(dim=0).values)
        if axes[1] == "c" and value.dim() == 4:
            assert all(z.untyped_storage().data_ptr() == value.untyped_storage().data_ptr() for z in found)


class Recorded:
    """Stands for a traced network: the named values are outputs of submodules, or sums of them."""

    def __init__(self, module, spec):
        self.module, self.spec = module, spec

    def values(self, state, x, names):
        found = {}
        with watching(self.module, names, lambda name, given, output: found.update({name: output})):
            outputs(self.module, state, x)
        return found


def test_records_every_pair_and_every_point():
    module = nn.Sequential(
        nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(12, 2)
    )
    groups = {"stream": Group(3), "h": Group(3), "pixel": Group(4, ("h",))}
    spec = SymmetrySpec(
        {},
        groups,
        {
            "stream": (Point("2", (None, "stream", None, None), ""), Point("3", (None, "stream", None, None), "")),
            "h": (),
            "pixel": (Point("4", (None, Product(("h", "pixel"))), ""),),
        },
    )
    torch.manual_seed(0)
    states = [{name: torch.randn(t.shape) for name, t in module.state_dict().items()} for _ in range(4)]
    x = torch.randn(50, 16)
    traced = Recorded(module, spec)
    moments = record_pair_moments(
        traced, {"p": states[0], "q": states[1]}, {"p": states[2], "q": states[3]}, x.split(16)
    )

    assert {key: set(of_groups) for key, of_groups in moments.items()} == {key: {"stream", "pixel"} for key in "pq"}
    for key, a, b in (("p", 0, 2), ("q", 1, 3)):
        values = [traced.values(states[at], x, ["2", "3", "4"]) for at in (a, b)]
        streams = [torch.cat([v[name].movedim(1, -1).flatten(0, 2) for name in "23"]) for v in values]
        np.testing.assert_allclose(moments[key]["stream"].correlation(), reference(*streams), atol=1e-5)
        assert moments[key]["pixel"].d == 12 and moments[key]["pixel"].n == 50
        flat = [v["4"] for v in values]
        np.testing.assert_allclose(moments[key]["pixel"].correlation(), reference(*flat), atol=1e-5)


def test_pairs_without_partner_and_empty_data_are_refused():
    module = nn.Linear(2, 3)
    traced = Recorded(nn.Sequential(module), SymmetrySpec({}, {"g": Group(3)}, {"g": (Point("0", (None, "g"), ""),)}))
    state = {f"0.{name}": tensor for name, tensor in module.state_dict().items()}
    with pytest.raises(UserError, match="same pairs"):
        record_pair_moments(traced, {0: state}, {1: state}, [torch.zeros(4, 2)])
    with pytest.raises(UserError, match="no inputs"):
        record_pair_moments(traced, {0: state}, {0: state}, [])
