"""PyTorch's Adam for many runs at once, each with a rate, beta1 and number of steps of its own, unlike ``updates``."""

import numpy as np
from jaxtyping import Float

EPSILON = 1e-8


class Adam:
    """Means of gradients and of their squares, of weights [..., runs, d]; ``beta1`` None keeps no mean of gradients."""

    def __init__(self, weights: Float[np.ndarray, "..."], beta1: np.ndarray | None, beta2: float) -> None:
        self.beta1, self.beta2 = None if beta1 is None else beta1[:, None], beta2
        self.mean, self.square = np.zeros_like(weights), np.zeros_like(weights)
        self.count = np.zeros(weights.shape[-2])

    def restart(self, runs: np.ndarray) -> None:
        """Forget all gradients of some runs."""
        self.mean[..., runs, :] = self.square[..., runs, :] = 0
        self.count[runs] = 0

    def direct(self, gradient: np.ndarray) -> None:
        """Turn a gradient, in place, into what the rate times it is to be taken off the weights."""
        self.count += 1
        self.square *= self.beta2
        self.square += (1 - self.beta2) * np.square(gradient)
        size = self.square / (1 - self.beta2**self.count)[:, None]
        np.sqrt(size, out=size)
        size += EPSILON
        if self.beta1 is not None:
            self.mean *= self.beta1
            self.mean += (1 - self.beta1) * gradient
            np.divide(self.mean, 1 - self.beta1 ** self.count[:, None], out=gradient)
        gradient /= size
