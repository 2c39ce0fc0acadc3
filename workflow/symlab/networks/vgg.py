"""VGG networks for images of 32 pixels a side (Simonyan and Zisserman 2015, Table 1), without normalisation."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from symlab.networks.images import side_of

# Convolutions of each of the five stages, by the number of weight layers; three linear maps follow.
STAGES = {8: (1, 1, 1, 1, 1), 11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3)}
# Channels of the stages in units of the first one's.
GROWTH = (1, 2, 4, 8, 8)


class VGG(nn.Module):
    """Five stages of 3x3 convolutions, each halved by a maximum over 2x2 pixels, and three linear maps; ReLU between.

    Args:
        n_inputs: channels * side^2, side >= 32 (checked by the settings); flat inputs become [n, channels, side, side].
        n_outputs: number of logits.
        width, depth, channels: the keys of ``symlab.networks.VGG``; the linear maps have eight times as many neurons.

    Raises:
        UserError: the inputs are no such images.
    """

    def __init__(self, n_inputs: int, n_outputs: int, width: int, depth: int, channels: int):
        super().__init__()
        side = side_of("vgg", n_inputs, channels)
        self.shape = (channels, side, side)
        stages: list[nn.Module] = []
        n_in = channels
        for convolutions, growth in zip(STAGES[depth], GROWTH, strict=True):
            layers: list[nn.Module] = []
            for _ in range(convolutions):
                layers += [nn.Conv2d(n_in, growth * width, 3, padding=1), nn.ReLU()]
                n_in = growth * width
            stages.append(nn.Sequential(*layers, nn.MaxPool2d(2)))
        self.stages = nn.Sequential(*stages)
        n_hidden = GROWTH[-1] * width
        self.head = nn.Sequential(
            nn.Linear(n_hidden * (side // 32) ** 2, n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, n_hidden),
            nn.ReLU(),
            nn.Linear(n_hidden, n_outputs),
        )

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n c"]:
        return self.head(torch.flatten(self.stages(x.unflatten(1, self.shape)), 1))
