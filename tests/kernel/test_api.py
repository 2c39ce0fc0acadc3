"""What can be imported from symlab itself, and the examples of the pages that show it."""

import doctest
import re
from pathlib import Path

import symlab

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "how-to" / "align.md", DOCS / "reference" / "symmetries.md"]


def test_symlab_lists_what_it_imports_when_it_is_asked_for():
    assert {"align", "merge", "trace"} <= set(dir(symlab))


def test_the_examples_of_the_pages_give_what_they_say():
    examples = "\n\n".join(re.findall(r"```python\n(.*?)```", "".join(page.read_text() for page in PAGES), re.S))
    test = doctest.DocTestParser().get_doctest(examples, {}, "pages", None, 0)
    assert len(test.examples) > 5
    assert doctest.DocTestRunner().run(test).failed == 0
