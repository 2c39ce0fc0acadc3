"""What rotations are worth: midpoints of transformers trained from several seeds, by the group that aligns them.

- ``python benchmarks/rotations.py train NAME FOLDER`` trains the networks of one name that FOLDER does not hold yet;
- ``python benchmarks/rotations.py measure NAME FOLDER`` aligns all pairs of them and writes the rows to
  benchmarks/rotations/NAME.csv;
- ``python benchmarks/rotations.py learn NAME FOLDER`` learns the alignment of each network with the next one, and with
  an untrained one, and writes the rows to benchmarks/rotations/learned-NAME.csv;
- ``python benchmarks/rotations.py table`` writes their means into docs/how-to/align.md, and what becomes of the claim.

The claim (ours), set before a control was run: of what learning the maps gains on the closed form, in held-out accuracy
of the midpoint, an untrained network in B's place reaches at least ``NEARLY``. It holds if the 95 % t interval of the
mean share, one value a network A, lies above that, and fails if it lies below. ``NEARLY`` stands for "nearly as well";
three pairs of earlier ViTs, trained otherwise, gave 0.92. A are the networks of one name (digits: n = 4), each with the
next one as B. The rate of descent was chosen among three by the training loss of the first pair.

GPT-2, Llama and BERT take the extra ``models``, their texts and MNIST the data of ``SYMLAB_DATA``.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pandas as pd
import torch
from safetensors.torch import load_file, save_file
from scipy import stats
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from symlab import align, trace
from symlab.alignment.averaging import average
from symlab.data import Imdb
from symlab.data.imdb import load as load_imdb
from symlab.data.mnist import _images_and_labels
from symlab.networks.vit import ViT

VOCABULARY, CONTEXT = 2000, 64


@dataclass(frozen=True)
class Trained:
    """Networks of one architecture: how one is built, on which data, and how many seeds are trained for how long."""

    build: Callable[[], nn.Module]
    data: Callable[[], tuple[Tensor, Tensor, Tensor, Tensor]]
    seeds: int
    epochs: int
    rate: float = 1e-3


def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """1,297 digits to train on, 500 held out."""
    from sklearn.datasets import load_digits

    x, y = (torch.tensor(each) for each in load_digits(return_X_y=True))
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    x, y = x[order].float() / 16, y[order]
    return x[:-500], y[:-500], x[-500:], y[-500:]


def mnist() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """20,000 images to train on, 2,000 of the test images."""
    found = []
    for part, n in (("train", 20_000), ("test", 2_000)):
        x, y = _images_and_labels(part, Path(os.environ["SYMLAB_DATA"]))
        found += [torch.tensor(x[:n]).float().flatten(1) / 255, torch.tensor(y[:n]).long()]
    return tuple(found)  # type: ignore[return-value]


def words() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first words of reviews and the word after each: 14,000 or so to train on, 1,000 of the test files."""
    spec = Imdb(source="imdb", vocabulary=VOCABULARY, context=CONTEXT + 1, n_samples=None)
    of = load_imdb(spec, Path(os.environ["SYMLAB_DATA"]))
    train, held_out = (torch.tensor(x).long() for x in (of.x_train, of.x_test[:1000]))
    return train[:, :-1], train[:, 1:], held_out[:, :-1], held_out[:, 1:]


