"""The HTTP download against a server on this machine: cuts, ranges, wrong content."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import AssetError
from engine.model import download as module
from engine.model.assets import ensure
from engine.model.download import download
from engine.model.manifest import FileSpec
from engine.model.sources import ReleaseSource, Unavailable

from .small import ARCHIVE, INT8, NAMES, SMALL

NAME = "file.onnx"
CONTENT = bytes(range(256)) * 40


def spec_of(content: bytes) -> FileSpec:
    return FileSpec(NAME, len(content), hashlib.sha256(content).hexdigest())


SPEC = spec_of(CONTENT)


@dataclass
class Server:
    """What the server holds and how it misbehaves.

    Attributes:
        files: path without the slash -> content.
        cuts: for each request in turn, after how many bytes of the body the connection ends.
        ranges: whether it knows ranges.
        status: answered instead of 200.
        asked: path and Range header of each request.
        base: its address.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    ranges: bool = True
    status: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    base: str = ""


def handler_for(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            """Keeps the test's output clean."""

        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            wanted = self.headers.get("Range")
            server.asked.append((name, wanted))
            content = server.files.get(name)
            if server.status is not None or content is None:
                return self.send_error(server.status or 404)
            at = 0
            if wanted is not None and server.ranges:
                at = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if at >= len(content):
                    return self.send_error(416)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {at}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            body = content[at:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: server.cuts.pop(0)] if server.cuts else body)
            return None

    return Handler


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    state = Server(files={NAME: CONTENT})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler_for(state)) as http:
        state.base = f"http://127.0.0.1:{http.server_port}/"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield state
        http.shutdown()
        thread.join()


def silent(what: str, done: int, total: int | None) -> None:
    pass


def fetch(server: Server, folder: Path, spec: FileSpec = SPEC) -> bytes:
    return download(server.base, spec, folder, silent).read_bytes()


def part(folder: Path) -> Path:
    return folder / f"{NAME}.part"


def test_whole_file_with_progress(server: Server, tmp_path: Path) -> None:
    told: list[tuple[str, int, int | None]] = []
    path = download(server.base, SPEC, tmp_path, lambda *args: told.append(args))
    assert path.read_bytes() == CONTENT
    assert told[-1] == (NAME, len(CONTENT), len(CONTENT))
    assert server.asked == [(NAME, None)]


def test_cut_connection_is_resumed_at_once(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000, 500]
    assert fetch(server, tmp_path) == CONTENT
    assert [wanted for _, wanted in server.asked] == [None, "bytes=1000-", "bytes=1500-"]


def test_hopeless_cut_keeps_the_part_for_the_next_try(server: Server, tmp_path: Path) -> None:
    server.cuts = [1000, 0]
    with pytest.raises(Unavailable, match=r"cut at 1,000 of 10,240 bytes .* goes on from there"):
        fetch(server, tmp_path)
    assert part(tmp_path).read_bytes() == CONTENT[:1000]
    server.asked.clear()
    assert fetch(server, tmp_path) == CONTENT
    assert server.asked == [(NAME, "bytes=1000-")]


def test_tries_are_bounded(server: Server, tmp_path: Path) -> None:
    server.cuts = [1] * 100
    with pytest.raises(Unavailable, match="cut at 8 of"):
        fetch(server, tmp_path)
    assert len(server.asked) == module.CONNECTIONS


def test_server_that_ignores_ranges(server: Server, tmp_path: Path) -> None:
    part(tmp_path).write_bytes(CONTENT[:700])
    server.ranges = False
    assert fetch(server, tmp_path) == CONTENT
    assert server.asked == [(NAME, "bytes=700-")]


@pytest.mark.parametrize("length", [len(CONTENT) + 5, len(CONTENT)])
def test_part_that_is_too_long_or_wrong_is_fetched_afresh_once(
    server: Server, tmp_path: Path, length: int
) -> None:
    part(tmp_path).write_bytes(b"x" * length)
    assert fetch(server, tmp_path) == CONTENT
    assert server.asked == [(NAME, None)]


def test_answer_416_starts_again(server: Server, tmp_path: Path) -> None:
    # The server's file is shorter than the part; ours is of something else.
    wanted = spec_of(CONTENT[:900])
    server.files[NAME] = CONTENT[:900]
    part(tmp_path).write_bytes(b"x" * 899)
    server.files[NAME] = CONTENT[:800]
    with pytest.raises(Unavailable, match=r"has a file\.onnx of 800 bytes instead of 900"):
        fetch(server, tmp_path, wanted)
    assert [wanted for _, wanted in server.asked] == ["bytes=899-", None]
    server.files[NAME] = CONTENT[:900]
    assert fetch(server, tmp_path, wanted) == CONTENT[:900]


