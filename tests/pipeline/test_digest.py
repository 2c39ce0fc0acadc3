"""Digests of code follow what a job computes with, not its explanations, its settings or other jobs' code."""

import pytest

from symlab.errors import UserError
from symlab.pipeline import digest as module
from symlab.pipeline.digest import code_of, digest_of_files

LOOP = '"""Doc."""\nfrom symlab.maths import twice\n\n\ndef f(x):\n    """Says."""\n    return twice(x) + 1\n'
FILES = {
    "training/__init__.py": "from symlab.networks import NETWORKS\n",
    "training/loop.py": LOOP,
    "training/other.py": "y = 1\n",
    "training/settings.py": "class Recipe:\n    lr = 1\n",
    "training/variant.py": "from symlab.training import loop\nfrom symlab.training.settings import Recipe\n"
    "from symlab.artifacts import write\nfrom symlab.pipeline.job import run\nimport numpy\n",
    "networks/__init__.py": "from symlab.networks.mlp import MLP\nNETWORKS = (MLP,)\n",
    "networks/mlp.py": "class MLP:\n    '''Doc.'''\n",
    "pipeline/job.py": "run = 1\n",
    "pipeline/report.py": "from symlab.maths import twice\n",
    "artifacts.py": "write = 1\n",
    "maths.py": "def twice(x):\n    return 2 * x\n",
}


def clear():
    for cached in (module.code_of, module._read, module._file, module._is_plumbing):
        cached.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    clear()
    yield tmp_path
    clear()


def changed(package, file, text, *modules):
    """Modules whose digests change with a file's text."""
    modules = modules or ("symlab.training.variant",)
    before = code_of(*modules)
    (package / file).write_text(text)
    clear()
    after = code_of(*modules)
    assert after.keys() == before.keys()
    return [name for name in after if after[name] != before[name]]


def test_a_job_s_code_is_its_module_and_what_that_imports(package):
    assert list(code_of("symlab.training.variant")) == ["maths", "training/loop", "training/variant"]
    assert list(code_of("symlab.training.variant", "symlab.networks.mlp:MLP")) == [
        *("maths", "networks/mlp", "training/loop", "training/variant")
    ]


def test_docstrings_comments_and_layout_do_not_count(package):
    body = "def f(x):\n    '''More.'''\n\n    # because\n    return (twice(x) + 1)\n"
    assert changed(package, "training/loop.py", f"from symlab.maths import twice\n{body}") == []
    text = "class MLP:\n    '''Other.'''\n    '''Attribute.'''\n"
    assert changed(package, "networks/mlp.py", text, "symlab.networks.mlp:MLP") == []


@pytest.mark.parametrize("name", ["training/loop", "maths", "networks/mlp"])
def test_imported_and_named_modules_count_and_are_told(package, name):
    edited = FILES[f"{name}.py"] + "\nz = 2\n"
    assert changed(package, f"{name}.py", edited, "symlab.training.variant", "symlab.networks.mlp:MLP") == [name]


@pytest.mark.parametrize(
    "name", ["training/other", "training/settings", "training/__init__", "pipeline/job", "artifacts"]
)
def test_what_is_not_computed_with_does_not_count(package, name):
    assert changed(package, f"{name}.py", "from symlab.networks import mlp\ny = 3\n") == []


def test_a_module_that_is_named_counts_even_if_others_that_import_it_do_not_compute_with_it(package):
    assert list(code_of("symlab.pipeline.report")) == ["maths", "pipeline/report"]


def test_the_real_training_job_depends_on_its_engine_and_on_no_network():
    found = set(code_of("symlab.training.variant"))
    assert {"training/replicas", "training/stacks", "schemes/fixed_parts", "data/dataset", "seeds"} <= found
    assert not {"networks/mlp", "networks/vit", "networks/coherence_student", "measures/moments"} & found
    assert not [name for name in found if name.startswith(("papers/", "pipeline/", "plotting/"))]


def test_texts_count_by_name_and_content(tmp_path):
    (tmp_path / "a.html").write_text("a")
    before = digest_of_files(tmp_path.glob("*"))
    assert digest_of_files(tmp_path.glob("*")) == before
    (tmp_path / "a.html").rename(tmp_path / "b.html")
    assert digest_of_files(tmp_path.glob("*")) != before


def test_a_module_that_is_not_there_is_told():
    with pytest.raises(UserError, match=r"names symlab\.absent:f"):
        code_of("symlab.absent:f")
