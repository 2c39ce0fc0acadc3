"""Defaults that results were computed with are written down: one that changes asks for a new revision.

Specs leave defaults out, so results of an old default would be taken for those of the new one.
``python tests/pipeline/test_defaults.py --store`` writes today's down, new keys and new kinds among them.
"""

import json
import sys
from pathlib import Path

from symlab.pipeline import registry
from symlab.pipeline.config import Top
from symlab.settings import Settings

STORED = Path(__file__).with_name("defaults.json")
STORE = "python tests/pipeline/test_defaults.py --store"
assert registry.PAPERS, "the cards have brought the settings of their measures and experiments"


def kinds(of=Settings):
    """Every kind of settings that enters a spec, by its dotted name."""
    found = {}
    for kind in of.__subclasses__():
        if kind.__module__.startswith("symlab.") and kind.__module__ != Top.__module__:
            found[f"{kind.__module__}.{kind.__qualname__}"] = kind
        found |= kinds(kind)
    return found


def defaults_of(kind):
    """Defaults by key, as a spec would hold them; those of nested settings are their own kind's."""
    fields = kind.model_fields.items()
    values = {name: field.get_default(call_default_factory=True) for name, field in fields if not field.is_required()}
    return {name: value.spec() if isinstance(value, Settings) else value for name, value in values.items()}


def today(found):
    entries = {name: {"revision": kind.revision, "defaults": defaults_of(kind)} for name, kind in found.items()}
    return json.loads(json.dumps(dict(sorted(entries.items()))))


def reused(stored, now):
    """Sentences about defaults that have changed though their kind's revision has not."""
    return [
        f"{name}.{key} was {value!r} and is {now[name]['defaults'][key]!r}: raise {name}.revision above "
        f"{entry['revision']}, so that results of the old default are not taken for those of the new."
        for name, entry in stored.items()
        for key, value in entry["defaults"].items()
        if name in now and now[name]["revision"] == entry["revision"] and now[name]["defaults"].get(key, value) != value
    ]


def test_no_default_has_changed_without_a_new_revision():
    stored, now = json.loads(STORED.read_text()), today(kinds())
    assert not reused(stored, now), "\n".join(reused(stored, now))
    assert stored == now, f"Defaults were added, removed or revised: write them down with {STORE}"


if __name__ == "__main__":
    if sys.argv[1:] != ["--store"]:
        sys.exit(f"usage: {STORE}")
    stored, now = json.loads(STORED.read_text()) if STORED.exists() else {}, today(kinds())
    if sentences := reused(stored, now):
        sys.exit("\n".join(sentences))
    lines = [f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in now.items()]
    STORED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
