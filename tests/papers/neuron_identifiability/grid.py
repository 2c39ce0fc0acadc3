"""Tables with a row for each combination of values, and what the tables of the room's studies have in common."""

import itertools

import numpy as np
import pandas as pd

DESCRIPTION = ["study", "variant", "family", "scheme", "sigma_F", "fixed_fraction", "activation", "norm", "dataset"]
DESCRIPTION += ["source", "classes", "k", "embedding", "t", "target_nu"]
# name: (scheme, sigma_F, activation)
ARCHITECTURES = {
    "standard": ("standard", np.nan, "gelu"),
    "w_0": ("w_asymmetric", 0.0, "gelu"),
    "w_1": ("w_asymmetric", 1.0, "gelu"),
    "w_3": ("w_asymmetric", 3.0, "gelu"),
    "syre": ("syre", 1.0, "gelu"),
    "sigma_mlp": ("standard", np.nan, "sigma"),
}
OTHER_SCHEMES = {"sparse": ("sparse", np.nan, "gelu"), "residual": ("residual", np.nan, "gelu")}
IDENTIFIABLE = ("w_1", "w_3", "syre")


def described(variant, **columns):
    scheme, sigma_F, activation = (ARCHITECTURES | OTHER_SCHEMES)[variant]
    description = dict.fromkeys(DESCRIPTION, np.nan)
    description |= {"study": "study", "variant": variant, "family": variant.split("_")[0], "norm": "layernorm"}
    description |= {"source": "digits", "classes": 10}
    return description | {"scheme": scheme, "sigma_F": sigma_F, "activation": activation, "dataset": "digits"} | columns


def noisy(value, index):
    """The value with a deviation that averages out over pairs of indices."""
    return value + (0.01 if index % 2 else -0.01)


def rows_for(**axes):
    """A table with a row for each combination of values, which the decorated function gives (None: there is none)."""

    def decorate(row):
        def build():
            made = (row(**dict(zip(axes, at, strict=True))) for at in itertools.product(*axes.values()))
            return pd.DataFrame([each for each in made if each is not None])

        return build

    return decorate


PAIRS, SEEDS, LAMBDAS = range(4), range(4), np.linspace(0, 1, 7)
KINDS, SPLITS, ALIGNED = ("optimal", "identity", "random"), ("train", "test"), (False, True)
TRAINED = ("standard", "w_0", "w_1", "w_3", "syre")
