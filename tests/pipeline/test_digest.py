"""Digests of code follow what a job computes with, not its explanations, its settings or other jobs' code."""

import re
from pathlib import Path
from pkgutil import resolve_name

import pytest

from symlab.errors import UserError
from symlab.pipeline import digest as module
from symlab.pipeline.digest import code_of, digest_of_figure_code, digest_of_files
from symlab.pipeline.registry import EXPERIMENTS, FIGURES, MEASURES, TABLES
from symlab.study.card import At, drawings_of

ROOT = Path(__file__).parents[2]

LOOP = '"""Doc."""\nfrom symlab.maths import twice\n\n\ndef f(x):\n    """Says."""\n    return twice(x) + 1\n'
FILES = {
    "training/__init__.py": "",
    "training/loop.py": LOOP,
    "training/other.py": "y = 1\n",
    "training/settings.py": "class Recipe:\n    lr: int = 1\n    def half(self):\n        return self.lr / 2\n\n"
    "class Other(Recipe):\n    def misfit(self):\n        return 1\n\nWAYS = {'sgd': 'symlab.training.steps:SGD'}\n",
    "training/steps.py": "class SGD:\n    pass\n",
    "training/variant.py": "from symlab.training import loop\nfrom symlab.training.settings import WAYS, Recipe\n"
    "from symlab.networks import NETWORKS, build\n"
    "from symlab.artifacts import write\nfrom symlab.pipeline.job import run\nimport numpy\n",
    "networks/__init__.py": "from symlab.maths import third\nclass Network:\n    pass\n\n"
    "class MLP(Network):\n    module: ClassVar[str] = 'symlab.networks.mlp:MLP'\n\n"
    "NETWORKS = (MLP,)\n\ndef build():\n    return helped()\n\ndef helped():\n    return 1\n\ndef load():\n"
    "    return third(3)\n",
    "networks/mlp.py": "class MLP:\n    '''Doc.'''\n",
    "rules/__init__.py": "from symlab.rules import sums, views\n",
    "rules/sums.py": "s = 1\n",
    "rules/views.py": "v = 1\n",
    "pipeline/job.py": "run = 1\n",
    "pipeline/outputs.py": "join = 1\n",
    "pipeline/report.py": "from symlab.maths import twice\n",
    "artifacts.py": "write = 1\n",
    "maths.py": "def twice(x):\n    return 2 * x\n",
    "../scripts/train.py": "from symlab.pipeline.outputs import join\nfrom symlab.training.variant import loop\n",
}
OF_VARIANT = ["maths", "networks:build", "networks:helped", "training/loop", "training/settings:Recipe"]
OF_VARIANT += ["training/steps", "training/variant"]


def clear():
    for each in vars(module).values():
        if hasattr(each, "cache_clear"):
            each.cache_clear()


@pytest.fixture
def package(tmp_path, monkeypatch):
    package = tmp_path / "symlab"
    for name, text in FILES.items():
        (package / name).parent.mkdir(exist_ok=True, parents=True)
        (package / name).write_text(text)
    monkeypatch.setattr(module, "WORKFLOW", tmp_path)
    clear()
    yield package
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
    assert list(code_of("symlab.training.variant")) == OF_VARIANT
    assert list(code_of("symlab.training.variant", "symlab.networks.mlp:MLP")) == sorted([*OF_VARIANT, "networks/mlp"])


def test_a_script_and_the_pipeline_s_modules_that_it_imports_count(package):
    assert list(code_of("scripts.train")) == sorted([*OF_VARIANT, "pipeline/outputs", "scripts/train"])


def test_packages_that_a_module_is_in_count_with_what_they_import(package):
    assert list(code_of("symlab.rules.sums")) == ["rules/sums"]
    (package / "maths.py").write_text("from symlab.rules.sums import s\n")
    clear()
    assert list(code_of("symlab.maths")) == ["maths", "rules", "rules/sums", "rules/views"]


def test_of_registries_and_settings_count_functions_and_methods_that_are_imported_by_name(package):
    registry, settings = FILES["networks/__init__.py"], FILES["training/settings.py"]
    for before, after, names in (
        ("return helped()", "return helped() + 1", ["networks:build"]),
        ("return 1", "return 2", ["networks:helped"]),
        ("third(3)", "third(4)", []),
        ("NETWORKS = (MLP,)", "class CNN(Network):\n    pass\n\nNETWORKS = (MLP, CNN)", []),
    ):
        assert before in registry
        assert changed(package, "networks/__init__.py", registry.replace(before, after)) == names
        changed(package, "networks/__init__.py", registry)
    for before, after, names in (
        ("lr: int = 1", "lr: int = 1\n    decay: float = 0", []),
        ("lr: int = 1", "lr: int = 1\n    counts: ClassVar = {'rates': 'lr'}", []),
        ("self.lr / 2", "self.lr / 3", ["training/settings:Recipe"]),
        ("return 1", "return 2", []),
    ):
        assert before in settings
        assert changed(package, "training/settings.py", settings.replace(before, after)) == names
        changed(package, "training/settings.py", settings)


