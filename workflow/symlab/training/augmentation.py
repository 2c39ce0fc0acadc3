"""Random flips and crops of image batches, on the device the data are on; each replica draws its own."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from symlab.seeds import torch_generator


def black_values(mean: float | Sequence[float], std: float | Sequence[float], channels: int) -> tuple[float, ...]:
    """What a pixel of value 0 becomes in each channel: (0 - mean) / std in float32, as the data were normalised."""
    zeros = np.zeros(channels, dtype=np.float32)
    return tuple(((zeros - np.asarray(mean, np.float32)) / np.asarray(std, np.float32)).tolist())


class Augmentation:
    """Zero padding and a random crop back to the image's size, then a random horizontal flip.

    The same distribution as torchvision's ``RandomCrop(size, padding)`` and ``RandomHorizontalFlip`` in this order.
    Flip, row and column offset together are one number, a *view*; a table holds the source pixel of every pixel of
    every view, so that a batch is augmented by one gather, which on the GPU can be part of a CUDA graph.

    Args:
        image: (channels, height, width) of the flattened images.
        black: normalised value of a black pixel for each channel, which the padding takes.
        flip: whether images are mirrored left to right, with probability 1/2.
        crop: padding in pixels; 0 leaves images in place.
    """

    def __init__(
        self, image: tuple[int, int, int], black: Sequence[float], flip: bool, crop: int, device: torch.device
    ):
        self.channels, self.height, self.width = image
        self.black = torch.tensor(black, dtype=torch.float32, device=device)[:, None]
        offsets = torch.arange(-crop, crop + 1)
        rows = torch.arange(self.height) + offsets[:, None]
        columns = torch.arange(self.width) + offsets[:, None]
        if flip:
            columns = torch.cat([columns, columns.flip(1)])
        rows, columns = rows[:, None, :, None], columns[None, :, None, :]
        inside = (rows >= 0) & (rows < self.height) & (columns >= 0) & (columns < self.width)
        outside = self.height * self.width
        self.sources = torch.where(inside, rows * self.width + columns, outside).flatten(2).flatten(0, 1).to(device)

    def draw(self, n: int, *seed: str | int) -> Int[Tensor, " n"]:
        """Views of n images, uniform over offsets and flips, from the generator ``seed``; on the CPU."""
        return torch.randint(len(self.sources), (n,), generator=torch_generator(*seed))

    def __call__(self, x: Float[Tensor, "*r b d"], views: Int[Tensor, "*r b"]) -> Float[Tensor, "*r b d"]:
        """The images' views."""
        pixels = x.unflatten(-1, (self.channels, self.height * self.width))
        padded = torch.cat([pixels, self.black.expand(*pixels.shape[:-1], 1)], dim=-1)
        return padded.gather(-1, self.sources[views].unsqueeze(-2).expand(pixels.shape)).flatten(-2)
