import hashlib
import http.server
import threading
from functools import partial

import pytest

from symlab.data.download import cache_dir, fetch
from symlab.errors import UserError


@pytest.fixture
def mirror(tmp_path):
    """A web server on this machine that serves one file, and the hash of that file."""
    folder = tmp_path / "www"
    folder.mkdir()
    (folder / "file.gz").write_bytes(bytes(range(256)) * 4096)
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/", "md5:" + hashlib.md5((folder / "file.gz").read_bytes()).hexdigest()
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache"


def test_download_shows_progress_and_is_kept(mirror, cache, capsys):
    url, digest = mirror
    path = fetch("file.gz", (url,), digest)
    assert path == cache / "file.gz" and path.stat().st_size == 2**20
    assert "100%" in capsys.readouterr().err
    assert fetch("file.gz", ("http://127.0.0.1:9/",), digest) == path


def test_wrong_content_is_not_kept(mirror, cache):
    url, _ = mirror
    with pytest.raises(UserError, match=r"file\.gz could not be downloaded.*hash"):
        fetch("file.gz", (url,), "md5:" + "0" * 32)
    assert not (cache / "file.gz").exists()


def test_absent_file_and_dead_mirror_are_named(mirror, cache):
    url, digest = mirror
    with pytest.raises(UserError, match=r"404.*127\.0\.0\.1:9"):
        fetch("absent.gz", (url, "http://127.0.0.1:9/"), digest)


def test_cache_defaults_to_the_users(monkeypatch):
    monkeypatch.delenv("SYMLAB_CACHE", raising=False)
    assert cache_dir().name == "symlab"
