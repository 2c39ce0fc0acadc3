"""The networks symlab can train and the schemes for their fixed parts, by the names used in the config: a line each."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from symlab.errors import UserError

if TYPE_CHECKING:
    from torch import nn

# Named, not imported: the Snakefile checks a config against these names and must not wait for torch.
SCHEMES = {
    "standard": "symlab.networks.symmetry:standard",
    "w_asymmetric": "symlab.networks.symmetry:w_asymmetric",
    "w_asymmetric_heads": "symlab.networks.head_masks:w_asymmetric_heads",
    "syre": "symlab.networks.symmetry:syre",
    "sparse": "symlab.networks.symmetry:sparse",
    "residual": "symlab.networks.symmetry:residual",
}
NETWORKS = {
    "mlp": "symlab.networks.mlp:MLP",
    "coherence_student": "symlab.networks.coherence_student:CoherenceStudent",
    "resnet20": "symlab.networks.resnet:ResNet20",
    "vgg": "symlab.networks.vgg:VGG",
    "vit": "symlab.networks.vit:ViT",
}


def build(network: dict[str, Any], n_inputs: int, n_outputs: int) -> nn.Module:
    """The module that the config block ``network`` describes, with parameters of torch's own initialisation.

    Raises:
        UserError: the network's name is not in ``NETWORKS``.
    """
    options = dict(network)
    name = options.pop("name")
    if name not in NETWORKS:
        raise UserError(f"network.name is {name!r}; known networks are {', '.join(sorted(NETWORKS))}.")
    return resolve_name(NETWORKS[name])(n_inputs=n_inputs, n_outputs=n_outputs, **options)
