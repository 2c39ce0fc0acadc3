"""The command line says and writes what golden/*.txt hold: every sentence, table and number, and what figures draw.

The other tests of the command line hold answers that somebody knows. This one knows none: it notices that something
that a user meets is not what it was. Where it shall be something else, write the files anew, and read what changed:

    python -m tests.kernel.cli.test_golden --store [CASE ...]
    git diff tests/kernel/cli/golden

What is run are the lines of a file that begin with "$ symlab": another command is another such line, stored as above.

Networks are small, drawn by numpy, without near ties, and most of them in float64: another processor adds in another
order, which moves numbers by rounding alone. Numbers are compared within that, all else to the letter.
"""

import importlib
import io
import json
import re
import shlex
import shutil
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from symlab.batches import leaves
from symlab.cli import main

from ..golden import NUMBER, differences, once, picture, short, summary
from .conftest import BROUGHT

HERE = Path(__file__).parent
GOLDEN, PROMPT = HERE / "golden", "$ symlab "
# What is of this version, machine or file.
VERSIONS = {"symlab", "torch", "products", "content_sha256"}
# Tables are told to five digits here. Single precision rounds by 1e-7, which some hundred steps and inverses raise.
DOUBLE, SINGLE = {"rtol": 1.01e-4, "atol": 1e-9}, {"rtol": 2e-3, "atol": 2e-4}
# Cases in single precision or less. Of directions that hardly differ in what they lead to rounding decides which one is
# followed: with vector instructions of an older processor exponents were another by 1.6 %.
ROUNDED = dict.fromkeys(("align-half", "align-learned", "merge-half"), SINGLE) | {
    "mirrors": {"rtol": 0.05, "atol": 2e-4}
}
# By kind of network its module, the shape of its inputs (of tokens how many there are to choose from), and its targets.
KINDS = {
    **{kind: ("toys", (5,), "labels") for kind in ("mlp", "rectified", "one_logit", "sigmoid", "Dead", "weight_normed",
                                                   "averaged", "parallel", "Placed", "blocks", "homogeneous")},
    **{kind: ("toys", (5,), "real") for kind in ("regressor", "Normalising")},
    "Many": ("toys", (3,), "labels"), "Stream": ("toys", (4, 9), "tokens"), "Graph": ("toys", (5,), "none"),
    "reading": ("toys", (3, 7), "labels"), "reading_all": ("toys", (3, 7), "tokens"),
    "counting": ("toys", (3, 7), "labels"),
    "Two": ("toys", (3,), "none"),
    "Rotary": ("toys", (4, 9), "labels"),
    "Convolving": ("toys", (2, 4, 4), "real"), "Normed": ("brought", (1, 4, 4), "labels"),
    "language_model": ("brought", (5, 11), "none"), "Hashing": ("brought", (16,), "none"),
    **{kind: ("brought", (6,), "labels") for kind in ("Spectrum", "stacked", "positions", "linear")},
    "caching": ("brought", (6,), "none"), "Naming": ("nets", (6,), "none"), "Masked": ("nets", (6,), "none"),
    **{kind: ("nets", (6,), "labels") for kind in ("Hooked", "Listing")},
    **{kind: ("nets", (6,), "real") for kind in ("Images", "Parity")},
}  # fmt: skip


def state_of(kind, seed):
    """Weights of a network in an ordinary state: gains near 1, variances positive, all else around 0; in float64."""
    rng = np.random.default_rng([*kind.encode(), seed])
    found = {}
    for name, tensor in getattr(importlib.import_module(KINDS[kind][0]), kind)().state_dict().items():
        drawn = torch.from_numpy(rng.normal(size=tuple(tensor.shape)))
        if name.endswith("running_var"):
            drawn = 0.5 + drawn.square()
        elif tensor.dim() < 2:
            drawn = ("norm" in name and "weight" in name) + 0.3 * drawn
        else:
            drawn = 1.5 * drawn / tensor[0].numel() ** 0.5
        found[name] = drawn if tensor.is_floating_point() and tensor.isfinite().all() else tensor
    if "head.weight" in found and "embedding.weight" in found and kind == "language_model":
        found["head.weight"] = found["embedding.weight"]
    return found