def test_resumed_file_with_a_wrong_hash_is_fetched_afresh(server: Server, tmp_path: Path) -> None:
    part(tmp_path).write_bytes(b"x" * 1000)
    assert fetch(server, tmp_path) == CONTENT
    assert [wanted for _, wanted in server.asked] == ["bytes=1000-", None]


def test_fresh_file_with_a_wrong_hash_is_refused_and_deleted(
    server: Server, tmp_path: Path
) -> None:
    server.files[NAME] = bytes(len(CONTENT))
    part(tmp_path).write_bytes(b"x" * 1000)
    with pytest.raises(Unavailable, match=f"sent another file.onnx .* {SPEC.sha256[:12]}"):
        fetch(server, tmp_path)
    assert len(server.asked) == 2
    assert not part(tmp_path).exists()


@pytest.mark.parametrize("status", [403, 404, 500, 503])
def test_status_is_told_and_nothing_written(server: Server, tmp_path: Path, status: int) -> None:
    server.status = status
    with pytest.raises(Unavailable, match=f"answered {status} for file.onnx"):
        fetch(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_unreachable_server(server: Server, tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as gone:
        base = f"http://127.0.0.1:{gone.server_port}/"
    with pytest.raises(Unavailable, match=r"cannot be reached \(Connection refused\)"):
        download(base, SPEC, tmp_path, silent)


def test_unusable_proxy_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "nonsense://127.0.0.1")
    with pytest.raises(Unavailable, match="no HTTP client"):
        download("http://127.0.0.1:9/", SPEC, tmp_path, silent)


def test_release_source_fills_the_cache(server: Server, tmp_path: Path) -> None:
    server.files = {"kokoro-v1.0.int8.onnx": INT8, "voices-v1.0.bin": ARCHIVE}
    server.cuts = [10, 0]
    cache = tmp_path / "cache"
    source = ReleaseSource(base=server.base, keep=cache / "downloads")
    with pytest.raises(AssetError, match="goes on from there"):
        ensure(folder=None, cache=cache, sources=[source], manifest=SMALL)
    assert (cache / "voices").is_dir()  # the other half was fetched all the same
    assert (cache / "downloads" / "kokoro-v1.0.int8.onnx.part").read_bytes() == INT8[:10]
    server.asked.clear()
    assets = ensure(folder=None, cache=cache, sources=[source], manifest=SMALL)
    assert server.asked == [("kokoro-v1.0.int8.onnx", "bytes=10-")]
    assert assets.model.read_bytes() == INT8
    assert assets.voice_names() == NAMES
    assert not (cache / "downloads").exists()


class Body(httpx.SyncByteStream):
    """A body that may end with an error after its bytes."""

    def __init__(self, body: bytes, cut: bool) -> None:
        self.body = body
        self.cut = cut

    def __iter__(self) -> Iterator[bytes]:
        yield self.body
        if self.cut:
            raise httpx.ReadError("cut")


@settings(max_examples=60, deadline=None)
@given(
    begun=st.binary(max_size=60),
    content=st.binary(min_size=1, max_size=40),
    answers=st.lists(
        st.tuples(st.sampled_from([200, 206, 416, 404]), st.integers(0, 40), st.booleans()),
        max_size=12,
    ),
)
def test_whatever_a_server_does_the_file_is_right_or_there_is_none(
    tmp_path_factory: pytest.TempPathFactory,
    begun: bytes,
    content: bytes,
    answers: list[tuple[int, int, bool]],
) -> None:
    folder = tmp_path_factory.mktemp("any")
    if begun:
        part(folder).write_bytes(begun)
    script = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        status, sent, cut = next(script, (200, len(content), False))
        at = int(request.headers.get("Range", "bytes=0-")[6:-1]) if status == 206 else 0
        body = content[at : at + sent]
        headers = {"Content-Range": f"bytes {at}-"} if status == 206 else {}
        return httpx.Response(status, headers=headers, stream=Body(body, cut))

    def client() -> httpx.Client:
        return httpx.Client(transport=httpx.MockTransport(answer))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_client", client)
        try:
            path = download("http://any/", spec_of(content), folder, silent)
        except Unavailable:
            return
    assert path.read_bytes() == content