def test_a_class_that_is_imported_from_a_registry_counts_with_the_module_that_it_names(package):
    (package / "maths.py").write_text("from symlab.networks import MLP\n")
    clear()
    assert list(code_of("symlab.maths")) == ["maths", "networks/mlp", "networks:MLP"]
    (package / "maths.py").write_text("from symlab.training.settings import Other\n")
    clear()
    assert list(code_of("symlab.maths")) == ["maths", "training/settings:Recipe"]


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
    "name", ["training/other", "pipeline/job", "pipeline/report", "artifacts", "networks/mlp", "rules/sums"]
)
def test_what_is_not_computed_with_does_not_count(package, name):
    assert changed(package, f"{name}.py", "y = 3\n") == []


def test_a_module_that_is_named_counts_even_if_others_that_import_it_do_not_compute_with_it(package):
    assert list(code_of("symlab.pipeline.report")) == ["maths", "pipeline/report"]


def test_the_real_training_job_depends_on_its_engine_and_on_no_network():
    found = set(code_of("scripts.train"))
    assert {
        "training/replicas",
        "training/on_samples",
        "training/samples",
        "training/stacks",
        "schemes/fixed_parts",
        "data/dataset",
        "seeds",
    } <= found
    assert {"training/updates", "schemes/parametrisation", "networks:build"} <= found
    assert not {"networks/mlp", "networks/vit", "networks/coherence_student", "measures/moments"} & found
    assert not [name for name in found if name.startswith(("papers", "pipeline", "plotting", "symmetries"))]


def test_tracing_depends_on_the_rules_that_are_registered_as_their_package_is_imported():
    rules = {f"symmetries/rules/{path.stem}" for path in (ROOT / "workflow/symlab/symmetries/rules").glob("[a-z]*.py")}
    assert len(rules) > 3 and rules <= set(code_of("scripts.trace"))
    assert rules <= set(code_of("scripts.measure", MEASURES["moments"].function))
    assert not rules & set(code_of("scripts.measure", MEASURES["match"].function))


def test_what_builds_networks_depends_on_how_and_nothing_else_does():
    jobs = {name: code_of(f"scripts.{name}") for name in ("train", "trace", "data", "tables", "figures", "claims")}
    jobs |= {name: code_of("scripts.measure", measure.function) for name, measure in MEASURES.items()}
    jobs |= {key: code_of("scripts.experiment", experiment.compute) for key, experiment in EXPERIMENTS.items()}
    building = {name for name, code in jobs.items() if "networks:build" in code}
    # A measure opens networks; of the experiments one counts the bytes of a network that its settings name.
    assert building == {"train", "trace", *MEASURES, "mirror_symmetry.memory"}


def test_no_result_depends_on_how_figures_look():
    named = [("scripts.measure", measure.function) for measure in MEASURES.values()]
    named += [("scripts.tables", table.function) for table in TABLES.values()]
    named += [("scripts.experiment", *filter(None, [each.compute, each.tables])) for each in EXPERIMENTS.values()]
    drawing = {name for modules in named for name in code_of(*modules) if name.startswith("plotting")}
    assert drawing == {"plotting/pairs"}


def test_a_figure_counts_the_claims_that_its_sentence_tells(package):
    file = package / "papers/a/fig_2.py"
    file.parent.mkdir(parents=True)
    file.write_text("SEEN = at('a-1-growth', k=2)\n")
    claims = file.with_name("fig_1.py")
    found = []
    for text in ("x = 1\n", "x = 2\n"):
        claims.write_text(text)
        clear()
        found.append(digest_of_figure_code("scripts.train", "symlab.papers.a.fig_2", {"a-1": "symlab.papers.a.fig_1"}))
    assert found[0] != found[1]


def test_the_real_figures_count_the_claims_that_their_sentences_tell():
    modules = {name: figure.module for name, figure in FIGURES.items()}
    homes = {claim: file for file in modules.values() for claim in resolve_name(file).CLAIMS}
    told = set()
    for figure, file in modules.items():
        seen = drawings_of(file)[figure].sentence
        places = seen.values.values() if seen else ()
        told |= {(file, homes[place.claim if isinstance(place, At) else place[0]]) for place in places}
    imported = {file: code_of("scripts.figures", file) for file, _ in told}
    elsewhere = [
        (file, home) for file, home in told if home.removeprefix("symlab.").replace(".", "/") not in imported[file]
    ]
    for file, home in elsewhere:
        others = {name: each for name, each in modules.items() if each != home}
        with_home, without = (digest_of_figure_code("scripts.figures", file, each) for each in (modules, others))
        assert with_home != without, (file, home)
    assert elsewhere


def test_every_rule_names_its_script():
    text = "\n".join(path.read_text() for path in (ROOT / "workflow/rules").glob("*.smk"))
    scripts = {path.stem for path in (ROOT / "workflow/scripts").glob("*.py")}
    assert set(re.findall(r'"\.\./scripts/(\w+)\.py"', text)) == scripts
    assert set(re.findall(r'code(?:_of)?\(\s*"scripts\.(\w+)"', text)) == scripts


def test_texts_count_by_name_and_content(tmp_path):
    (tmp_path / "a.html").write_text("a")
    before = digest_of_files(tmp_path.glob("*"))
    assert digest_of_files(tmp_path.glob("*")) == before
    (tmp_path / "a.html").rename(tmp_path / "b.html")
    assert digest_of_files(tmp_path.glob("*")) != before


def test_a_module_that_is_not_there_is_told():
    with pytest.raises(UserError, match=r"names symlab\.absent:f"):
        code_of("symlab.absent:f")
