"""How many weights of each layer the W-asymmetric scheme fixes; free of torch, so that a config is checked at once."""

from __future__ import annotations

from typing import Any

from symlab.errors import UserError


def fixed_counts(scheme: dict[str, Any], fan_ins: dict[str, int]) -> dict[str, int]:
    """Fixed entries in each row (neuron) of each weight matrix for the W-asymmetric scheme.

    ``n_fixed`` counts entries, ``fixed_fraction`` is a fraction of the fan-in; either is one value or one a layer.

    Raises:
        UserError: the list's length is not the number of layers, or a count is not below the layer's fan-in.
    """
    key = "n_fixed" if "n_fixed" in scheme else "fixed_fraction"
    value = scheme[key]
    values = value if isinstance(value, list) else [value] * len(fan_ins)
    if len(values) != len(fan_ins):
        raise UserError(
            f"scheme.{key} lists {len(values)} values but the network has {len(fan_ins)} linear layers; give one each."
        )
    counts = {}
    for (name, fan_in), amount in zip(fan_ins.items(), values, strict=True):
        count = int(amount) if key == "n_fixed" else round(amount * fan_in)
        if count >= fan_in:
            raise UserError(
                f"scheme.{key} = {amount} fixes {count} of the {fan_in} inputs of {name}; "
                "it must be below the fan-in so that something is left to train."
            )
        counts[name] = count
    return counts
