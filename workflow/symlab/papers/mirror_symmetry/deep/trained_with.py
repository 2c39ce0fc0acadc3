"""How networks were trained, as figures of this paper tell them apart: parametrisation, decay, and its budget."""

from typing import Any

from symlab.training.models import Models
from symlab.training.schedule import learning_rate
from symlab.training.settings import Recipe


def trained_with(models: Models, samples: int) -> dict[str, Any]:
    """``trained_as``, the parametrisation or way of training, ``weight_decay`` (or ``l1``) and ``budget``.

    The budget B = sum of rates * decay / (1 - momentum) is by how much decay alone lowers ln|theta|: plain parameters
    shrink by e^-B and products by e^-2B, whatever the number of epochs. ``samples`` are those of training.
    """
    recipe, scheme = Recipe(**models.header["recipe"]), models.header["scheme"]
    steps = -(-samples // (recipe.batch_size or samples))
    rates = sum(learning_rate(recipe, step, steps) for step in range(recipe.epochs * steps))
    kind = parametrisation_of(scheme) if not recipe.l1 else "proximal SGD"
    return {
        "trained_as": kind if recipe.decay_bias else f"{kind}, weights alone decayed",
        "weight_decay": recipe.weight_decay or recipe.l1,
        "budget": rates * recipe.weight_decay / (1 - momentum_of(recipe)),
    }


def momentum_of(recipe: Recipe) -> float:
    """Of SGD; other optimizers have none that lengthens steps."""
    return recipe.momentum if recipe.optimizer == "sgd" else 0.0


def parametrisation_of(scheme: dict[str, Any]) -> str:
    """What a scheme makes of parameters: plain, products (and how they start), rows, pairs."""
    if scheme["name"] == "hadamard":
        start = {"on_mirror": " on mirrors", "independent": ", independent"}.get(scheme.get("start", ""), "")
        return f"products{start}"
    return scheme.get("mirror") or "by parameter" if scheme["name"] == "dcs" else "plain"
