import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from symlab.alignment.moments import PairMoments, record_pair_moments
from symlab.errors import UserError
from symlab.networks import build


def streamed(z_a, z_b, sizes):
    moments = PairMoments(z_a.shape[1])
    for part_a, part_b in zip(torch.split(z_a, sizes), torch.split(z_b, sizes), strict=True):
        moments.add(part_a, part_b)
    return moments.correlation()


def reference(z_a, z_b):
    d = z_a.shape[1]
    return np.corrcoef(z_a.double().numpy().T, z_b.double().numpy().T)[:d, d:]


@settings(deadline=None, derandomize=True, max_examples=25)
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


def test_records_every_pair_and_leaves_the_module_alone():
    module = build({"name": "mlp", "widths": [6, 5], "norm": "batchnorm"}, 4, 3)
    torch.manual_seed(0)
    for name, buffer in module.named_buffers():
        if "running" in name:
            buffer.copy_(torch.rand_like(buffer) + 0.5)
    states = [
        {k: v + 0.3 * torch.rand_like(v) if v.is_floating_point() else v for k, v in module.state_dict().items()}
        for _ in range(4)
    ]
    x = torch.randn(50, 4)
    before = {name: tensor.clone() for name, tensor in module.state_dict().items()}
    points = {"hidden1": "activations.0", "hidden2": "activations.1"}
    moments = record_pair_moments(
        module, {"p": states[0], "q": states[1]}, {"p": states[2], "q": states[3]}, points, x.split(16)
    )

    assert module.training
    assert not module.activations[0]._forward_hooks
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name])

    def activations(state):
        other = build({"name": "mlp", "widths": [6, 5], "norm": "batchnorm"}, 4, 3).eval()
        other.load_state_dict(state)
        hidden1 = other.activations[0](other.norms[0](other.linears[0](x)))
        return {"hidden1": hidden1, "hidden2": other.activations[1](other.norms[1](other.linears[1](hidden1)))}

    with torch.no_grad():
        for key, a, b in (("p", 0, 2), ("q", 1, 3)):
            z_a, z_b = activations(states[a]), activations(states[b])
            for group in points:
                expected = reference(z_a[group], z_b[group])
                np.testing.assert_allclose(moments[key][group].correlation(), expected, atol=1e-5)


def test_pairs_and_points_that_cannot_be_recorded_are_refused():
    module = build({"name": "mlp", "widths": [3, 3], "norm": "none"}, 2, 2)
    state, x = module.state_dict(), torch.zeros(4, 2)
    with pytest.raises(UserError, match="same pairs"):
        record_pair_moments(module, {0: state}, {1: state}, {"hidden1": "activations.0"}, [x])
    with pytest.raises(UserError, match="no inputs"):
        record_pair_moments(module, {0: state}, {0: state}, {"hidden1": "activations.0"}, [])
    module.activations[1] = module.activations[0]
    with pytest.raises(UserError, match="more than once"):
        record_pair_moments(module, {0: state}, {0: state}, {"hidden1": "activations.0"}, [x])
    flat = nn.Sequential(nn.Linear(2, 3), nn.Unflatten(1, (3, 1)))
    with pytest.raises(UserError, match=r"shape \(4, 3, 1\)"):
        record_pair_moments(flat, {0: flat.state_dict()}, {0: flat.state_dict()}, {"g": "1"}, [x])
