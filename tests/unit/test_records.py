"""A file is read only if it is what its record says, made from what the config asks."""

import json

import pytest

from symlab import __version__
from symlab.artifacts import ArtifactError
from symlab.records import check_record, record_path, write_record

ORIGIN = {"settings": "a" * 16, "code": "b" * 16}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "barriers.csv"
    path.write_text("pair,barrier\n0,1.5\n")
    write_record(path, ORIGIN)
    return path


def test_a_file_as_it_was_written_passes(path):
    check_record(path, ORIGIN)
    check_record(path, None)
    assert record_path(path).name == ".barriers.csv.json"


@pytest.mark.parametrize("content", ["pair,barrier\n0,1.6\n", "pair,barrier\n", "", "pair,barrier\n0,1.5\n\n"])
def test_another_content_is_refused(path, content):
    path.write_text(content)
    with pytest.raises(ArtifactError, match=r"barriers\.csv is not what symlab wrote.*Delete .*barriers\.csv and"):
        check_record(path, ORIGIN)


def test_other_settings_are_refused(path):
    with pytest.raises(ArtifactError, match="was made with other settings or data than this config's"):
        check_record(path, ORIGIN | {"settings": "c" * 16})
    write_record(path, None)
    with pytest.raises(ArtifactError, match="was made with other settings"):
        check_record(path, ORIGIN)


def test_another_version_is_refused_only_with_other_code(path):
    check_record(path, ORIGIN | {"code": "c" * 16})
    record = json.loads(record_path(path).read_text())
    record_path(path).write_text(json.dumps(record | {"symlab": "0.0.9"}))
    check_record(path, ORIGIN)
    with pytest.raises(ArtifactError, match=rf"made by symlab 0\.0\.9, and how it is made has changed.*{__version__}"):
        check_record(path, ORIGIN | {"code": "c" * 16})


@pytest.mark.parametrize("content", [None, "", "[]", "{}", "null", '{"symlab": "1"}'])
def test_a_record_that_is_missing_or_damaged_is_told(path, content):
    record_path(path).unlink() if content is None else record_path(path).write_text(content)
    with pytest.raises(ArtifactError, match=r"comes from elsewhere or from an interrupted job: \.barriers\.csv\.json"):
        check_record(path, ORIGIN)


def test_a_missing_file_is_told_before_its_record(path):
    path.unlink()
    with pytest.raises(ArtifactError, match=r"barriers\.csv does not exist"):
        check_record(path, ORIGIN)


def test_a_folder_in_the_file_s_place_is_told(path):
    path.unlink()
    path.mkdir()
    with pytest.raises(ArtifactError, match=r"barriers\.csv cannot be read: Is a directory"):
        check_record(path, ORIGIN)
