"""How far a classifier is from neural collapse, layer by layer, as a function: ``from symlab import collapse``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from symlab.alignment.forward import outputs, watching
from symlab.batches import leaves, prediction
from symlab.connectivity.objective import IGNORED
from symlab.errors import UserError
from symlab.measures.collapse import ClassSums, collapse_metrics, row_space
from symlab.measures.collapse_bounds import certified_alignment, certified_collapse, certified_frame, least_loss
from symlab.own.layers import layers_on_the_way, named_layers
from symlab.own.models import Models, load_models
from symlab.own.modules import foreign, some
from symlab.products import fast_products
from symlab.words import counted

SAME = 1e-4
"""Relative difference up to which a linear map's outputs are the network's."""
BOUNDED = {"NC1": "NC1", "NC2": "NC2A", "NC3": "NC3_centred"}
"""What a loss bounds, and its column of ``Collapse.parts``."""
IN_WORDS = {"NC1": "NC1", "NC2": "NC2 of the readout", "NC3": "NC3 with rows centred"}


@dataclass(frozen=True, repr=False)
class Collapse:
    """How far a classifier is from neural collapse; printed, in sentences and a table.

    Attributes:
        name: the network's class.
        readout: the linear map whose outputs are the network's; what it reads are the features.
        layers: a row a part of the data and layer, the last of which is ``features``: ``size`` of what is measured;
            NC1, scatter within classes over that between them, its share in the readout's row space (``NC1_row``) and
            beyond (``NC1_null``); NC2, distance of the class means from a simplex; NC3, 1 - mean cosine with the
            readout's row. What needs the readout is NaN where sizes differ.
        parts: a row a part (``train``, ``test``): samples, classes, samples of the largest class over those of the
            least (``imbalance``), cross-entropy (``loss``), accuracy, and of the features all of
            ``symlab.measures.collapse.collapse_metrics``, NC2A and NC2B of the readout's weights among them.
        bounds: of training the largest NC1, NC2A of the readout and NC3 (rows centred) that the loss allows; empty if
            there is no such certificate.
        excess: the loss that the certificate is of, over the least of free features as large as these.
        remarks: sentences: why there is no certificate, which layers were taken, which classes have no samples.
    """

    name: str
    readout: str
    layers: pd.DataFrame
    parts: pd.DataFrame
    bounds: dict[str, float]
    excess: float
    remarks: tuple[str, ...]

    def __str__(self) -> str:
        lines = [f"{self.name}: features are what {self.readout!r} reads."]
        for _, row in self.parts.iterrows():
            shares = f"{row['NC1_row']:.3g} of it in the row space of the readout, {row['NC1_null']:.3g} beyond"
            lines.append(
                f"{row['part']}: {counted(row['samples'], 'samples')} of {row['classes']} classes, the largest of "
                f"which has {row['imbalance']:.3g} times the least; cross-entropy {row['loss']:.4g}, accuracy "
                f"{row['accuracy']:.1%}. NC1 is {row['NC1']:.3g} ({shares}); the readout's NC2 {row['NC2A']:.3g} from "
                f"a simplex and {row['NC2B']:.3g} from orthogonal rows; NC3 {row['NC3']:.3g}."
            )
        if self.bounds:
            told = self.parts.iloc[0]
            limits = [
                f"{IN_WORDS[name]} up to {most:.3g} ({told[BOUNDED[name]]:.3g} here)"
                for name, most in self.bounds.items()
            ]
            lines.append(
                f"A network of this loss and decay, {self.excess:.1%} over the least of free features, can have "
                f"{', '.join(limits)}, however it is built."
            )
        table = self.layers.to_string(index=False, float_format="{:.3g}".format, na_rep="-")
        return "\n".join([*lines, *(f"  {row}" for row in table.splitlines()), *self.remarks])

    def __repr__(self) -> str:
        return f"Collapse({self.name}, {self.layers['layer'].nunique()} layers)"


@fast_products()
def collapse(
    module: nn.Module | str,
    data: Any,
    *,
    weights: Any = None,
    test: Any = None,
    readout: str | None = None,
    layers: Sequence[str] = (),
    token: int | None = None,
    penalty: float | None = None,
    **options: Any,
) -> Collapse:
    """Measure a classifier's neural collapse (Súkeník, Lampert, Mondelli 2025, Section 3) on labelled data.

    Args:
        module: a network whose outputs are those of a linear map, or ``pkg.module:function`` that builds it.
        data: what it was trained on, inputs and labels, as ``symlab.align`` takes them; labels of every token count as
            samples.
        weights: in any form that ``symlab.align`` takes; by default the module's own.
        test: further data.
        readout: name of the linear map; by default the last one whose outputs are the network's.
        layers: names of modules whose outputs are measured, or patterns such as ``blocks.*``; by default the blocks
            that lie one after another on the way from inputs to outputs, which are named in ``remarks``.
        token: of layers that give [n, tokens, d] the token whose features are taken; by default all outputs of a layer
            together are a sample's features.
        penalty: the readout's weight decay in training, as torch.optim.SGD has it, for the certificate.
        options: ``samples``, ``batch_size``, ``seed``, ``device`` and ``folder``, as of ``symlab.align``.

    Raises:
        UserError: something does not fit; there are no labels, or fewer than two classes; there is no such readout.
    """
    parts = {"train": data} | ({} if test is None else {"test": test})
    models = {part: load_models(module, {"the weights": weights}, source, **options) for part, source in parts.items()}
    train = models["train"]
    if penalty is not None and not penalty > 0:
        raise UserError(f"the penalty is {penalty}; it is the weight decay of the readout, which must be above 0.")
    name, own = _readout(train, readout)
    chosen = named_layers(train.module, layers) if layers else layers_on_the_way(train, name if own else "")
    names = [each for each in chosen if each != name]
    found = {part: _Part(part, each, name, names, token) for part, each in models.items()}
    first = found["train"]
    bounds, excess, remarks = _certificate(first, penalty, own)
    if not layers:
        taken = some([each for each in first.sums if each != "features"], 6)
        remarks += (f"Layers were not named; these were taken: {taken}. Others are chosen by layers (--layers).",)
    for part in found.values():
        if missing := len(part.W_all) - part.K:
            have = "has" if missing == 1 else "have"
            remarks += (f"{missing} of the {len(part.W_all)} classes {have} no samples in {part.name}: left out.",)
    return Collapse(
        train.name,
        name,
        pd.DataFrame([row for part in found.values() for row in part.rows()]),
        pd.DataFrame([part.summary() for part in found.values()]),
        bounds,
        excess,
        (*train.remarks, *remarks),
    )


class _Part:
    """Features and layers of one part of the data, measured batch by batch; only the features are kept."""

    def __init__(self, part: str, models: Models, readout: str, layers: list[str], token: int | None):
        labels = _labels(models)
        counted = labels.flatten() != IGNORED
        present, self.y = labels.flatten()[counted].unique(return_inverse=True)
        self.name, self.K = part, len(present)
        if self.K < 2:
            raise UserError(f"the labels of {part} hold one class only; collapse is told of two and more.")
        state = models.network.by_all_names(models.states[0])
        if f"{readout}.weight" not in state:
            raise UserError(f"the weights of {readout!r} are made of other parameters (by a norm of weights, say).")
        self.W_all = state[f"{readout}.weight"].double().cpu()
        if len(self.W_all) <= int(present.max()):
            raise UserError(
                f"{readout!r} has fewer rows than classes; collapse is told of readouts with a row for each."
            )
        self.W = self.W_all[present.cpu()]
        V = row_space(self.W, shifts=False)
        classes = torch.full((int(present.max()) + 1,), -1).to(present)
        classes[present] = torch.arange(self.K).to(present)
        self.sums: dict[str, ClassSums] = {}
        features, losses, hits = [], [], 0
        for x, y in zip(models.inputs().split(models.rows), labels.split(models.rows), strict=True):
            with watched(models.module, [*layers, readout]) as seen, foreign(f"computing {models.name}"):
                output = prediction(outputs(models.module, models.states[0], x))
            if output.shape[:-1] != y.shape:
                raise UserError(
                    f"labels of shape {('n', *y.shape[1:])} need outputs of shape {('n', *y.shape[1:], 'classes')}, "
                    f"not {('n', *output.shape[1:])}: collapse is told of labels of one class each."
                )
            kept = y.flatten() != IGNORED
            H = _features(seen, readout, output)[kept]
            flat = y.flatten()[kept]
            logits = output.flatten(0, -2)[kept].double()
            hits += int((logits.argmax(1) == flat).sum())
            losses.append(functional.cross_entropy(logits, flat, reduction="none").cpu())
            features.append(H.cpu())
            for layer in layers:
                if (read := _of_samples(seen.get(layer), y, token)) is not None:
                    sums = self.sums.setdefault(layer, ClassSums(self.K, self.W, V))
                    sums.add(read[kept].double().cpu(), classes[flat].cpu())
        self.y, self.accuracy = self.y.cpu(), hits / len(self.y)
        self.H, self.loss = torch.cat(features).double(), torch.cat(losses)
        self.sums["features"] = ClassSums(self.K, self.W, V).add(self.H, self.y)
        self.counts = torch.bincount(self.y, minlength=self.K)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Of ``Collapse.layers``."""
        for layer, sums in self.sums.items():
            yield {"part": self.name, "layer": layer, "size": sums.size, **sums.metrics()}

    def summary(self) -> dict[str, Any]:
        """Of ``Collapse.parts``."""
        metrics = {name: float(value) for name, value in collapse_metrics(self.H, self.W, self.y).items()}
        imbalance = float(self.counts.max() / self.counts.min())
        return {"part": self.name, "samples": len(self.y), "classes": self.K, "imbalance": imbalance,
                "loss": float(self.loss.mean()), "accuracy": self.accuracy, **metrics}  # fmt: skip

    def by_class(self, values: Float[Tensor, " n"]) -> float:
        """The mean over classes of their means."""
        return float((torch.zeros(self.K).to(values).index_add_(0, self.y, values) / self.counts).mean())


