"""The library digest follows the code a job uses, not its explanations."""

import pytest

from symlab import library as module
from symlab.seeds import numpy_rng, stable_seed, torch_generator


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name in module.COMMON:
        (tmp_path / f"{name}.py").write_text("x = 1\n")
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "loop.py").write_text('"""Doc."""\n\n\ndef f(x):\n    """Says."""\n    return x + 1\n')
    (tmp_path / "figures.py").write_text("y = 1\n")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    module._code.cache_clear()
    yield tmp_path
    module._code.cache_clear()


def digest_after(package, file, text):
    (package / file).write_text(text)
    module._code.cache_clear()
    return module.library("training")


def test_docstrings_comments_and_layout_do_not_count(package):
    before = module.library("training")
    text = '"""Other."""\ndef f(x):\n    """Says more."""\n\n    # because\n    return (x + 1)\n'
    assert digest_after(package, "training/loop.py", text) == before


def test_code_counts(package):
    before = module.library("training")
    assert digest_after(package, "training/loop.py", "def f(x):\n    return x + 2\n") != before


def test_common_modules_count_and_others_do_not(package):
    before = module.library("training")
    assert digest_after(package, "figures.py", "y = 2\n") == before
    assert digest_after(package, "training/new.py", "z = 1\n") != before
    assert digest_after(package, "seeds.py", "x = 2\n") != before


def test_seeds_are_the_same_in_every_process():
    # Written down once: a change here would silently turn every stored result into another experiment.
    assert stable_seed("digits", "standard", "init", 0, 3) == 8121132573342833856
    assert stable_seed("a", 1) != stable_seed("a", "1") != stable_seed("a1")
    assert stable_seed("ab", "c") != stable_seed("a", "bc")
    assert numpy_rng("a", 1).integers(10**9) == numpy_rng("a", 1).integers(10**9)
    assert torch_generator("a", 1).initial_seed() == stable_seed("a", 1)
