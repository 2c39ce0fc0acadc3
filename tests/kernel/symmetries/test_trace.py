import numpy as np
import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F

from symlab.alignment.permute import permute
from symlab.networks import MLP, CoherenceStudent, build
from symlab.symmetries.symmetry_spec import Concat, Group, Product, columns, identity, random_permutations, shape
from symlab.symmetries.trace import trace


def conv_norm(n_in, n_out, kernel=3, stride=1, groups=1, norm=nn.BatchNorm2d):
    return nn.Sequential(nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, groups=groups, bias=False), norm(n_out))


class VGG(nn.Sequential):
    def __init__(self):
        super().__init__(
            conv_norm(3, 6), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(6, 5, 3, padding=1), nn.ReLU(),
            nn.AvgPool2d(2), nn.Flatten(), nn.Linear(20, 7), nn.ReLU(), nn.Dropout(0.5), nn.Linear(7, 3),
        )  # fmt: skip


class BasicBlock(nn.Module):
    def __init__(self, n_in, n_out, stride=1, norm=nn.BatchNorm2d, inner=None):
        super().__init__()
        inner = inner or n_out
        self.first = conv_norm(n_in, inner, 3, stride, norm=norm)
        self.second = conv_norm(inner, n_out, norm=norm)
        self.shortcut = nn.Identity() if n_in == n_out else conv_norm(n_in, n_out, 1, stride, norm=norm)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.second(self.relu(self.first(x)))
        y += self.shortcut(x)
        return self.relu(y)


class Bottleneck(nn.Module):
    def __init__(self, n_in, n_out, inner, stride=1, groups=1):
        super().__init__()
        self.reduce = conv_norm(n_in, inner, 1)
        self.mix = conv_norm(inner, inner, 3, stride, groups=groups)
        self.expand = conv_norm(inner, n_out, 1)
        self.shortcut = nn.Identity() if n_in == n_out else conv_norm(n_in, n_out, 1, stride)

    def forward(self, x):
        y = torch.relu(self.mix(torch.relu(self.reduce(x))))
        return torch.relu(self.expand(y) + self.shortcut(x))


class PreActivationBlock(nn.Module):
    def __init__(self, n_in, n_out, stride=1):
        super().__init__()
        self.norm1, self.conv1 = nn.BatchNorm2d(n_in), nn.Conv2d(n_in, n_out, 3, stride, 1)
        self.norm2, self.conv2 = nn.BatchNorm2d(n_out), nn.Conv2d(n_out, n_out, 3, 1, 1)
        self.shortcut = nn.Conv2d(n_in, n_out, 1, stride) if n_in != n_out else None

    def forward(self, x):
        y = torch.relu(self.norm1(x))
        kept = x if self.shortcut is None else self.shortcut(y)
        return kept + self.conv2(torch.relu(self.norm2(self.conv1(y))))


class ResNet(nn.Module):
    def __init__(self, stem, blocks, n_features):
        super().__init__()
        self.stem, self.blocks, self.fc = stem, nn.Sequential(*blocks), nn.Linear(n_features, 3)

    def forward(self, x):
        x = self.blocks(torch.relu(self.stem(x)))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class ResNet20(ResNet):
    def __init__(self, norm=nn.BatchNorm2d):
        widths = [(4, 4, 1), (4, 4, 1), (4, 4, 1), (4, 6, 2), (6, 6, 1), (6, 6, 1), (6, 8, 2), (8, 8, 1), (8, 8, 1)]
        super().__init__(conv_norm(3, 4, norm=norm), [BasicBlock(*width, norm=norm) for width in widths], 8)

    def group_names(self):
        names = {"stem.0": "stream1", "blocks.3.second.0": "stream2", "blocks.6.second.0": "stream3"}
        return names | {f"blocks.{n}.first.0": f"inner{n // 3 + 1}.{n % 3 + 1}" for n in range(9)}


