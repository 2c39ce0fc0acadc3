import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call

from symlab.alignment.permute import permute
from symlab.networks import MLP, CoherenceStudent, build
from symlab.symmetries.symmetry_spec import Concat, Group, Product, identity, random_permutations, shape
from symlab.symmetries.trace import trace

from .architectures import (
    GPT,
    VGG,
    BasicBlock,
    Bottleneck,
    DenseNet,
    Experts,
    GroupNormNet,
    InvertedResidual,
    Latents,
    Mixer,
    PaddedShortcut,
    PreActivationBlock,
    Recurrent,
    ResNet,
    ResNet20,
    TiedAutoencoder,
    TransformerBlock,
    UNet,
    ViT,
    conv_norm,
    vit,
)
from .nets import columns

IMAGE, FLAT = (3, 8, 8), (6,)


def mlp(**options):
    return build(MLP(name="mlp", widths=[5, 4], **options), 6, 3)


def heads(path, n, qk, v):
    """Groups of an attention layer with packed projections: heads, query/key and value dimensions within them."""
    return {path: (n,), f"{path}:1": (n, qk), f"{path}:2": (n, v)}


# For each architecture: the network, the shape of an input, and the expected groups (sizes, outer groups' first).
ARCHITECTURES = {
    "mlp, layer norm": (lambda: mlp(), FLAT, {"hidden1": (5,), "hidden2": (4,)}),
    "mlp, batch norm": (lambda: mlp(norm="batchnorm"), FLAT, {"hidden1": (5,), "hidden2": (4,)}),
    "mlp, sigma": (lambda: mlp(activation="sigma"), FLAT, {"hidden1": (5,), "hidden2": (4,)}),
    "coherence student": (
        lambda: build(CoherenceStudent(name="coherence_student", width=7), 6, 1),
        FLAT,
        {"hidden1": (7,)},
    ),
    "vgg": (VGG, IMAGE, {"0.0": (6,), "3": (5,), "7": (7,)}),
    "resnet20": (
        ResNet20,
        IMAGE,
        {"stream1": (4,), "stream2": (6,), "stream3": (8,)}
        | {f"inner{stage}.{n}": (width,) for stage, width in ((1, 4), (2, 6), (3, 8)) for n in (1, 2, 3)},
    ),
    "resnet18, group norm": (
        lambda: ResNet(
            nn.Conv2d(3, 4, 3), [BasicBlock(4, 4, norm=lambda n: nn.GroupNorm(1, n), inner=5), BasicBlock(4, 6, 2)], 6
        ),
        IMAGE,
        {"stem": (4,), "blocks.0.first.0": (5,), "blocks.1.first.0": (6,), "blocks.1.second.0": (6,)},
    ),
    "resnet50": (
        lambda: ResNet(conv_norm(3, 4), [Bottleneck(4, 8, 3), Bottleneck(8, 8, 3), Bottleneck(8, 10, 5, 2)], 10),
        IMAGE,
        {
            "stem.0": (4,), "blocks.0.reduce.0": (3,), "blocks.0.mix.0": (3,), "blocks.0.expand.0": (8,),
            "blocks.1.reduce.0": (3,), "blocks.1.mix.0": (3,), "blocks.2.reduce.0": (5,), "blocks.2.mix.0": (5,),
            "blocks.2.expand.0": (10,),
        },
    ),
    "resnext": (
        lambda: ResNet(conv_norm(3, 4), [Bottleneck(4, 8, 6, groups=3), Bottleneck(8, 8, 6, groups=2)], 8),
        IMAGE,
        {
            "stem.0": (4,), "blocks.0.reduce.0": (3,), "blocks.0.reduce.0:1": (3, 2), "blocks.0.mix.0:1": (3, 2),
            "blocks.0.expand.0": (8,), "blocks.1.reduce.0": (2,), "blocks.1.reduce.0:1": (2, 3),
            "blocks.1.mix.0:1": (2, 3),
        },
    ),
    "pre-activation resnet": (
        lambda: ResNet(nn.Conv2d(3, 4, 3), [PreActivationBlock(4, 4), PreActivationBlock(4, 6, 2)], 6),
        IMAGE,
        {"stem": (4,), "blocks.0.conv1": (4,), "blocks.1.shortcut": (6,), "blocks.1.conv1": (6,)},
    ),
    "padded shortcut": (
        PaddedShortcut,
        IMAGE,
        {"stem.0": (4,), "first.0": (10,), "second.0": (3,), "second.0:2": (3,)},
    ),
    "densenet": (DenseNet, IMAGE, {"stem": (4,), "convs.0": (3,), "convs.1": (3,), "convs.2": (3,)}),
    "mobilenet": (
        lambda: ResNet(conv_norm(3, 4), [InvertedResidual(4, 6), InvertedResidual(4, 7)], 4),
        IMAGE,
        {
            "stem.0": (4,), "blocks.0.expand.0": (6,), "blocks.0.excite.down": (5,),
            "blocks.1.expand.0": (7,), "blocks.1.excite.down": (5,),
        },
    ),
    "group norm": (
        GroupNormNet, IMAGE, {"stem": (3,), "stem:1": (3, 4), "inner": (2,), "inner:1": (2, 3)}
    ),
    "vit, separate": (
        lambda: vit(""),
        IMAGE,
        {
            "patches": (12,), "blocks.0.up": (9,), "blocks.1.up": (9,),
            "blocks.0.attention.q": (3,), "blocks.0.attention.q:1": (3, 4), "blocks.0.attention.v:1": (3, 4),
            "blocks.1.attention.q": (2,), "blocks.1.attention.q:1": (2, 5), "blocks.1.attention.v:1": (2, 5),
        },
    ),
    **{
        f"vit, {packed}": (
            lambda packed=packed: vit(packed),
            IMAGE,
            {"patches": (12,), "blocks.0.up": (9,), "blocks.1.up": (9,)}
            | heads("blocks.0.attention.qkv", 3, 4, 4)
            | heads("blocks.1.attention.qkv", 2, 5, 5),
        )
        for packed in ("chunk", "unbind")
    },
    "vit, nn.MultiheadAttention": (
        lambda: ViT(TransformerBlock(12, nn.MultiheadAttention(12, 3, batch_first=True))),
        IMAGE,
        {"patches": (12,), "blocks.0.up": (9,)} | heads("blocks.0.attention.in_proj_weight", 3, 4, 4),
    ),
    "vit, nn.TransformerEncoderLayer": (
        lambda: ViT(nn.TransformerEncoderLayer(12, 2, 7, batch_first=True), dim=12),
        IMAGE,
        {"patches": (12,), "blocks.0.linear1": (7,)} | heads("blocks.0.self_attn.in_proj_weight", 2, 6, 6),
    ),
    "gpt": (GPT, 6, {"tokens": (8,), "blocks.0.up": (9,)} | heads("blocks.0.attention.c_attn", 2, 4, 4)),
    "u-net": (UNet, IMAGE, {"down1.0": (4,), "down2.0": (6,), "up": (5,), "merge": (7,)}),
    "recurrent": (Recurrent, (4, 3), {"enter": (6,)}),
    "tied autoencoder": (TiedAutoencoder, (7,), {"encode": (6,), "code": (4,)}),
    "experts": (Experts, (5,), {"first": (4,), "first:1": (4, 6)}),
    "mixer": (Mixer, (5, 4), {"embed": (6,), "tokens1": (7,)}),
    "latents": (Latents, (3, 4), {"k": (6,), "v": (6,), "latents": (5,)}),
}  # fmt: skip