def _certificate(part: _Part, penalty: float | None, own: bool) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """``Collapse.bounds`` and ``excess``; or why there are none.

    With each class counted alike, features of mean square D about the mean of class means, and the loss, G(tr Sigma_B)
    is at most the loss. Counted by samples, scatter and 1 - cosine are larger by the largest class's share times K at
    most.
    """
    if penalty is None:
        return {}, float("nan"), ("No certificate: it needs the readout's weight decay in training (penalty).",)
    if not own:
        return {}, float("nan"), ("No certificate: the network's outputs are not those of the readout.",)
    squares = part.H.square().sum(1)
    total = part.by_class(part.loss) + penalty / 2 * float(part.W_all.square().sum())
    D = part.by_class((part.H - part.sums["features"].means().mean(0)).square().sum(1))
    share = float(part.counts.max() / len(part.y)) * part.K
    bounds = {
        "NC1": share * certified_collapse(total, D, part.K, penalty),
        "NC2": certified_frame(total, D, part.K, penalty),
        "NC3": min(share * certified_alignment(total, float(squares.max()), part.K, penalty), 2.0),
    }
    return bounds, total / least_loss(D, part.K, penalty) - 1, ()


@contextmanager
def watched(module: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What modules read first and give, (input, output) by name, while a block runs; of several calls the last."""
    seen: dict[str, Any] = {}

    def see(name: str, inputs: tuple[Any, ...], output: Any) -> None:
        tensors = leaves(output)
        # A copy, for what follows may change it in place.
        seen[name] = (inputs[0] if inputs else None, tensors[0].clone() if tensors else None)

    with watching(module, names, see):
        yield seen


def _labels(models: Models) -> Int[Tensor, "n ..."]:
    y = models.y
    if y is None or models.task != "classification" or y.is_floating_point():
        raise UserError("collapse is told of classes: give labels y in the data, as integers.")
    return y


def _readout(models: Models, name: str | None) -> tuple[str, bool]:
    """The name of the linear map that gives the outputs, and whether it does (one that is named need not).

    Raises:
        UserError: there is none, or none of that name.
    """
    linear = [each for each, part in models.module.named_modules() if isinstance(part, nn.Linear)]
    if name is not None and name not in linear:
        raise UserError(
            f"readout is {name!r}, but {models.name} has no nn.Linear of that name; it has {some(linear, 6)}."
        )
    with watched(models.module, linear) as seen, foreign(f"computing {models.name}"):
        output = prediction(outputs(models.module, models.states[0], models.inputs()[:2]))
    giving = [each for each in seen if _place(seen[each][1], output) is not None]
    if name is None and not giving:
        raise UserError(
            f"no nn.Linear of {models.name} gives its outputs, of shape {('n', *output.shape[1:])}; name the one whose "
            "inputs are the features (readout)."
        )
    chosen = giving[-1] if name is None else name
    return chosen, chosen in giving


def _place(given: Tensor | None, output: Tensor) -> Tensor | None:
    """Of which token a linear map's outputs [n, ..., k] are the network's, for each sample; -1: of all they are.

    None where they are not.
    """
    if given is None or given.shape[-1] != output.shape[-1]:
        return None
    scale = SAME * output.abs().max().clamp_min(1e-30)
    if given.shape == output.shape:
        return torch.full((len(output),), -1) if bool(((given - output).abs() <= scale).all()) else None
    if given.dim() != 3 or output.dim() != 2:
        return None
    apart = (given - output[:, None]).abs().amax(2)
    return apart.argmin(1) if bool((apart.amin(1) <= scale).all()) else None


def _features(seen: Mapping[str, Any], readout: str, output: Tensor) -> Float[Tensor, "n d"]:
    """What the readout reads of each sample."""
    if readout not in seen:
        raise UserError(f"{readout!r} is not called when the network is computed.")
    read, given = seen[readout]
    place = _place(given, output)
    if place is not None and int(place[0]) >= 0:
        return read[torch.arange(len(read)), place]
    flat = read.flatten(0, -2)
    if len(flat) != output[..., 0].numel():
        raise UserError(
            f"{readout!r} reads inputs of shape {('n', *read.shape[1:])}, of which each of the outputs, of shape "
            f"{('n', *output.shape[1:])}, would need one; name another readout."
        )
    return flat


def _of_samples(seen: tuple[Any, Tensor | None] | None, y: Tensor, token: int | None) -> Float[Tensor, "n d"] | None:
    """A layer's outputs, a row a label; None if it has none for each."""
    given = None if seen is None else seen[1]
    if given is None or not given.is_floating_point() or given.dim() < 2:
        return None
    if y.dim() == 2:
        return given.flatten(0, 1) if given.dim() == 3 and given.shape[:2] == y.shape else None
    if len(given) != len(y):
        return None
    if token is not None and given.dim() == 3:
        if not -given.shape[1] <= token < given.shape[1]:
            raise UserError(f"token is {token}, but a layer has {given.shape[1]} tokens.")
        return given[:, token]
    return given.flatten(1)