class PaddedShortcut(nn.Module):
    """A block whose shortcut subsamples and pads with zero channels, as in the first CIFAR ResNets."""

    def __init__(self):
        super().__init__()
        self.stem, self.first, self.second = conv_norm(3, 4), conv_norm(4, 10, 3, 2), conv_norm(10, 10)
        self.fc = nn.Linear(10, 3)

    def forward(self, x):
        x = torch.relu(self.stem(x))
        y = self.second(torch.relu(self.first(x)))
        y = torch.relu(y + F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, 3, 3)))
        return self.fc(y.mean((2, 3)))


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(4 + 3 * n) for n in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(4 + 3 * n, 3, 3, padding=1) for n in range(3))
        self.fc = nn.Linear(13, 3)

    def forward(self, x):
        features = [self.stem(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            features.append(conv(torch.relu(norm(torch.cat(features, 1)))))
        return self.fc(torch.cat(features, 1).mean((2, 3)))


class SqueezeExcitation(nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.down, self.up = nn.Linear(channels, inner), nn.Linear(inner, channels)

    def forward(self, x):
        scale = torch.sigmoid(self.up(torch.relu(self.down(x.mean((2, 3))))))
        return x * scale[:, :, None, None]


class InvertedResidual(nn.Module):
    def __init__(self, channels, inner):
        super().__init__()
        self.expand, self.depthwise = conv_norm(channels, inner, 1), conv_norm(inner, inner, groups=inner)
        self.excite, self.project = SqueezeExcitation(inner, 5), conv_norm(inner, channels, 1)

    def forward(self, x):
        y = F.relu6(self.depthwise(F.hardswish(self.expand(x))))
        return x + self.project(self.excite(y))


class GroupNormNet(nn.Module):
    """A residual stream normalised in 3 groups of 4 channels."""

    def __init__(self):
        super().__init__()
        self.stem, self.inner, self.back = nn.Conv2d(3, 12, 3), nn.Conv2d(12, 6, 1), nn.Conv2d(6, 12, 1)
        self.norm1, self.norm2, self.fc = nn.GroupNorm(3, 12), nn.GroupNorm(2, 6), nn.Linear(12, 3)
        self.square = nn.Conv2d(12, 12, 3, padding=1)

    def forward(self, x):
        x = self.stem(x)
        x = x + self.back(torch.relu(self.norm2(self.inner(torch.relu(self.norm1(x))))))
        x = x + self.square(F.gelu(x))
        return self.fc(x.amax((2, 3)))


class Attention(nn.Module):
    def __init__(self, dim, heads, head_dim, packed, causal=False):
        super().__init__()
        self.heads, self.packed, self.causal = heads, packed, causal
        inner = heads * head_dim
        if packed:
            self.qkv = nn.Linear(dim, 3 * inner)
        else:
            self.q, self.k, self.v = (nn.Linear(dim, inner) for _ in range(3))
        self.out = nn.Linear(inner, dim)

    def forward(self, x):
        batch, tokens, _ = x.shape
        if self.packed == "unbind":
            q, k, v = self.qkv(x).reshape(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        else:
            parts = self.qkv(x).chunk(3, -1) if self.packed else (self.q(x), self.k(x), self.v(x))
            q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(batch, tokens, -1))


class TransformerBlock(nn.Module):
    def __init__(self, dim, attention):
        super().__init__()
        self.norm1, self.attention, self.norm2 = nn.LayerNorm(dim), attention, nn.LayerNorm(dim)
        self.up, self.down = nn.Linear(dim, 9), nn.Linear(9, dim)

    def forward(self, x):
        y = self.norm1(x)
        x = x + (self.attention(y, y, y)[0] if isinstance(self.attention, nn.MultiheadAttention) else self.attention(y))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class ViT(nn.Module):
    def __init__(self, *blocks, dim=12):
        super().__init__()
        self.patches = nn.Conv2d(3, dim, 4, 4)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.position = nn.Parameter(torch.zeros(1, 5, dim))
        self.blocks, self.norm, self.head = nn.Sequential(*blocks), nn.LayerNorm(dim), nn.Linear(dim, 3)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.shape[0], -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def vit(packed):
    return ViT(TransformerBlock(12, Attention(12, 3, 4, packed)), TransformerBlock(12, Attention(12, 2, 5, packed)))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(11, 8), nn.Embedding(6, 8)
        self.blocks = nn.Sequential(TransformerBlock(8, ManualAttention()))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, x):
        x = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        return self.head(self.norm(self.blocks(x)))


class ManualAttention(nn.Module):
    """nanoGPT's attention without the fused operation."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.register_buffer("mask", torch.tril(torch.ones(6, 6)).view(1, 1, 6, 6), persistent=False)

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(8, dim=2)
        q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / k.size(-1) ** 0.5)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        return self.c_proj((F.softmax(scores, -1) @ v).transpose(1, 2).contiguous().view(b, t, c))


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down1, self.down2 = conv_norm(3, 4), conv_norm(4, 6)
        self.up, self.merge = nn.ConvTranspose2d(6, 5, 2, 2), nn.Conv2d(9, 7, 3, padding=1)
        self.out = nn.Conv2d(7, 2, 1)

    def forward(self, x):
        skip = torch.relu(self.down1(x))
        deep = torch.relu(self.down2(F.max_pool2d(skip, 2)))
        y = torch.relu(self.merge(torch.cat([skip, self.up(deep)], 1)))
        return self.out(F.interpolate(y, scale_factor=2, mode="bilinear"))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.enter, self.again, self.leave = nn.Linear(3, 6), nn.Linear(6, 6, bias=False), nn.Linear(6, 2)

    def forward(self, x):
        h = torch.zeros(x.shape[0], 6, dtype=x.dtype)
        for step in range(4):
            h = torch.tanh(self.enter(x[:, step]) + self.again(h))
        return self.leave(h)


class TiedAutoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.code, self.bias = nn.Linear(7, 6), nn.Linear(6, 4), nn.Parameter(torch.zeros(6))

    def forward(self, x):
        code = torch.relu(self.code(torch.relu(self.encode(x))))
        return torch.relu(code @ self.code.weight + self.bias) @ self.encode.weight


class Experts(nn.Module):
    """Expert networks in one tensor: experts permute, and hidden neurons within each."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(5, 4)
        self.first, self.second = nn.Parameter(torch.zeros(4, 5, 6)), nn.Parameter(torch.zeros(4, 6, 3))

    def forward(self, x):
        hidden = torch.relu(torch.einsum("bi,eih->beh", x, self.first))
        return torch.einsum("beh,eho,be->bo", hidden, self.second, torch.softmax(self.gate(x), -1))


class Mixer(nn.Module):
    """Token mixing: hidden tokens permute as neurons do."""

    def __init__(self):
        super().__init__()
        self.embed, self.tokens1, self.tokens2 = nn.Linear(4, 6), nn.Linear(5, 7), nn.Linear(7, 5)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        x = self.embed(x)
        x = x + self.tokens2(F.gelu(self.tokens1(x.mT))).mT
        return self.head(x.mean(1))


class Latents(nn.Module):
    """Learned queries attend to the input and are averaged: they permute among themselves."""

    def __init__(self):
        super().__init__()
        self.latents, self.k, self.v = nn.Parameter(torch.zeros(5, 6)), nn.Linear(4, 6), nn.Linear(4, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        q = self.latents.expand(x.shape[0], -1, -1)
        return self.head(torch.relu(F.scaled_dot_product_attention(q, self.k(x), self.v(x))).mean(1))


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
    for name, tensor in module.state_dict(keep_vars=True).items():
        twin = next((other for other in state if module.state_dict(keep_vars=True)[other] is tensor), None)
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