def network(make, input_shape, seed=0):
    """The network in double precision, a state without any coincidence, and a batch of inputs."""
    torch.manual_seed(seed)
    module = make().double().eval()
    state = {}
    entries = module.state_dict(keep_vars=True)
    for name, tensor in entries.items():
        twin = next((other for other in state if entries[other] is tensor), None)
        if twin is not None:
            state[name] = state[twin]
        elif not tensor.is_floating_point():
            state[name] = tensor.detach()
        elif tensor.dim() > 1:
            state[name] = torch.randn_like(tensor) / (tensor.numel() / tensor.shape[0]) ** 0.5
        else:
            state[name] = 0.5 + torch.rand_like(tensor)
    if isinstance(input_shape, int):
        return module, state, torch.randint(11, (5, input_shape))
    return module, state, torch.randn(5, *input_shape, dtype=torch.float64)


def difference(module, state, other, x):
    """Largest change of an output, relative to the largest output."""
    with torch.no_grad():
        before, after = (functional_call(module, tensors, (x,), tie_weights=False) for tensors in (state, other))
    return float((after - before).abs().max() / before.abs().max())


@pytest.fixture(scope="module")
def traced_networks():
    made = {}

    def get(name):
        if name not in made:
            module, state, x = network(*ARCHITECTURES[name][:2])
            made[name] = (module, state, x, trace(module, x[:2]))
        return made[name]

    return get


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_permutations_of_the_expected_groups_keep_the_function(name, traced_networks):
    module, state, x, traced = traced_networks(name)
    spec = traced.spec
    assert spec.unsupported == ()
    assert {group: shape(group, spec.groups) for group in spec.groups} == ARCHITECTURES[name][2]
    assert spec.axes.keys() == state.keys()
    everything = random_permutations(spec, np.random.default_rng(1))
    assert difference(module, state, permute(state, spec, everything), x) < 1e-12
    for group in spec.groups:
        alone = {**identity(spec), group: np.roll(identity(spec)[group], 1, axis=-1)}
        permuted = permute(state, spec, alone)
        assert any(not torch.equal(permuted[key], state[key]) for key in state), group
        assert difference(module, state, permuted, x) < 1e-12


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_recorded_values_are_permuted_as_their_axes_say(name, traced_networks):
    _, state, x, traced = traced_networks(name)
    spec = traced.spec
    permutations = random_permutations(spec, np.random.default_rng(2))
    values = {point.value for points in spec.points.values() for point in points}
    before = traced.values(state, x, values)
    covered = {outer for group in spec.points for outer in spec.groups[group].within}
    assert covered | spec.points.keys() == spec.groups.keys()
    for group, points in spec.points.items():
        pi = permutations[group].reshape(-1, spec.groups[group].size)
        outer = [permutations[name] for name in spec.groups[group].within]
        assert len(outer) < 2
        # Other groups stay: they would renumber the rows.
        moved = {name: permutations[name] for name in (group, *spec.groups[group].within)}
        after = traced.values(permute(state, spec, identity(spec) | moved), x, values)
        source = outer[0] if outer else np.zeros(1, dtype=int)
        index = (source[:, None] * pi.shape[1] + pi).reshape(-1)
        assert len({point.value for point in points}) == len(points)
        for point in points:
            a, b = (columns(v[point.value], point.axes, group, spec.groups) for v in (before, after))
            assert len(a) == len(b) > 0
            for of_a, of_b in zip(a, b, strict=True):
                torch.testing.assert_close(of_b, of_a[:, torch.as_tensor(index)], rtol=1e-9, atol=1e-9)


