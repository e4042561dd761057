"""The library from Python by ctypes alone: smoke.py LIBRARY FOLDER"""

import ctypes
import pathlib
import sys
from ctypes import POINTER, byref, c_char, c_char_p, c_int32, c_size_t, c_uint8, c_uint64, c_void_p


class Error(ctypes.Structure):
    _fields_ = [("code", c_int32), ("message", c_char * 1020)]


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


main(*sys.argv[1:])
print("ok")
