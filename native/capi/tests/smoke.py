"""Uses the library from Python through ctypes: smoke.py LIBRARY FOLDER"""

import ctypes
import functools
import http.server
import pathlib
import sys
import threading
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint8, c_uint64, c_void_p


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("is_retryable", c_int32), ("message", c_char * 1016)]


class OpenOptions(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("engine", c_void_p),
        ("base", c_void_p),
        ("token", c_char_p),
        ("cache_len", c_uint64),
        ("view", c_int32),
        ("reserved", c_int32),
        ("max_full_download_len", c_uint64),
    ]


class Unpacked(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t),
        ("len", c_uint64),
        ("is_original", c_int32),
        ("has_sha256", c_int32),
        ("sha256", c_uint8 * 32),
    ]


def load(path):
    library = ctypes.CDLL(path)
    library.zstn_version.restype = c_char_p
    library.zstn_open_path.argtypes = [c_char_p, c_void_p, POINTER(c_void_p), POINTER(Error)]
    library.zstn_open_url.argtypes = [c_char_p, POINTER(OpenOptions), POINTER(c_void_p), POINTER(Error)]
    library.zstn_read.argtypes = [c_void_p, c_char_p, c_void_p, c_size_t, POINTER(Error)]
    library.zstn_unpacked_describe.argtypes = [c_void_p, POINTER(Unpacked), POINTER(Error)]
    library.zstn_unpacked_read_at.argtypes = [
        c_void_p,
        c_uint64,
        c_void_p,
        c_size_t,
        POINTER(Error),
    ]
    library.zstn_reader_free.argtypes = [c_void_p]
    return library


def main(path, folder):
    library, error, reader = load(path), Error(), c_void_p(1)
    folder = pathlib.Path(folder)
    assert library.zstn_version().count(b".") == 2
    missing = bytes(folder / "no.zstn")
    assert library.zstn_open_path(missing, None, byref(reader), byref(error)) == -2
    assert reader.value is None and error.code == -2 and b"no.zstn" in error.message

    def check(status):
        assert status == 0, error.message

    packed = bytes(folder / "model.zstn")
    check(library.zstn_open_path(packed, None, byref(reader), byref(error)))
    small = ctypes.create_string_buffer(60)
    check(library.zstn_read(reader, b"small", small, 60, byref(error)))
    assert small.raw == bytes(range(60))
    unpacked = Unpacked(struct_size=ctypes.sizeof(Unpacked))
    check(library.zstn_unpacked_describe(reader, byref(unpacked), byref(error)))
    whole = ctypes.create_string_buffer(unpacked.len)
    check(library.zstn_unpacked_read_at(reader, 0, whole, unpacked.len, byref(error)))
    assert whole.raw == (folder / "model.safetensors").read_bytes()
    library.zstn_reader_free(reader)
    without_ranges(library, folder)


def without_ranges(library, folder):
    """Python's HTTP server ignores range requests: a file longer than the caller allows is refused."""

    class Silent(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    length = (folder / "model.zstn").stat().st_size
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Silent, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/model.zstn".encode()
        for most, status in ((0, 0), (length, 0), (length - 1, -3), (1, -3)):
            options = OpenOptions(struct_size=ctypes.sizeof(OpenOptions), max_full_download_len=most)
            reader, error = c_void_p(1), Error()
            opened = library.zstn_open_url(url, byref(options), byref(reader), byref(error))
            assert opened == status, (most, opened, error.message)
            if status == 0:
                library.zstn_reader_free(reader)
        server.shutdown()


main(*sys.argv[1:])
print("ok")
