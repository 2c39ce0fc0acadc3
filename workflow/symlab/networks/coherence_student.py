"""The one-hidden-layer student of the coherence experiment (main paper, Appendix F.5)."""

from jaxtyping import Float
from torch import Tensor, nn

from symlab.errors import UserError


class CoherenceStudent(nn.Module):
    """f(x) = sum_i relu(w_i x + b_i): output weights are fixed to 1, so only the hidden layer is trained."""

    def __init__(self, n_inputs: int, width: int, n_outputs: int = 1):
        super().__init__()
        if n_outputs != 1:
            raise UserError(f"network coherence_student has one output, but the data set asks for {n_outputs}.")
        self.linears = nn.ModuleList([nn.Linear(n_inputs, width)])
        self.activations = nn.ModuleList([nn.ReLU()])

    def forward(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 1"]:
        return self.activations[0](self.linears[0](x)).sum(dim=-1, keepdim=True)

    def group_names(self) -> dict[str, str]:
        """Names in tables: ``hidden1`` for the neurons."""
        return {"linears.0": "hidden1"}
