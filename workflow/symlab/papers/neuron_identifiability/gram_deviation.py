"""How far the Gram matrices S_i are from mu_D I, against the bound (main paper, Thm. 4.4)."""

import pandas as pd
from jaxtyping import Float
from torch import Tensor

from symlab.identifiability.gram import gram_deviations
from symlab.identifiability.subspace import coherence
from symlab.papers.neuron_identifiability.bounds import bernstein_moments, gram_deviation_bound, squared_moments
from symlab.schemes import Scheme
from symlab.schemes.fixed_parts import sample_fixed_parts


def gram_deviation_table(
    D: Float[Tensor, "m d"] | None,
    U: Float[Tensor, "d k"],
    m: int,
    scheme: Scheme,
    delta: float,
    independent: bool,
    *seed: str | int,
) -> pd.DataFrame:
    """Deviations |S_i - mu_D I|_op of a layer's m neurons, with its own masks and with masks drawn anew.

    Thm. 4.4 is about masks drawn independently of the subspace. The subspace of the data is independent of a network's
    own masks, which were drawn without the data. That of a deeper layer's inputs is not: it comes from training this
    layer and the ones before. Fresh masks from the same scheme fulfil the assumption in every layer; so do those of
    ``w_asymmetric``, whose entries are not independent, with the constants of ``bernstein_moments``, which are used for
    the bound, while the columns sigma_D2 and b_D are the moments of an entry.

    Args:
        D: the network's own masks; None stands for D = 1.
        U: an orthonormal basis of the layer's input subspace.
        m: the layer's neurons.
        scheme: with this layer's count (``layer_scheme``).
        delta: the probability with which the bound may fail, for one neuron and for all.
        independent: whether U is independent of D, that is, whether this is the first layer.
        seed: names the draw of the fresh masks.

    Returns:
        Two rows, ``masks`` own and fresh: moments of d^2, the largest deviation, ``bound`` for one neuron
        and ``bound_all`` for all, ``share_above`` of the neurons above the first, ``assumption`` where one fails.
    """
    d, k = U.shape
    nu = coherence(U)
    moments = squared_moments(scheme, d)
    proxies = bernstein_moments(scheme, d)
    bound = gram_deviation_bound(proxies, nu, k, delta)
    [(_, fresh)] = sample_fixed_parts(scheme, {"weight": (m, d)}, *seed, "fresh masks").values()
    rows = []
    for masks, diagonals in (("own", D), ("fresh", fresh)):
        deviations = gram_deviations(diagonals, U, moments.mu_D, m).numpy()
        # Without randomness there is nothing that U could depend on.
        depends = masks == "own" and not independent and moments.sigma_D2 > 0
        rows.append(
            {"masks": masks, "k_subspace": k, "nu": nu, **moments._asdict()}
            | {"deviation_max": float(deviations.max())}
            | {"delta": delta, "bound": bound, "bound_all": gram_deviation_bound(proxies, nu, k, delta / m)}
            | {"share_above": float((deviations > bound).mean()), "assumption": "U depends on D" if depends else ""}
        )
    return pd.DataFrame(rows)