def test_resnet20_has_its_known_spec(traced_networks):
    spec = traced_networks("resnet20")[3].spec
    axes = {"fc.weight": (None, "stream3"), "fc.bias": (None,)}

    def conv_norm_axes(path, n_out, n_in):
        axes[f"{path}.0.weight"] = (n_out, n_in, None, None)
        axes.update({f"{path}.1.{name}": (n_out,) for name in ("weight", "bias", "running_mean", "running_var")})
        axes[f"{path}.1.num_batches_tracked"] = ()

    conv_norm_axes("stem", "stream1", None)
    for n in range(9):
        stage, block = n // 3 + 1, n % 3 + 1
        stream, inner = f"stream{stage}", f"inner{stage}.{block}"
        enters = f"stream{stage - 1}" if n in (3, 6) else stream
        conv_norm_axes(f"blocks.{n}.first", inner, enters)
        conv_norm_axes(f"blocks.{n}.second", stream, inner)
        if n in (3, 6):
            conv_norm_axes(f"blocks.{n}.shortcut", stream, enters)
    assert spec.axes == axes
    assert all(group.within == () for group in spec.groups.values())
    counts = {group: len(points) for group, points in spec.points.items()}
    inner = {f"inner{stage}.{block}": 1 for stage in (1, 2, 3) for block in (1, 2, 3)}
    assert counts == {"stream1": 4, "stream2": 3, "stream3": 3, **inner}
    assert all(len(point.axes) == 4 for points in spec.points.values() for point in points)


