"""Two latents embedded in R^d by frames of chosen subspace coherence 1/t (paper, appendix F.5)."""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float64

from symlab.data import Coherence
from symlab.data.dataset import Dataset
from symlab.seeds import numpy_rng


def exact_copy(d: int, t: int) -> Float64[np.ndarray, "d 2"]:
    """U_t whose rows 2r-1 and 2r (r = 1..t) are (1, 0)/sqrt(t) and (0, 1)/sqrt(t): t scaled copies of each latent."""
    frame = np.zeros((d, 2))
    frame[0 : 2 * t : 2, 0] = frame[1 : 2 * t : 2, 1] = 1 / np.sqrt(t)
    return frame


def random_frame(d: int, t: int, rng: np.random.Generator) -> Float64[np.ndarray, "d 2"]:
    """U_t whose rows pi(2r-1) and pi(2r) (r = 1..t) are a plane rotation by theta_r over sqrt(t).

    The permutation pi and all angles theta_r ~ Unif(0, pi) are drawn whatever t is, so one generator state gives the
    same ones at every t.
    """
    order = rng.permutation(d)
    angles = rng.uniform(0, np.pi, size=d // 2)[:t]
    frame = np.zeros((d, 2))
    frame[order[0 : 2 * t : 2]] = np.stack([np.cos(angles), np.sin(angles)], axis=1) / np.sqrt(t)
    frame[order[1 : 2 * t : 2]] = np.stack([-np.sin(angles), np.cos(angles)], axis=1) / np.sqrt(t)
    return frame


def load(spec: Coherence, data_dir: Path | None) -> Dataset:
    """Regression of ReLU(a + b) on x = U_t (a, b), (a, b) ~ N(0, I_2); extras hold ``U`` = U_t [d, 2].

    The latents depend on ``seed`` alone and are shared by all t and both embeddings. There is no validation data: the
    val split is empty.
    """
    d, t, seed, embedding = spec.d, spec.t, spec.seed, spec.embedding
    frame = exact_copy(d, t) if embedding == "exact_copy" else random_frame(d, t, numpy_rng("coherence", "frame", seed))
    arrays: dict[str, Any] = {}
    for name, n in (("train", spec.n_train), ("val", 0), ("test", spec.n_test)):
        latents = numpy_rng("coherence", name, seed).standard_normal((n, 2))
        arrays[f"x_{name}"] = (latents @ frame.T).astype(np.float32)
        arrays[f"y_{name}"] = np.maximum(latents.sum(axis=1), 0).astype(np.float32)
    return Dataset(
        **arrays,
        task="regression",
        n_classes=1,
        extras={"U": frame.astype(np.float32)},
        provenance={"source": "coherence", "embedding": embedding, "t": t, "d": d, "nu": 1 / t, "seed": seed},
    )
