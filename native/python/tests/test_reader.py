"""Reading single tensors and slices."""

from __future__ import annotations

import contextlib
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import zstn
from conftest import assert_same
from zstn.numpy import load_file

INDICES = [
    0, -1, np.int64(3), ..., (), slice(None), slice(1, 2), slice(-20, None), slice(0, 300, 7),
    slice(None, None, -1), slice(250, 2, -3), slice(5, 2), slice(1, 10**6), (slice(None), 1),
    (0, 0), (..., 1), (1, ...), (slice(2, 9), slice(None, None, -2)), (None, 3), [], [0, 5],
    (slice(2, 4), [1, 2]), True,
]  # fmt: skip


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_slices_are_those_of_numpy(plain: Path, packed: Path, tensors, index) -> None:
    array = tensors["wte.weight"]
    for path in (plain, packed):
        with zstn.open(path) as model:
            found = model.slice("wte.weight")[index]
        assert found.shape == array[index].shape and found.dtype == array.dtype
        assert found.tobytes() == array[index].tobytes()


def test_slices_in_three_dimensions(packed: Path, tensors) -> None:
    array = tensors["block.weight"]
    with zstn.open(packed) as model:
        piece = model.slice("block.weight")
        assert (piece.shape, piece.dtype) == ((5, 7, 6), array.dtype)
        for index in [
            (slice(1, 4), 2),
            (slice(None), slice(None), slice(1, 5, 2)),
            (..., slice(None, None, -1)),
            (3, slice(2, 6), 4),
            (slice(4, None, -2), ..., 0),
            (0, 0, 0),
        ]:
            assert (piece[index] == array[index]).all() and piece[index].shape == array[index].shape
        assert model.slice("scale")[()] == np.float32(3.5)
        assert model.slice("empty")[...].shape == (0, 3)


def test_indices_that_are_not_there(packed: Path) -> None:
    with zstn.open(packed) as model:
        piece = model.slice("wte.weight")
        for index in [301, -302, (0, 40), (0, 0, 0), (..., ...)]:
            with pytest.raises(IndexError) as error:
                piece[index]
            assert isinstance(error.value, zstn.ZstnError)


def test_a_reader_is_a_mapping(plain: Path, packed: Path, tensors) -> None:
    for path in (plain, packed):
        with zstn.open(path) as model:
            assert sorted(model) == sorted(model.keys()) == sorted(tensors)
            assert len(model) == len(tensors)
            assert "scale" in model and "scales" not in model and 3 not in model
            assert model.metadata == {"format": "np"}
            info = model["wte.weight"]
            assert (info.name, info.dtype, info.shape) == ("wte.weight", "F32", (301, 40))
            assert info.nbytes == 301 * 40 * 4 and 0 < info.stored_nbytes <= info.nbytes
            assert dict(model.items())["scale"].shape == ()
            assert (info.digest is None) == (path == plain)
            assert info.digest is None or len(bytes.fromhex(info.digest)) == 16
            with pytest.raises(KeyError, match="did you mean"):
                model["scal"]
            with pytest.raises(KeyError):
                model.numpy("scal")
        for use in (model.keys, lambda: "scale" in model, lambda: "scales" in model):
            with pytest.raises(zstn.ZstnError) as error:
                use()
            assert error.value.code == "closed" and "closed" in repr(model)


def test_memory_is_writable_and_aligned(packed: Path, tensors) -> None:
    with zstn.open(packed) as model:
        buffer = model.read("wte.weight")
        view = memoryview(buffer)
        assert len(buffer) == view.nbytes == tensors["wte.weight"].nbytes
        assert not view.readonly and view.c_contiguous
        array = model.numpy("wte.weight")
        assert array.flags.writeable and array.ctypes.data % 64 == 0
        del buffer
        array[:] = 0
        assert view.tobytes() == tensors["wte.weight"].tobytes()


def test_inputs(plain: Path, packed: Path, tensors) -> None:
    content = packed.read_bytes()
    with open(packed, "rb") as file:
        for source in [
            str(packed),
            packed,
            packed.as_uri(),
            content,
            bytearray(content),
            memoryview(plain.read_bytes()),
            np.frombuffer(content, np.uint8),
            io.BytesIO(content),
            file,
        ]:
            with zstn.open(source) as model:
                assert_same({name: model.numpy(name) for name in model}, tensors)
    for wrong in (3, None, io.StringIO("x")):
        with pytest.raises(TypeError):
            zstn.open(wrong)


def test_the_exception_of_a_file_comes_back(packed: Path) -> None:
    class File:
        def __init__(self, content: bytes) -> None:
            self.file = io.BytesIO(content)

        def seek(self, *args: int) -> int:
            return self.file.seek(*args)

        def tell(self) -> int:
            return self.file.tell()

        def read(self, count: int) -> bytes:
            raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        zstn.open(File(packed.read_bytes()))

    class Short(File):
        def read(self, count: int) -> bytes:
            return b""

    with pytest.raises(EOFError, match="ended"):
        zstn.open(Short(packed.read_bytes()))


