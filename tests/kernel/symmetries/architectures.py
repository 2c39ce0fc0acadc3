"""Networks of many architectures, as their users write them."""

import torch
from torch import nn
from torch.nn import functional as F


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