def reviews() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The first words of reviews and whether they praise: 20,000 or so to train on, 2,000 of the test files."""
    spec = Imdb(source="imdb", vocabulary=VOCABULARY, context=CONTEXT, n_samples=None)
    of = load_imdb(spec, Path(os.environ["SYMLAB_DATA"]))
    rows = torch.randperm(len(of.x_test), generator=torch.Generator().manual_seed(0))[:2000]
    x, y = (torch.tensor(each).long() for each in (of.x_test, of.y_test))
    return torch.tensor(of.x_train).long(), torch.tensor(of.y_train).long(), x[rows], y[rows]


class Logits(nn.Module):
    """The logits of a model of transformers."""

    def __init__(self, network: nn.Module):
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Tensor:
        return self.network(x).logits


def gpt2() -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    sizes = {"n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": CONTEXT, "vocab_size": VOCABULARY}
    options = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0, "use_cache": False}
    options |= {"bos_token_id": 0, "eos_token_id": 0}
    return Logits(GPT2LMHeadModel(GPT2Config(tie_word_embeddings=False, **sizes, **options)))


def llama() -> nn.Module:
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    sizes |= {"intermediate_size": 176, "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    return Logits(LlamaForCausalLM(LlamaConfig(tie_word_embeddings=False, use_cache=False, **sizes)))


def bert() -> nn.Module:
    from transformers import BertConfig, BertForSequenceClassification

    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    options = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 2}
    sizes |= {"vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT}
    return Logits(BertForSequenceClassification(BertConfig(**sizes, **options)))


NETWORKS = {
    "digits": Trained(lambda: ViT(64, 10, 2, 48, 2, 4, 2, 1), digits, seeds=4, epochs=60),
    "mnist": Trained(lambda: ViT(784, 10, 7, 64, 4, 4, 2, 1), mnist, seeds=3, epochs=6),
    "gpt2": Trained(gpt2, words, seeds=3, epochs=3, rate=2e-3),
    "llama": Trained(llama, words, seeds=3, epochs=3, rate=2e-3),
    "bert": Trained(bert, reviews, seeds=3, epochs=3),
}


def train(name: str, folder: Path) -> None:
    """Train the networks that the folder does not hold yet."""
    of = NETWORKS[name]
    x, y, *held_out = of.data()
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(of.seeds):
        path = folder / f"{name}-{seed}.safetensors"
        if path.exists():
            continue
        torch.manual_seed(seed)
        network = of.build()
        optimiser = torch.optim.AdamW(network.parameters(), of.rate, weight_decay=0.01)
        steps = of.epochs * (len(x) // 64)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, of.rate, total_steps=steps)
        for epoch in range(of.epochs):
            for rows in torch.randperm(len(x)).split(64)[: len(x) // 64]:
                optimiser.zero_grad()
                loss = cross_entropy(network(x[rows]).flatten(0, -2), y[rows].flatten())
                loss.backward()
                optimiser.step()
                schedule.step()
            print(f"{name} {seed} epoch {epoch + 1}: {score(network, *held_out)}", flush=True)
        save_file({key: each.contiguous() for key, each in network.state_dict().items()}, path)


@torch.no_grad()
def score(network: nn.Module, x: Tensor, y: Tensor) -> tuple[float, float]:
    """Loss and accuracy in percent."""
    logits = torch.cat([network.eval()(rows) for rows in x.split(250)])
    network.train()
    loss = cross_entropy(logits.flatten(0, -2), y.flatten())
    return round(float(loss), 4), round(100 * float((logits.argmax(-1) == y).float().mean()), 2)


WAYS = [
    ("permutation", "activation"),
    ("permutation", "weight"),
    ("signed", "activation"),
    ("orthogonal", "activation"),
    ("full", "activation"),
    ("orthogonal", "weight"),
    ("full", "weight"),
]


def measure(name: str, folder: Path) -> None:
    """Loss and accuracy of the midpoints of all pairs, matched on 1,000 of the samples that they were trained on."""
    of = NETWORKS[name]
    x, _, *held_out = of.data()
    network = of.build().eval().requires_grad_(False)
    states = [load_file(folder / f"{name}-{seed}.safetensors") for seed in range(of.seeds)]
    traced = trace(network, x[:2])
    rows = []

    def add(pair: tuple[int, int], way: str, state: dict[str, Tensor]) -> None:
        network.load_state_dict(state)
        loss, accuracy = score(network, *held_out)
        rows.append({"network": name, "A": pair[0], "B": pair[1], "way": way, "loss": loss, "accuracy": accuracy})

    for pair in combinations(range(of.seeds), 2):
        A, B = (states[n] for n in pair)
        for way, state in (("A", A), ("B", B), ("plain", {key: (A[key] + B[key]) / 2 for key in A})):
            add(pair, way, state)
        for group, method in WAYS:
            aligned = align(network, A, B, x[:1000], method, group=group, traced=traced)
            add(pair, f"{group}, {method}s", aligned.interpolate(0.5))
        print(pd.DataFrame(rows[-10:]).to_string(), flush=True)
    KEPT.mkdir(exist_ok=True)
    pd.DataFrame(rows).to_csv(KEPT / f"{name}.csv", index=False)


NEARLY = 0.8
CLOSED, LEARNED, CONTROL = "closed form, full", "learned, full", "learned, full, B untrained"


def learn(name: str, folder: Path) -> None:
    """Loss and accuracy of midpoints on samples that neither training nor learning saw."""
    of = NETWORKS[name]
    x, y, *held_out = of.data()
    network = of.build().eval().requires_grad_(False)
    states = [load_file(folder / f"{name}-{seed}.safetensors") for seed in range(of.seeds)]
    traced = trace(network, x[:2])
    rows = []
    for a in range(of.seeds):
        b = (a + 1) % of.seeds
        torch.manual_seed(1000 + a)
        data, options = (x, y), {"group": "full", "traced": traced, "seed": a}
        learned = align(network, states[a], states[b], data, learn=300, untrained=of.build(), **options)
        midpoints = {
            CLOSED: align(network, states[a], states[b], data, **options).interpolate(0.5),
            LEARNED: learned.interpolate(0.5),
            CONTROL: average([learned.start, learned.learned.control]),
        }
        for way, state in midpoints.items():
            network.load_state_dict(state)
            loss, accuracy = score(network.requires_grad_(False), *held_out)
            rows.append({"network": name, "A": a, "B": b, "way": way, "loss": loss, "accuracy": accuracy})
        print(pd.DataFrame(rows[-3:]).to_string(), flush=True)
        print(learned.learned, flush=True)
    pd.DataFrame(rows).to_csv(KEPT / f"learned-{name}.csv", index=False)


def learned_lines(name: str) -> list[str]:
    """A table of what learning reaches, and the claim's verdict."""
    rows = pd.read_csv(KEPT / f"learned-{name}.csv")
    by_way = rows.groupby("way", sort=False)[["loss", "accuracy"]].agg(["mean", "sem"])
    lines = ["| midpoint | loss | accuracy |", "|---|---|---|"]
    for way, of in by_way.iterrows():
        cells = (f"{of[what, 'mean']:.2f} ± {of[what, 'sem']:.2f}" for what in ("loss", "accuracy"))
        lines.append(f"| {way} | {' | '.join(cells)} |")
    wide = rows.pivot(index="A", columns="way", values="accuracy")
    share = (wide[CONTROL] - wide[CLOSED]) / (wide[LEARNED] - wide[CLOSED])
    half = float(stats.t.ppf(0.975, len(share) - 1) * share.sem())
    low, high = share.mean() - half, share.mean() + half
    verdict = "held" if low > NEARLY else "failed" if high < NEARLY else "undecided"
    told = (
        f"Of what learning gains an untrained B reaches {share.mean():.2f} (95 % t interval {low:.2f} to {high:.2f}, "
        f"n = {len(share)} networks A; set before: at least {NEARLY}): **{verdict}**."
    )
    return [*lines, "", told]