def test_eight_threads_read_one_reader(packed: Path, tensors) -> None:
    with zstn.open(packed) as model, ThreadPoolExecutor(8) as pool:
        names = list(tensors) * 20
        for name, array in zip(names, pool.map(model.numpy, names), strict=True):
            assert array.tobytes() == tensors[name].tobytes()


class Handler(BaseHTTPRequestHandler):
    """Serves the same bytes at every path, with range requests."""

    content: bytes
    requests: list[tuple[str | None, str | None]]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self.requests.append((self.headers["Range"], self.headers["Authorization"]))
        start, end = 0, len(self.content)
        if wanted := self.headers["Range"]:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first) if first else end - int(last)
            end = min(end, int(last) + 1) if first and last else end
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{len(self.content)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(end - start))
        self.send_header("ETag", '"1"')
        self.send_header("Accept-Ranges", "bytes")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(self.content[start:end])


# Python 3.12 and later issue this warning.
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_rows_over_http(tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((4096, 512)).astype(np.float32)
    zstn.numpy.save_file({"a": array, "b": array[::-1]}, tmp_path / "a.safetensors")
    Handler.content = (tmp_path / "a.safetensors").read_bytes()
    Handler.requests = []
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/a.safetensors"
            with zstn.open(url, token="secret") as model:
                Handler.requests.clear()
                rows = model.slice("b")[100:110, 3]
            assert (rows == array[::-1][100:110, 3]).all()
            fetched = sum(
                int(last) - int(first) + 1
                for wanted, _ in Handler.requests
                for first, last in [wanted.removeprefix("bytes=").split("-")]  # type: ignore[union-attr]
            )
            assert 9 * 512 * 4 < fetched < 1 << 20
            assert {token for _, token in Handler.requests} == {"Bearer secret"}
            if hasattr(os, "fork"):
                # A child process does not share its parent's connections.
                with zstn.open(url) as model:
                    child = os.fork()
                    if not child:
                        same = (model.slice("b")[7] == array[::-1][7]).all()
                        os._exit(7 if same else 1)
                    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
                    assert (model.slice("b")[8] == array[::-1][8]).all()
            with pytest.raises(zstn.ZstnError, match="not read over HTTP"):
                zstn.open(tmp_path / "a.safetensors", token="secret")
        finally:
            server.shutdown()
            thread.join()


# The frame of `w` and its checksum have been replaced, so only the digest of `w`
# reveals the damage (tests/rust/formats/integrity/mod.rs).
REPLACED = Path(__file__).parents[3] / "tests/vectors/zstn-verify/replaced-frame.zstn"


def test_full_compares_digests_and_stored_does_not() -> None:
    with zstn.open(REPLACED, verify="stored") as model:
        assert len(model.read("w")) == 240
    for options in ({}, {"verify": "full"}):
        with zstn.open(REPLACED, **options) as model:
            assert len(model.read("noise")) == 20
            with pytest.raises(zstn.ZstnError, match="do not match their digest"):
                model.read("w")
    with pytest.raises(ValueError, match="verify must be"):
        zstn.open(REPLACED, verify="all")  # type: ignore[arg-type]


class WholeFiles(Handler):
    """Serves whole files, ignoring range requests."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(self.content)


def test_files_are_read_whole_up_to_a_length(tmp_path: Path) -> None:
    zstn.numpy.save_file({"a": np.arange(100)}, tmp_path / "a.safetensors")
    WholeFiles.content = (tmp_path / "a.safetensors").read_bytes()
    length = len(WholeFiles.content)
    with ThreadingHTTPServer(("127.0.0.1", 0), WholeFiles) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/a.safetensors"
            for most in (None, length):
                with zstn.open(url, max_full_download_bytes=most) as model:
                    assert model.tensor("a")[7] == 7
            for most in (0, length - 1):
                with pytest.raises(zstn.ZstnError, match="ignores range requests"):
                    zstn.open(url, max_full_download_bytes=most)
        finally:
            server.shutdown()
            thread.join()


def test_one_unknown_dtype_makes_one_tensor_unreadable(tmp_path: Path) -> None:
    header = (
        b'{"a":{"dtype":"FP4","shape":[4],"data_offsets":[0,2]},'
        b'"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}'
    )
    path = tmp_path / "m.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + bytes([1, 2, 3, 4]))
    with zstn.open(path) as model:
        assert list(model) == ["b", "a"] and len(model) == 2 and "a" in model
        assert bytes(model.read("b")) == bytes([3, 4])
        with pytest.raises(zstn.ZstnError, match="FP4"):
            model.read("a")
    # Reading all tensors raises an error instead of returning fewer tensors.
    with pytest.raises(zstn.ZstnError, match="FP4"):
        load_file(path)