def test_recording_points_come_after_norm_and_activation(traced_networks):
    for name in ("resnet20", "vgg"):
        _, state, x, traced = traced_networks(name)
        values = {point.value for points in traced.spec.points.values() for point in points}
        for value in traced.values(state, x, values).values():
            assert value.min() == 0.0


def mlp_axes(norm, activation):
    """The symmetries of an MLP with two hidden layers, written by hand."""
    per_norm = {"layernorm": ("weight", "bias"), "batchnorm": ("weight", "bias", "running_mean", "running_var")}
    axes = {"linears.2.weight": (None, "hidden2"), "linears.2.bias": (None,)}
    for n, (group, enters) in enumerate((("hidden1", None), ("hidden2", "hidden1"))):
        axes |= {f"linears.{n}.weight": (group, enters), f"linears.{n}.bias": (group,)}
        axes |= {f"norms.{n}.{name}": (group,) for name in per_norm.get(norm, ())}
        axes |= {f"norms.{n}.num_batches_tracked": ()} if norm == "batchnorm" else {}
        axes |= {f"activations.{n}.C": (group, group)} if activation == "sigma" else {}
    return axes


@pytest.mark.parametrize("norm", ["layernorm", "batchnorm", "none"])
@pytest.mark.parametrize("activation", ["gelu", "sigma"])
def test_the_mlp_has_its_known_spec(norm, activation):
    spec = trace(mlp(norm=norm, activation=activation), torch.zeros(2, 6)).spec
    assert spec.axes == mlp_axes(norm, activation)
    assert spec.groups == {"hidden1": Group(5), "hidden2": Group(4)}
    assert [point.axes for point in spec.points["hidden2"]] == [(None, "hidden2")]


def test_names_of_parameters_are_no_operations():
    layers = {"empty": nn.Linear(6, 5), "relu": nn.ReLU(), "new_zeros": nn.Linear(5, 3)}
    module = nn.Sequential()
    for name, layer in layers.items():
        module.add_module(name, layer)
    axes = trace(module, torch.zeros(2, 6)).spec.axes
    (group,) = {axis for each in axes.values() for axis in each} - {None}
    assert axes["empty.weight"] == (group, None) and axes["new_zeros.weight"] == (None, group)


def test_axes_of_packed_attention(traced_networks):
    path = "blocks.0.attention"
    spec = traced_networks("vit, unbind")[3].spec
    qk = Product((f"{path}.qkv", f"{path}.qkv:1"))
    value = Product((f"{path}.qkv", f"{path}.qkv:2"))
    assert spec.axes[f"{path}.qkv.weight"] == (Concat((qk, qk, value)), "patches")
    assert spec.axes[f"{path}.out.weight"] == ("patches", value)
    assert spec.axes["position"] == (None, None, "patches")
