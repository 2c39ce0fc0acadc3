"""How many inputs a measure passes through the networks of a study at once."""

import torch
from jaxtyping import Float
from torch import Tensor

from symlab.alignment.forward import batch_rows
from symlab.device import is_accelerator
from symlab.training.models import Models

# With 1,024 digits at a time an H200 waited for the calls: 5 s for a pair's curves, whose products take a fifth of one.
ROWS_OF_MLPS_ON_A_GPU = 8192


def rows_at_once(models: Models, x: Float[Tensor, "n d"], device: torch.device | str) -> int:
    """Rows of x: as for any network, but more of multilayer perceptrons on a GPU, whose activations are small."""
    small = models.header["network"]["name"] == "mlp"
    return ROWS_OF_MLPS_ON_A_GPU if small and is_accelerator(device) else batch_rows(x, device)