def renumbered(state, first, second, signs):
    """An MLP of three layers with its hidden neurons in another order, and some of the first ones turned round."""
    turned = {"0.weight": state["0.weight"] * signs[:, None], "0.bias": state["0.bias"] * signs}
    moved = state | {name: tensor[first] for name, tensor in turned.items()}
    moved["2.weight"] = (state["2.weight"] * signs)[second][:, first]
    return moved | {"2.bias": state["2.bias"][second], "4.weight": state["4.weight"][:, second]}


def samples(kind, n, seed):
    """Inputs, and targets that mostly are what the first network of the kind gives."""
    module, shape, targets = KINDS[kind]
    rng = np.random.default_rng(seed)
    tokens = kind in ("Stream", "reading", "reading_all", "language_model", "counting", "Rotary")
    x = rng.integers(0, shape[-1], (n, *shape[:-1])) if tokens else rng.normal(size=(n, *shape))
    if targets == "none":
        return {"x": x}
    network = getattr(importlib.import_module(module), kind)().double().eval()
    network.load_state_dict(state_of(kind, 0))
    with torch.no_grad():
        given = network(torch.from_numpy(x))
    given = (given if isinstance(given, torch.Tensor) else leaves(given)[0]).numpy()
    if targets == "real":
        return {"x": x, "y": given + 0.5 * rng.normal(size=given.shape)}
    y = given.argmax(-1) if given.shape[-1] > 1 else (given[:, 0] > np.median(given)).astype(int)
    if targets == "tokens":
        return {"x": x, "y": np.where(rng.random(y.shape) < 0.2, -100, y)}
    return {"x": x, "y": np.where(rng.random(y.shape) < 0.2, (y + 1) % max(2, given.shape[-1]), y)}


def save(folder, name, state):
    save_file({key: tensor.contiguous().clone() for key, tensor in state.items()}, folder / f"{name}.safetensors")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A user's folder with modules, networks and data, which is the current one."""
    with pytest.MonkeyPatch.context() as patched:
        yield make(tmp_path_factory.mktemp("golden"), patched)


def make(folder, patched):
    patched.chdir(folder)
    patched.syspath_prepend(folder)
    patched.setenv("HF_HUB_OFFLINE", "0")
    shutil.copy(GOLDEN / "toys.py", folder)
    shutil.copy(GOLDEN / "library.py", folder / "transformers.py")
    shutil.copy(HERE.parent / "own/nets.py", folder)
    (folder / "brought.py").write_text(BROUGHT)
    (folder / "broken.py").write_text("def build(:\n")
    (folder / "importing.py").write_text("import absent_dependency\n")
    for name in ("toys", "nets", "brought", "transformers"):
        patched.delitem(sys.modules, name, raising=False)
    for kind in KINDS:
        (folder / kind).mkdir()
        for m, name in enumerate("ABC"):
            save(folder / kind, name, state_of(kind, m))
        for m, (name, size) in enumerate((("data", 48), ("test", 20))):
            np.savez(folder / kind / f"{name}.npz", **samples(kind, size, m))
        np.savez(folder / kind / "inputs.npz", x=samples(kind, 48, 0)["x"])
    _more_networks(folder)
    _more_data(folder)
    return folder