def table() -> None:
    """Write the means over pairs, with their standard errors, into the page."""
    learned = [learned_lines(name) for name in NETWORKS if (KEPT / f"learned-{name}.csv").exists()]
    before, _, rest = PAGE.read_text().partition(START_LEARNED)
    told = [line for lines in learned for line in lines]
    PAGE.write_text("\n".join([before + START_LEARNED, *told, END_LEARNED]) + rest.partition(END_LEARNED)[2])
    before, _, after = PAGE.read_text().partition(START)
    rows = pd.concat([pd.read_csv(KEPT / f"{name}.csv") for name in NETWORKS if (KEPT / f"{name}.csv").exists()])
    rows = rows.replace({"way": {"A": "alone", "B": "alone"}})
    # Each network is an end of several pairs.
    rows = rows[(rows.way != "alone") | ~rows.duplicated(["way", "network", "loss", "accuracy"])]
    cells = rows.groupby(["way", "network"], sort=False)
    shown = cells[["loss", "accuracy"]].agg(["mean", "sem"])
    ways, names = (list(dict.fromkeys(shown.index.get_level_values(level))) for level in ("way", "network"))
    lines = ["| aligned by | " + " | ".join(TITLES[name] for name in names) + " |", "|---" * (len(names) + 1) + "|"]
    for way in ways:
        found = [shown.loc[way, name] for name in names]
        told = [
            f"{f.loss['mean']:.2f} ± {f.loss['sem']:.2f}, {f.accuracy['mean']:.1f} ± {f.accuracy['sem']:.1f}"
            for f in found
        ]
        lines.append(f"| {way} | " + " | ".join(told) + " |")
    PAGE.write_text(before + START + "\n" + "\n".join(lines) + "\n" + END + after.partition(END)[2])


KEPT, PAGE = Path(__file__).with_suffix(""), Path(__file__).parents[1] / "docs/how-to/align.md"
START, END = "<!-- rotations: start -->", "<!-- rotations: end -->"
START_LEARNED, END_LEARNED = "<!-- learned: start -->", "<!-- learned: end -->"
TITLES = {
    "digits": "ViT, digits (6 pairs)",
    "mnist": "ViT, MNIST (3 pairs)",
    "gpt2": "GPT-2, IMDB (3 pairs)",
    "llama": "Llama, IMDB (3 pairs)",
    "bert": "BERT, praise in IMDB (3 pairs)",
}

if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "table":
        table()
    else:
        {"train": train, "measure": measure, "learn": learn}[command](rest[0], Path(rest[1]))
