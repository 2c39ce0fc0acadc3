"""What can be imported from symlab itself, and the examples of the pages that show it."""

import doctest
import re
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "how-to" / "align.md", DOCS / "reference" / "symmetries.md"]


def test_importing_symlab_imports_no_library():
    code = (
        "import sys, symlab; print([name for name in ('torch', 'numpy', 'pandas') if name in sys.modules], dir(symlab))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] ")
    assert all(repr(name) in done.stdout for name in ("align", "merge", "trace"))


def test_the_examples_of_the_pages_give_what_they_say():
    examples = "\n\n".join(re.findall(r"```python\n(.*?)```", "".join(page.read_text() for page in PAGES), re.S))
    test = doctest.DocTestParser().get_doctest(examples, {}, "pages", None, 0)
    assert len(test.examples) > 5
    assert doctest.DocTestRunner().run(test).failed == 0