def _more_networks(folder):
    """Networks that belong together, and in other types, names and files, some of which are refused."""
    mlp, rng = folder / "mlp", np.random.default_rng(0)
    A, other = (load_file(mlp / f"{name}.safetensors") for name in "AC")
    near = {name: tensor + 0.2 * other[name] for name, tensor in A.items()}
    B = renumbered(near, [3, 1, 5, 0, 2, 4], [2, 0, 3, 1], torch.ones(6))
    save(mlp, "B", B)
    save(mlp, "turned", renumbered(near, [3, 1, 5, 0, 2, 4], [2, 0, 3, 1], torch.tensor([1, -1, 1, 1, -1, -1])))
    mask = {name: torch.from_numpy(rng.random(tuple(tensor.shape)) < 0.4) for name, tensor in A.items()}
    save(mlp, "masked", {name: torch.where(mask[name], tensor, B[name]) for name, tensor in A.items()})
    for name in "AB":
        state = load_file(mlp / f"{name}.safetensors")
        save(mlp, f"{name}16", {key: tensor.half() for key, tensor in state.items()})
        (mlp / f"run{name}").mkdir()
        save(mlp / f"run{name}", "w", state)
    for name in "ABC":
        state = load_file(folder / f"rectified/{name}.safetensors")
        save(folder / "rectified", f"{name}32", {key: tensor.float() for key, tensor in state.items()})
    for kind in ("stacked", "homogeneous"):
        state = load_file(folder / kind / "A.safetensors")
        save(folder / kind, "prefixed", {f"net.{key}": tensor / 2 for key, tensor in state.items()})
    save(folder / "homogeneous", "zero", {key: 0 * tensor for key, tensor in state.items()})
    save(
        folder / "counting",
        "small",
        {key: 0.1 * tensor for key, tensor in load_file(folder / "counting/A.safetensors").items()},
    )
    save(
        mlp,
        "close",
        renumbered({key: A[key] + 0.05 * other[key] for key in A}, [3, 1, 5, 0, 2, 4], [2, 0, 3, 1], torch.ones(6)),
    )
    torch.save({"epoch": 3, "state_dict": B, "ema": A}, mlp / "checkpoint.pt")
    index = "model.safetensors.index.json"
    for name in (
        "shards.d",
        "unfinished.d",
        "away.d",
        "listless.d",
        "several.d",
        "pickles.d",
        "folder.d/within",
        "folder.d/empty",
    ):
        (mlp / name).mkdir(parents=True)
    parts = {"one": {"model.0.weight", "model.0.bias", "loss.weight"}}
    inside = {f"model.{key}": tensor for key, tensor in B.items()} | {"loss.weight": torch.ones(2)}
    parts["two"] = inside.keys() - parts["one"]
    for part, names in parts.items():
        state = {key: inside[key].contiguous() for key in sorted(names)}
        save_file(state, mlp / f"shards.d/{part}.safetensors", metadata={"format": "pt"})
    listed = {key: f"{part}.safetensors" for part, names in parts.items() for key in sorted(names)}
    (mlp / "shards.d" / index).write_text(json.dumps({"metadata": {}, "weight_map": listed}))
    (mlp / "shards.d" / "config.json").write_text("{}")
    (mlp / "unfinished.d" / index).write_text(json.dumps({"weight_map": listed}))
    (mlp / "away.d" / index).write_text(json.dumps({"weight_map": {"w": "../A.safetensors"}}))
    (mlp / "listless.d" / index).write_text("{}")
    for name in ("a", "b"):
        save(mlp / "several.d", name, A)
        torch.save(A, mlp / f"pickles.d/{name}.pt")
    save(mlp / "folder.d/within", "w", A)
    texts = importlib.import_module("transformers").Texts(None).state_dict()
    for name, more in (("A", 0), ("B", 0), ("old", 0), ("lacking", 1)):
        state = {key: torch.from_numpy(rng.normal(size=tuple(tensor.shape))) for key, tensor in texts.items()}
        before = "old_" if more or name == "old" else ""
        (folder / f"Texts/{name}.d").mkdir(parents=True)
        (folder / f"Texts/{name}.d/config.json").write_text("{}")
        save(folder / f"Texts/{name}.d", "model", {f"{before}{key}": state[key] for key in list(state)[more:]})
    save(mlp, "empty", {})
    save(mlp, "lacking", {key: tensor for key, tensor in A.items() if key != "2.bias"} | {"3.bias": A["2.bias"]})
    save(mlp, "wider", A | {"0.bias": torch.ones(7)})
    save(mlp, "infinite", A | {"0.bias": A["0.bias"] / 0})
    save(mlp, "partly", {key if key == "0.bias" else f"module.{key}": tensor for key, tensor in A.items()})
    save(mlp, "whole", A | {"0.bias": torch.ones(6, dtype=torch.int8)})
    save(mlp, "imaginary", A | {"0.bias": torch.ones(6, dtype=torch.complex64)})
    save(mlp, "twice", {f"{part}.{key}": tensor for part in ("student", "teacher") for key, tensor in A.items()})
    torch.save(torch.nn.Linear(2, 2), mlp / "code.pt")
    torch.save({key: {"w": torch.ones(2)} for key in "ab"}, mlp / "others.pt")
    torch.save(dict.fromkeys(("epoch", "step", "lr", "loss", "best", "seed", "rank"), 3), mlp / "numbers.pt")
    (mlp / "cut.pt").write_bytes(b"PK\x03\x04")
    (mlp / "cut.safetensors").write_bytes((mlp / "A.safetensors").read_bytes()[:-5])
    state = load_file(folder / "language_model/A.safetensors")
    save(folder / "language_model", "untied", state | {"head.weight": state["head.weight"] + 1})


