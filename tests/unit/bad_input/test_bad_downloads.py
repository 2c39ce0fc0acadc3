"""Servers that send nothing, too little, too much or something else: the next mirror is tried, nothing is kept."""

import hashlib
import http.server
import threading
import time
from functools import partial

import pytest

from symlab.data import download

CONTENT = bytes(range(256)) * 64
LARGEST = 2**16
DIGEST = "md5:" + hashlib.md5(CONTENT).hexdigest()


class Server(http.server.BaseHTTPRequestHandler):
    """What a mirror does is named by the folder of the address."""

    def do_GET(self):
        getattr(self, self.path.split("/")[1])()

    def send(self, status, *headers, body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def right(self):
        self.send(200, ("Content-Length", str(len(CONTENT))), body=CONTENT)

    def absent(self):
        self.send(404, body=b"<html>not here</html>")

    def broken(self):
        self.send(500)

    def page(self):
        self.send(200, body=b"<html>log in first</html>")

    def short(self):
        self.send(200, ("Content-Length", str(len(CONTENT))), body=CONTENT[:100])

    def short_without_length(self):
        self.send(200, body=CONTENT[:100])

    def circle(self):
        self.send(302, ("Location", self.path))

    def elsewhere(self):
        self.send(302, ("Location", "file:///etc/passwd"))

    def wrong_encoding(self):
        self.send(200, ("Content-Encoding", "gzip"), body=CONTENT)

    def silent(self):
        time.sleep(1)

    def endless(self):
        self.send(200)
        try:
            for _ in range(2**14):
                self.wfile.write(bytes(2**16))
        except OSError:
            return

    def dripping(self):
        self.send(200, ("Content-Length", str(len(CONTENT))))
        try:
            for position in range(100):
                self.wfile.write(CONTENT[position : position + 1])
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            return

    def log_message(self, *arguments):
        pass


@pytest.fixture(scope="module")
def address():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=partial(server.serve_forever, poll_interval=0.01), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("SYMLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "TIMEOUT", 0.4)
    return tmp_path / "cache"


CASES = {
    "absent": "HTTP status 404",
    "broken": "HTTP status 500",
    "page": "other content than expected, or not all of it",
    "short": "it broke off",
    "short_without_length": "other content than expected, or not all of it",
    "circle": "redirects without end",
    "elsewhere": "it redirects to something other than a web server",
    "wrong_encoding": "it sends what cannot be decoded",
    "silent": "no answer in time",
    "endless": "more than the 65536 bytes that are expected",
    "dripping": "too slow",
}


@pytest.mark.parametrize(("mirror", "reason"), CASES.items(), ids=CASES)
def test_a_mirror_that_fails(mirror, reason, address, cache, refused):
    started = time.monotonic()
    with refused(f"file.gz could not be downloaded ({address}/{mirror}/: {reason})"):
        download.fetch("file.gz", (f"{address}/{mirror}/",), DIGEST, LARGEST)
    assert time.monotonic() - started < 5
    assert list(cache.iterdir()) == []


def test_no_server(cache, refused):
    with refused("file.gz could not be downloaded (http://127.0.0.1:9/: no connection)"):
        download.fetch("file.gz", ("http://127.0.0.1:9/",), DIGEST, LARGEST)


def test_the_next_mirror_is_asked(address, cache):
    mirrors = tuple(f"{address}/{name}/" for name in ("silent", "short", "right"))
    assert download.fetch("file.gz", mirrors, DIGEST, LARGEST).read_bytes() == CONTENT
    assert [path.name for path in cache.iterdir()] == ["file.gz"]


def test_a_cache_that_is_a_file(address, cache, refused):
    cache.write_text("mine")
    with refused(f"file.gz cannot be kept in the cache {cache} (", "folder in the environment variable SYMLAB_CACHE"):
        download.fetch("file.gz", (f"{address}/right/",), DIGEST, LARGEST)
    assert cache.read_text() == "mine"
