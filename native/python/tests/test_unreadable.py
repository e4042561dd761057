"""Files that cannot be read, because of an unreadable page or because they are no
regular files."""

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import zstn
import zstn.numpy

SHIM = Path(__file__).resolve().parents[3] / "tests" / "faults" / "unreadable.c"

CALLS = {
    "pack": ("m.safetensors", "zstn.pack('m.safetensors', 'out.zstn')"),
    "pack a base": ("m.safetensors", "zstn.pack('t.safetensors', 'out.z4dm', base='m.safetensors')"),
    "unpack": ("m.zstn", "zstn.unpack('m.zstn', 'out.safetensors')"),
    "verify": ("m.zstn", "zstn.verify('m.zstn')"),
    "verify against": ("m.safetensors", "zstn.verify('m.zstn', original='m.safetensors')"),
    "convert": ("m.zstn", "zstn.convert('m.zstn', 'out.zt')"),
    "load_file, plain": ("m.safetensors", "zstn.numpy.load_file('m.safetensors')"),
    "load_file, packed": ("m.zstn", "zstn.numpy.load_file('m.zstn')"),
    "open": ("m.zstn", "m = zstn.open('m.zstn'); [m.read(name) for name in m.keys()]"),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    values = np.random.default_rng(7).standard_normal((64, 1024)).astype(np.float32)
    zstn.numpy.save_file({"a": values}, folder / "m.safetensors")
    zstn.numpy.save_file({"a": values + 1}, folder / "t.safetensors")
    zstn.pack(folder / "m.safetensors", folder / "m.zstn")
    return folder


@pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and cc")
@pytest.mark.parametrize("call", CALLS)
def test_a_page_that_cannot_be_read_is_an_error(models, tmp_path, call):
    name, code = CALLS[call]
    for file in models.iterdir():
        shutil.copy(file, tmp_path)
    shim = tmp_path / "unreadable.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", shim, SHIM, "-ldl"], check=True)
    bad = (tmp_path / name).resolve()
    environment = os.environ | {
        "LD_PRELOAD": str(shim),
        "ZSTN_BAD_FILE": str(bad),
        "ZSTN_BAD_PAGE": str(bad.stat().st_size // 2 // 4096 * 4096),
    }
    done = subprocess.run(
        [sys.executable, "-c", f"import zstn, zstn.numpy; {code}"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "OSError: [Errno 5]" in done.stderr and name in done.stderr
    assert "at byte" in done.stderr
    assert not list(tmp_path.glob("out.*"))


def test_what_is_no_file_is_refused_at_once(models, tmp_path):
    os.mkfifo(tmp_path / "pipe.zstn")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.zstn"))
        for path, kind in [
            (tmp_path / "pipe.zstn", "named pipe"),
            (tmp_path / "socket.zstn", "socket"),
            ("/dev/zero", "device"),
        ]:
            for call in [
                lambda path: zstn.open(path),
                lambda path: zstn.verify(path),
                lambda path: zstn.unpack(path, tmp_path / "out"),
                lambda path: zstn.pack(path, tmp_path / "out"),
                lambda path: zstn.pack(models / "t.safetensors", tmp_path / "out", base=path),
                lambda path: zstn.numpy.load_file(path),
            ]:
                with pytest.raises(zstn.ZstnError, match=kind) as error:
                    call(path)
                assert error.value.code == "usage"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("threads", [-1, -(10**30), 10**6, 10**30, 1.5, "many"])
def test_numbers_of_threads_have_limits(models, tmp_path, threads):
    for call in [
        lambda: zstn.open(models / "m.zstn", threads=threads),
        lambda: zstn.pack(models / "m.safetensors", tmp_path / "out", threads=threads),
        lambda: zstn.verify(models / "m.zstn", threads=threads),
        lambda: zstn.convert(models / "m.zstn", tmp_path / "out.zt", threads=threads),
    ]:
        with pytest.raises((ValueError, TypeError), match="threads"):
            call()