def _more_data(folder):
    """Targets in other forms, and data that are refused."""
    given = samples("mlp", 48, 0)
    x, y = given["x"], given["y"]
    for kind in ("mlp", "regressor"):
        np.savez(folder / kind / "large.npz", **samples(kind, 500, 2))
    all_tokens = samples("reading_all", 20, 0)
    np.savez(folder / "reading_all/few.npz", x=all_tokens["x"], y=np.arange(20) % 4)
    np.savez(folder / "mlp/onehot.npz", x=x, y=np.eye(3)[y])
    np.savez(folder / "homogeneous/onehot.npz", x=x, y=np.eye(3)[y])
    np.savez(folder / "one_logit/labels.npz", x=x, y=(y == 0).astype(float))
    np.savez(folder / "sigmoid/labels.npz", x=x, y=(y == 0).astype(float))
    np.savez(folder / "blocks/one.npz", x=x, y=0 * y)
    test = samples("blocks", 30, 1)
    np.savez(folder / "blocks/test.npz", x=test["x"], y=test["y"] % 3)
    save_file({"x": torch.from_numpy(x), "labels": torch.from_numpy(y), "more": torch.ones(48)},
              folder / "mlp/data.safetensors")  # fmt: skip
    (folder / "bad").mkdir()
    (folder / "kept").mkdir()
    (folder / "kept/curve.csv").touch()
    first = np.arange(48) == 5
    bad = {
        "inputs": {"inputs": x}, "few": {"x": x, "y": y[:9]}, "none": {"x": x[:0]},
        "nan": {"x": np.where(first[:, None], np.nan, x)}, "text": {"x": x.astype(str)}, "wide": {"x": x[:, :4]},
        "integers": {"x": x.astype(int)}, "label": {"x": x, "y": y + 1}, "negative": {"x": x, "y": y - 1},
        "ignored": {"x": x, "y": 0 * y - 100}, "real": {"x": x, "y": x[:, 0]}, "targets": {"y": y},
        "infinite": {"x": x, "y": np.where(first, np.inf, y)}, "onehot": {"x": x, "y": np.eye(3, dtype=int)[y]},
        "scalar": {"x": x, "y": 1}, "zeros": {"x": x, "y": 0.0 * y}, "object": {"x": x.astype(object)},
    }  # fmt: skip
    for name, arrays in bad.items():
        np.savez(folder / f"bad/{name}.npz", **arrays)
    (folder / "bad/cut.npz").write_text("x, y\n")
    save(folder / "bad", "images", {"images": torch.ones(2)})


