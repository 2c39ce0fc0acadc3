"""Config files that are no plain data are refused with their line, where Snakemake says nothing or little."""

import json
import pickle

import pytest

from symlab.config_files import check_files

GOOD = """\
base: &base {a: 1, b: 2}
studies:
  first: {<<: *base, b: 3}
  second: {<<: *base, c: [1, 2]}
"""

# content, words of the sentence
CASES = {
    "a key twice": (
        "results: a\ndevice: cpu\nresults: b\n",
        [", line 3: the key 'results' comes twice, first in line 1"],
    ),
    "a key twice, deep": ("studies:\n  s:\n    seeds: 2\n    seeds: 4\n", [", line 4: the key 'seeds' comes twice"]),
    "a key twice, in one line": ("studies: {s: {seeds: 2, seeds: 4}}", [", line 1: the key 'seeds' comes twice"]),
    "a tab": ("studies:\n\ts: 1\n", [", line 2: found character '\\t' that cannot start any token"]),
    "indentation": ("a: 1\n b: 2\n", [", line 2: mapping values are not allowed here"]),
    "an open bracket": ("a: [1, 2\nb: 3\n", [", line 2: expected ',' or ']'"]),
    "an unknown alias": ("a: *b\n", [", line 1: found undefined alias 'b'"]),
    "a tag of Python": (
        "a: !!python/object/apply:os.getcwd []\n",
        [", line 1: could not determine a constructor for the tag"],
    ),
    "a tag of ours": ("a: !symlab x\n", [", line 1: could not determine a constructor for the tag '!symlab'"]),
    "a list as a key": ("? [1, 2]\n: 3\n", [", line 1: found unhashable key"]),
    "two documents": ("a: 1\n---\nb: 2\n", [", line 2: but found another document"]),
    "a merge with text": ("a: {<<: text}\n", [", line 1: expected a mapping or list of mappings for merging"]),
    "a date that is none": ("a: 2026-13-45\n", ["holds a value that cannot be read (month must be in 1..12"]),
    "too many digits": (f"a: {'9' * 5000}\n", ["holds a value that cannot be read (Exceeds the limit"]),
    "Latin-1": (b"results: caf\xe9\n", ["is not UTF-8 text (byte 12); save it as UTF-8"]),
    "a zero byte": ("a: \0\n", ["is not YAML (unacceptable character #x0000", "save it as plain text"]),
    "a pickle": (pickle.dumps({"studies": {}}), ["is not UTF-8 text (byte 0)"]),
    "brackets without end": ("a: " + "[" * 1000, ["is nested too deep; flatten it"]),
    "brackets without end, JSON": ("[" * 100_000, ["is nested too deep; flatten it"]),
    "JSON with a key twice": ('{"a": {"b": 1, "b": 2}}', ["gives the key 'b' twice in one place; keep one of the two"]),
    "JSON with a comma": ('{"a": 1,, "b": 2}', [", line 1: ", "mend that line"]),
    "nothing": ("", ["is no mapping of keys to values but a NoneType; start it like config.yaml"]),
    "a list": ("- a\n- b\n", ["is no mapping of keys to values but a list"]),
    "text": ("hello\n", ["is no mapping of keys to values but a str"]),
    "Python in YAML": ("__use_yte__: true\na: 1\n", ["asks for Python in YAML by __use_yte__; write the values out"]),
}


@pytest.mark.parametrize(("content", "words"), CASES.values(), ids=CASES)
def test_the_sentence_names_the_file_and_the_line(content, words, refused, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with refused(f"Config: {path}", *words):
        check_files([path])


def test_files_that_cannot_be_opened(refused, tmp_path):
    with refused("absent.yaml cannot be read (No such file or directory); name another config file"):
        check_files([tmp_path / "absent.yaml"])
    with refused("cannot be read (Is a directory)"):
        check_files([tmp_path])


def test_plain_files_pass(tmp_path):
    path = tmp_path / "my.yaml"
    for content in (GOOD, "a: 1", json.dumps({"a": {"b": [1, 2.5, None]}}, indent="\t")):
        path.write_text(content)
        check_files([path])
