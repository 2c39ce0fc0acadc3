"""What networks descend beside the kernel's losses: a third loss, every token of a text, inputs of each one's own."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from symlab.training.objective import Replica
from symlab.training.on_samples import TrainingData
from symlab.training.samples import losses


def margin_loss(outputs: Float[Tensor, "*r n k"], y: Int[Tensor, "*r n"]) -> Float[Tensor, "*r"]:
    """Mean over samples and wrong classes of max(0, m_y - (z_y - z_j))^2 / 2, with margins m_y = 1 + y / K."""
    K = outputs.shape[-1]
    own = outputs.gather(-1, y.unsqueeze(-1))
    short = (1 + y.unsqueeze(-1) / K - (own - outputs)).clamp_min(0)
    others = 1 - functional.one_hot(y, K).to(outputs)
    return (short.square() * others).sum(dim=-1).mean(dim=-1) / (2 * (K - 1))


@dataclass(frozen=True)
class Margins(TrainingData):
    """Samples whose loss is ``margin_loss``."""

    def losses(self, outputs: Float[Tensor, "*r b k"], targets: Int[Tensor, "*r b"]) -> Float[Tensor, "*r"]:
        return margin_loss(outputs, targets)


@dataclass(frozen=True)
class Tokens(TrainingData):
    """Texts [n, c] each of whose tokens is a sample, with the next one as its target [n, c].

    A context that recurs is one sample whose label is the mix of what follows: a causal network gives it one feature.
    """

    def losses(self, outputs: Float[Tensor, "*r b c k"], targets: Int[Tensor, "*r b c"]) -> Float[Tensor, "*r"]:
        return losses("classification", outputs, targets).mean(dim=-1)

    def hits(self, outputs: Float[Tensor, "*r b c k"], targets: Int[Tensor, "*r b c"]) -> Bool[Tensor, "*r b"]:
        return (outputs.argmax(dim=-1) == targets).all(dim=-1)


@dataclass(frozen=True)
class OwnInputs(TrainingData):
    """Inputs of each network's own: those of all seeds one below the other, with equal labels."""

    seeds: int = 1

    @property
    def n(self) -> int:
        """Samples of each network."""
        return len(self.x_train) // self.seeds

    def _orders(self, members: Sequence[Replica], batch_size: int | None, key: tuple[str, str], epoch: int) -> Tensor:
        return torch.stack([replica.seed * self.n + torch.arange(self.n) for replica in members])