def transcript(stored, folder, patched):
    """What the commands of a stored transcript say, write and draw, one after another."""
    drawn = []

    def described(figure, *paths, dpi):
        for path in paths:
            path.touch()
        # Of all commands in a file the first that draws one of such a look: its numbers are a table's.
        text = f"== {', '.join(path.name for path in paths)}, {dpi} dpi\n{picture(figure)}"
        if NUMBER.sub("#", text) not in [NUMBER.sub("#", each) for each in drawn]:
            drawn.append(text)

    # A figure is described in the place of being drawn, which takes long.
    for module in ("align", "collapse", "diagnose"):
        patched.setattr(f"symlab.cli.{module}.save", described)
    files = sorted((path for path in folder.rglob("*") if path.is_file()), reverse=True)
    sums = {sha256(path.read_bytes()).hexdigest(): path.relative_to(folder) for path in files}
    lines = [line.removeprefix(PROMPT) for line in stored.splitlines() if line.startswith(PROMPT)]
    whole = [line for each in lines for part in _told(each, folder, drawn, sums) for line in part.splitlines()]
    return "\n".join(once(whole, PROMPT)) + "\n"


def _told(line, folder, drawn, sums):
    out, err, status = io.StringIO(), io.StringIO(), 0
    before = len(drawn)
    if "--overwrite" not in line:
        shutil.rmtree(folder / "out", ignore_errors=True)
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings(action="ignore"):
        try:
            main(shlex.split(line))
        except SystemExit as ended:
            status = ended.code
    if isinstance(status, str):
        # Of what is refused nothing is left, neither results nor what was staged.
        left = [str(path.relative_to(folder)) for path in folder.glob(".*")] + ["out"] * (folder / "out").exists()
        status += f"\nleft: {left}" * bool(left)
    told = f"{out.getvalue()}{err.getvalue()}{status}".replace(str(folder.resolve()), ".").replace(str(folder), ".")
    yield f"{PROMPT}{line}\n{re.sub(r'line [0-9]+ of', 'line ... of', told)}"
    yield from drawn[before:]
    for path in sorted((folder / "out").rglob("*")) if status == 0 and "--out" in line else ():
        if path.is_file() and path.suffix not in (".png", ".pdf"):
            yield f"== {path.relative_to(folder / 'out')}\n{_file(path, sums, line)}"


def _file(path, sums, line):
    """A file's content; what is long in few lines, without versions and what the command's line says."""
    if path.suffix == ".csv":
        return re.sub(r"-?\d+\.\d+(e[+-]?\d+)?", lambda found: short(float(found[0])), path.read_text()).rstrip()
    if path.suffix == ".json":
        told = json.loads(path.read_text())
        said = {*shlex.split(line), "None", "False"}
        return json.dumps({key: value for key, value in told.items() if not {key, str(value)} & (said | VERSIONS)})
    with safe_open(path, framework="pt") as file:
        metadata, tensors = file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    told = json.loads(metadata.get("symlab", json.dumps(metadata)))
    told = json.dumps({key: value for key, value in told.items() if key not in VERSIONS})
    for digest, name in sums.items():
        told = told.replace(digest, f"that of {name}")
    return "\n".join([told, *(f"{name}: {summary(tensor)}" for name, tensor in sorted(tensors.items()))])


@pytest.mark.parametrize("case", sorted(path.stem for path in GOLDEN.glob("*.txt")))
def test_commands_say_write_and_draw_what_they_did(case, folder, monkeypatch):
    there = (GOLDEN / f"{case}.txt").read_text()
    assert there.startswith(PROMPT)
    found = list(differences(transcript(there, folder, monkeypatch), there, PROMPT, **ROUNDED.get(case, DOUBLE)))
    assert not found, "\n".join([f"{len(found)} lines of {case} are not what they were:", *found[:5]])


def test_no_command_is_lost():
    """They are read from the transcripts themselves, which do not miss one."""
    assert sum(f"\n{path.read_text()}".count(f"\n{PROMPT}") for path in GOLDEN.glob("*.txt")) >= 248


if __name__ == "__main__" and sys.argv[1:2] == ["--store"]:
    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patched:
        of_user = make(Path(temporary), patched)
        for path in [GOLDEN / f"{case}.txt" for case in sys.argv[2:]] or sorted(GOLDEN.glob("*.txt")):
            path.write_text(transcript(path.read_text(), of_user, patched))
