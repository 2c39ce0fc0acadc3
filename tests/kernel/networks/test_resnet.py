"""ResNet20 against a reference written out, and the paper's numbers of fixed weights."""

from itertools import product

import pytest
import torch
import torch.nn.functional as functional

from symlab.errors import UserError
from symlab.networks import NETWORKS, build
from symlab.schemes import SCHEMES
from symlab.schemes.fixed_parts import sample_fixed_parts, weight_shapes
from symlab.settings import choose
from symlab.symmetries.trace import trace

NETWORK = {"name": "resnet20"}
# Table 3 of the main paper.
TABLE_3 = {
    "stem": 12,
    "groups.0.*": 108,
    "groups.1.*.shortcut": 18,
    "groups.1.*": 162,
    "groups.2.*.shortcut": 24,
    "groups.2.*": 216,
    "readout": 24,
}


def randomised(module, seed=0):
    """The module with random values in every parameter and statistic, norms included, as it evaluates."""
    generator = torch.Generator().manual_seed(seed)
    for name, tensor in module.state_dict().items():
        if tensor.is_floating_point():
            drawn = torch.randn(tensor.shape, generator=generator) * 0.2
            tensor.copy_(0.5 + drawn.abs() if name.endswith("running_var") else drawn)
    return module.eval()


def normed(state, x, name, groups):
    """By groups of channels of each image, or by running statistics, and scaled."""
    grouped = x.reshape(len(x), groups or x.shape[1], -1)
    if groups:
        mean, var = grouped.mean(dim=-1), grouped.var(dim=-1, correction=0)
    else:
        mean, var = state[f"{name}.running_mean"], state[f"{name}.running_var"]
    scaled = ((grouped - mean[..., None]) / (var[..., None] + 1e-5).sqrt()).reshape(x.shape)
    return scaled * state[f"{name}.weight"][:, None, None] + state[f"{name}.bias"][:, None, None]


def reference(state, x, channels, shape, norm_groups):
    """The forward pass of He et al. (2016), as one loop over blocks: of so many groups of so many each."""
    side = round((x.shape[1] / channels) ** 0.5)
    x = functional.conv2d(x.reshape(-1, channels, side, side), state["stem.weight"], padding=1)
    x = normed(state, x, "stem_norm", norm_groups).clamp(min=0)
    for group, block in product(*map(range, shape)):
        name, stride = f"groups.{group}.{block}", 2 if group and not block else 1
        y = functional.conv2d(x, state[f"{name}.conv1.weight"], padding=1, stride=stride)
        y = normed(state, y, f"{name}.norm1", norm_groups).clamp(min=0)
        y = functional.conv2d(y, state[f"{name}.conv2.weight"], padding=1)
        if stride == 2:
            x = torch.einsum("oi,nihw->nohw", state[f"{name}.shortcut.weight"][:, :, 0, 0], x[:, :, ::2, ::2])
            x = normed(state, x, f"{name}.shortcut_norm", norm_groups)
        x = (x + normed(state, y, f"{name}.norm2", norm_groups)).clamp(min=0)
    x = x.flatten(2).mean(dim=2)
    if "hidden.weight" in state:
        x = (x @ state["hidden.weight"].T + state["hidden.bias"]).clamp(min=0)
    return x @ state["readout.weight"].T + state["readout.bias"]


@pytest.mark.parametrize(
    ("options", "side"),
    [
        ({}, 16),
        ({"width_multiplier": 2, "norm_groups": 4}, 12),
        ({"channels": 1}, 8),
        ({"name": "resnet18", "width": 4, "head": 6}, 16),
        ({"name": "resnet18", "width": 8, "channels": 1}, 8),
    ],
)
def test_forward_is_that_of_the_reference(options, side):
    channels, small = options.get("channels", 3), "name" not in options
    module = randomised(build(choose(NETWORKS, NETWORK | options), channels * side * side, 7))
    x = torch.randn(4, channels * side * side, generator=torch.Generator().manual_seed(1))
    shape, norm_groups = ((3, 3), options.get("norm_groups", 1)) if small else ((4, 2), 0)
    expected = reference(module.state_dict(), x, channels, shape, norm_groups)
    torch.testing.assert_close(module(x), expected, rtol=1e-4, atol=1e-4)


