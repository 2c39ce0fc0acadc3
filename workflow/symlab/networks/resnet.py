"""ResNets for small images (He et al. 2016): ResNet20 with group norms, as in the main paper's App. F.2; ResNet18."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.networks.images import side_of

WIDTHS = (16, 32, 64)
BLOCKS = 3


class Block(nn.Module):
    """relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut(x)).

    The shortcut is the identity, or a normalised 1x1 convolution where the stride or the number of channels changes.
    """

    def __init__(self, n_in: int, n_out: int, stride: int, norm: Callable[[int], nn.Module]):
        super().__init__()
        self.conv1 = nn.Conv2d(n_in, n_out, 3, stride, padding=1, bias=False)
        self.norm1 = norm(n_out)
        self.conv2 = nn.Conv2d(n_out, n_out, 3, padding=1, bias=False)
        self.norm2 = norm(n_out)
        projects = stride != 1 or n_in != n_out
        self.shortcut = nn.Conv2d(n_in, n_out, 1, stride, bias=False) if projects else nn.Identity()
        self.shortcut_norm = norm(n_out) if projects else nn.Identity()

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n m i j"]:
        inner = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(inner)) + self.shortcut_norm(self.shortcut(x)))


class _ResNet(nn.Module):
    """A 3x3 convolution, groups of residual blocks, of which all but the first halve the side, the mean over pixels."""

    def __init__(
        self,
        name: str,
        n_inputs: int,
        channels: int,
        widths: Sequence[int],
        blocks: int,
        norm: Callable[[int], nn.Module],
    ):
        super().__init__()
        side = side_of(name, n_inputs, channels)
        self.image = (channels, side, side)
        self.stem = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
        self.stem_norm = norm(widths[0])
        self.groups = nn.ModuleList()
        for n_in, width in pairwise([widths[0], *widths]):
            first = Block(n_in, width, 2 if self.groups else 1, norm)
            self.groups.append(nn.Sequential(first, *(Block(width, width, 1, norm) for _ in range(blocks - 1))))

    def _pooled(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n m"]:
        x = torch.relu(self.stem_norm(self.stem(x.unflatten(1, self.image))))
        for group in self.groups:
            x = group(x)
        return x.mean(dim=(2, 3))


class ResNet20(_ResNet):
    """A 3x3 convolution, three groups of three residual blocks, the mean over pixels and a linear map.

    Args:
        n_inputs: channels * side^2; inputs are flat and become [n, channels, side, side].
        n_outputs: number of logits.
        width_multiplier, norm_groups, channels: the keys of ``symlab.networks.ResNet20`` (8 times in the paper).

    Raises:
        UserError: the inputs are no square images of ``channels`` channels.
    """

    def __init__(self, n_inputs: int, n_outputs: int, width_multiplier: int, norm_groups: int, channels: int):
        widths = [width * width_multiplier for width in WIDTHS]
        super().__init__("resnet20", n_inputs, channels, widths, BLOCKS, partial(nn.GroupNorm, norm_groups))
        self.readout = nn.Linear(widths[-1], n_outputs)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        return self.readout(self._pooled(x))

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``stream<g>`` for what block group g adds up, ``inner<g>.<b>`` within its block b."""
        names = {"stem": "stream1"}
        for g, group in enumerate(self.groups, start=1):
            for b in range(1, BLOCKS + 1):
                path = f"groups.{g - 1}.{b - 1}"
                names |= {f"{path}.conv1": f"inner{g}.{b}", f"{path}.conv2": f"stream{g}"}
                if isinstance(group.get_submodule(f"{b - 1}.shortcut"), nn.Conv2d):
                    names[f"{path}.shortcut"] = f"stream{g}"
        return names


class ResNet18(_ResNet):
    """ResNet18 with a stem for small images: a 3x3 convolution, four groups of two residual blocks, batch norms.

    Args:
        n_inputs: channels * side^2; inputs are flat and become [n, channels, side, side].
        n_outputs: number of logits.
        width, head, channels: the keys of ``symlab.networks.ResNet18`` (a width of 64 in the original).

    Raises:
        UserError: the inputs are no square images of ``channels`` channels.
    """

    def __init__(self, n_inputs: int, n_outputs: int, width: int, head: int | None, channels: int):
        widths = [width * 2**group for group in range(4)]
        super().__init__("resnet18", n_inputs, channels, widths, 2, nn.BatchNorm2d)
        self.hidden = None if head is None else nn.Linear(widths[-1], head)
        self.readout = nn.Linear(widths[-1] if head is None else head, n_outputs)

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        x = self._pooled(x)
        return self.readout(x if self.hidden is None else torch.relu(self.hidden(x)))
