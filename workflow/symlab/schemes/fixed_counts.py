"""How many weights of each layer the W-asymmetric schemes fix; free of torch, so that a config is checked at once."""

from fnmatch import fnmatchcase
from typing import Any

from symlab.errors import UserError
from symlab.schemes import WAsymmetric


def fixed_counts(scheme: WAsymmetric, sizes: dict[str, int]) -> dict[str, int]:
    """Fixed entries in each row of a linear map, or for each input channel of a convolution.

    ``n_fixed`` counts entries, ``fixed_fraction`` is a fraction of the row or channel. Either is one value, a list with
    one for each linear map and convolution in order, or a mapping from shell-style patterns on the path of the map or
    convolution in the network (``groups.1.*.shortcut``) to values, of which the first that matches counts.

    Args:
        scheme: its settings.
        sizes: for each weight (by name, with or without ``.weight``) the entries of a row (the fan-in) or of an input
            channel (out * kh * kw).

    Raises:
        UserError: a list's length is not the number of weights, a weight matches no pattern, a pattern matches nothing,
            or a count leaves nothing to train.
    """
    key = "fixed_fraction" if scheme.n_fixed is None else "n_fixed"
    counts = {}
    for (name, size), amount in zip(sizes.items(), _amounts(key, getattr(scheme, key), sizes), strict=True):
        count = int(amount) if key == "n_fixed" else round(amount * size)
        if count >= size:
            raise UserError(
                f"scheme.{key} = {amount} fixes {count} of the {size} weights in a row (of a convolution: an input "
                f"channel) of {_path(name)}; it must be below that number so that something is left to train."
            )
        counts[name] = count
    return counts


def _path(name: str) -> str:
    return name.removesuffix(".weight")


def _amounts(key: str, value: Any, sizes: dict[str, int]) -> list[Any]:
    if isinstance(value, dict):
        return _matched(key, value, [_path(name) for name in sizes])
    values = value if isinstance(value, list) else [value] * len(sizes)
    if len(values) != len(sizes):
        raise UserError(
            f"scheme.{key} lists {len(values)} values but the network has {len(sizes)} linear maps and convolutions; "
            "give one each."
        )
    return values


def _matched(key: str, patterns: dict[str, Any], paths: list[str]) -> list[Any]:
    for pattern in patterns:
        if not any(fnmatchcase(path, pattern) for path in paths):
            raise UserError(
                f"scheme.{key} has the pattern {pattern!r}, which matches no linear map or convolution of the network "
                f"({', '.join(paths)})."
            )
    amounts = []
    for path in paths:
        fitting = [amount for pattern, amount in patterns.items() if fnmatchcase(path, pattern)]
        if not fitting:
            raise UserError(f"scheme.{key} has no pattern that matches {path}; add one ('*' matches all that is left).")
        amounts.append(fitting[0])
    return amounts