def test_sizes_are_those_of_the_paper():
    plain = build(choose(NETWORKS, NETWORK), 3072, 10)
    # He et al. report 0.27 M parameters (without normalised shortcuts, which add 2,752).
    convolutions = 9 * (3 * 16 + 6 * 16**2 + 16 * 32 + 5 * 32**2 + 32 * 64 + 5 * 64**2) + 16 * 32 + 32 * 64
    norms = 2 * (7 * 16 + 7 * 32 + 7 * 64)
    assert sum(parameter.numel() for parameter in plain.parameters()) == convolutions + norms + 64 * 10 + 10
    assert sum(parameter.numel() for parameter in plain.parameters()) == pytest.approx(0.27e6, rel=0.03)
    shapes = weight_shapes(build(choose(NETWORKS, NETWORK | {"width_multiplier": 8}), 3072, 10))
    assert len(shapes) == 22
    assert shapes["stem.weight"] == (128, 3, 3, 3)
    assert shapes["groups.1.0.conv1.weight"] == (256, 128, 3, 3)
    assert shapes["groups.2.0.shortcut.weight"] == (512, 256, 1, 1)
    assert shapes["readout.weight"] == (10, 512)
    assert plain(torch.zeros(5, 3072)).shape == (5, 10)


def test_group_names():
    module = build(choose(NETWORKS, NETWORK), 3072, 10)
    paths = {}
    for path, name in module.group_names().items():
        paths.setdefault(name, set()).add(path)
    expected = {f"inner{g}.{b}": {f"groups.{g - 1}.{b - 1}.conv1"} for g in (1, 2, 3) for b in (1, 2, 3)}
    for g, first in ((1, "stem"), (2, "groups.1.0.shortcut"), (3, "groups.2.0.shortcut")):
        expected[f"stream{g}"] = {first, *(f"groups.{g - 1}.{b}.conv2" for b in range(3))}
    assert paths == expected
    assert {f"{path}.weight" for path in module.group_names()} == set(weight_shapes(module)) - {"readout.weight"}


def test_fixed_weights_of_table_3():
    shapes = weight_shapes(build(choose(NETWORKS, NETWORK | {"width_multiplier": 8}), 3072, 10))
    expected = {
        "stem": 12,
        "groups.0.2.conv1": 108,
        "groups.1.0.shortcut": 18,
        "groups.1.0.conv1": 162,
        "groups.2.0.shortcut": 24,
        "groups.2.0.conv1": 216,
        "readout": 24,
    }
    some = {f"{path}.weight": shapes[f"{path}.weight"] for path in expected}
    parts = sample_fixed_parts(choose(SCHEMES, {"name": "w_asymmetric", "sigma_F": 2.0, "n_fixed": TABLE_3}), some, "s")
    for path, n_fixed in expected.items():
        _, D = parts[f"{path}.weight"]
        counted = (D == 0).sum(dim=1 if path == "readout" else (0, 2, 3))
        assert counted.tolist() == [n_fixed] * len(counted)


@pytest.mark.parametrize(
    ("n_inputs", "options", "sentence"),
    [
        (784, {}, "channels = 3 channels, but .* have 784 numbers"),
        (2, {"channels": 3}, "which no such image has"),
        (3072, {"norm_groups": 3}, "norm_groups = 3 does not divide the 16 channels"),
    ],
)
def test_images_and_groups_that_do_not_fit_are_refused(n_inputs, options, sentence):
    with pytest.raises(UserError, match=sentence):
        build(choose(NETWORKS, NETWORK | options), n_inputs, 10)


def test_resnet18_has_the_parameters_that_others_count():
    """11,173,962 for ten classes of 32 x 32 colour images with this stem; a head replaces the readout's 512 inputs."""
    plain = build(choose(NETWORKS, {"name": "resnet18"}), 3072, 10)
    assert sum(parameter.numel() for parameter in plain.parameters()) == 11_173_962
    headed = build(choose(NETWORKS, {"name": "resnet18", "head": 128}), 3072, 10)
    numbers = sum(parameter.numel() for parameter in headed.parameters())
    assert numbers == 11_173_962 - 513 * 10 + 513 * 128 + 129 * 10
    small = build(choose(NETWORKS, {"name": "resnet18", "width": 4, "head": 6, "channels": 1}), 64, 3).eval()
    spec = trace(small, torch.randn(2, 64)).spec
    assert not spec.unsupported and len(spec.groups) == 4 + 2 * 4 + 1
