"""Flips and crops against a loop over images, and which views are drawn."""

import numpy as np
import pytest
import torch

from symlab.data.dataset import normalise
from symlab.training.augmentation import Augmentation, black_values

CPU = torch.device("cpu")
IMAGE, BLACK = (3, 8, 6), (-1.5, 0.25, 2.0)


def one_by_one(x, views, flip, crop):
    """Pad, crop, then flip each image of [n, d] by its view's offsets."""
    channels, height, width = IMAGE
    offsets = 2 * crop + 1
    results = []
    for image, view in zip(x.numpy().reshape(-1, *IMAGE), views.tolist(), strict=True):
        row, rest = divmod(view, offsets * (2 if flip else 1))
        mirrored, column = divmod(rest, offsets)
        padded = np.empty((channels, height + 2 * crop, width + 2 * crop), dtype=np.float32)
        for channel in range(channels):
            padded[channel] = BLACK[channel]
            padded[channel, crop : crop + height, crop : crop + width] = image[channel]
        cropped = padded[:, row : row + height, column : column + width]
        results.append((cropped[:, :, ::-1] if mirrored else cropped).reshape(-1))
    return torch.from_numpy(np.stack(results))


@pytest.mark.parametrize("flip", [False, True])
@pytest.mark.parametrize("crop", [0, 1, 3])
def test_a_batch_equals_a_loop_over_images(flip, crop):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, 50, 144, generator=generator)
    augmentation = Augmentation(IMAGE, BLACK, flip, crop, CPU)
    views = augmentation.draw(200, "seed").view(4, 50)
    augmented = augmentation(x, views)
    for r in range(4):
        expected = one_by_one(x[r], views[r], flip, crop)
        assert torch.equal(augmented[r], expected)
        assert torch.equal(augmentation(x[r], views[r]), expected)


def test_all_offsets_and_flips_are_equally_likely():
    augmentation = Augmentation(IMAGE, BLACK, True, 2, CPU)
    n, kinds = 40_000, 5 * 5 * 2
    counts = augmentation.draw(n, "seed").bincount()
    assert len(counts) == kinds
    assert (counts - n / kinds).abs().max() < 5 * (n / kinds) ** 0.5
    image = torch.arange(144.0)
    assert len(torch.unique(augmentation(image.expand(kinds, -1), torch.arange(kinds)), dim=0)) == kinds


@pytest.mark.parametrize(("mean", "std"), [(0.13, 0.31), ((0.49, 0.48, 0.45), (0.25, 0.24, 0.26))])
def test_padding_is_what_a_black_pixel_is_normalised_to(mean, std):
    black = np.zeros((1, 3), dtype=np.uint8)
    expected = normalise(black, mean, std)
    assert np.array_equal(np.float32(black_values(mean, std, 3)), expected[0])
