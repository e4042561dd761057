"""Checks a wheel on the interpreter that runs this file, with the standard library alone.

    python installed.py WHEEL.whl    # pip installs it into a new virtual environment
    python installed.py FOLDER       # the unpacked wheel, for interpreters without pip
"""

from __future__ import annotations

import json
import os
import platform
import random
import struct
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROWS, COLUMNS = 96, 640
IS_FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
# Programs that a foreign interpreter starts need its emulator, too.
PYTHON = [*json.loads(os.environ.get("ZSTN_EMULATOR", "[]")), sys.executable]
PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from zstn.__main__ import main; sys.exit(main())"


def output(command: list[str]) -> bytes:
    # Some emulators need a standard input.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=600)
    assert done.returncode == 0, (command, done)
    return done.stdout


def in_new_environment(wheel: str) -> None:
    """Installs the wheel with pip, and runs this file in its environment."""
    with tempfile.TemporaryDirectory() as folder:
        output([sys.executable, "-m", "venv", folder])
        scripts = Path(folder, "Scripts" if os.name == "nt" else "bin")
        pip = "-m pip install --quiet --disable-pip-version-check --no-deps --no-index"
        output([str(scripts / "python"), *pip.split(), wheel])
        print(output([str(scripts / "python"), "-I", __file__]).decode().strip())


def weights() -> bytes:
    """Returns BF16 numbers: the upper halves of normally distributed floats."""
    normal = random.Random(0).gauss
    return b"".join(struct.pack("<f", normal(0, 0.02))[2:] for _ in range(ROWS * COLUMNS))


def check(program: list[str]) -> None:
    import zstn

    if IS_FREE_THREADED:
        assert not sys._is_gil_enabled(), "importing zstn has enabled the GIL"
    content, row = weights(), 2 * COLUMNS
    info = {"dtype": "BF16", "shape": [ROWS, COLUMNS], "data_offsets": [0, len(content)]}
    header = json.dumps({"weights": info}).encode()
    with tempfile.TemporaryDirectory() as folder:
        plain, packed, restored = (Path(folder, name) for name in ("a.safetensors", "a.zstn", "b"))
        plain.write_bytes(struct.pack("<Q", len(header)) + header + content)
        report = zstn.pack(plain, packed)
        assert report.packed_bytes == packed.stat().st_size < 0.8 * report.original_bytes, report
        zstn.verify(packed, original=plain)
        zstn.unpack(packed, restored)
        assert restored.read_bytes() == plain.read_bytes()
        with zstn.open(packed) as model, ThreadPoolExecutor(4) as threads:
            found = model["weights"]
            assert (found.dtype, tuple(found.shape)) == ("BF16", (ROWS, COLUMNS)), found
            for read in threads.map(model.read, ["weights"] * 8):
                assert bytes(read) == content
        rows = output([*program, "get", str(packed), "weights", "--rows", "5:9"])
        assert rows == content[5 * row : 9 * row]
        damaged = bytearray(packed.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        packed.write_bytes(damaged)
        try:
            zstn.verify(packed)
        except zstn.ZstnError:
            pass
        else:
            raise AssertionError("damage was not detected")
    version = output([*program, "--version"]).decode().split()
    assert version[:2] == ["zstn", zstn.__version__], version


def main() -> None:
    match sys.argv[1:]:
        case [wheel] if wheel.endswith(".whl"):
            return in_new_environment(wheel)
        case [folder]:
            sys.path.insert(0, folder)
            check([*PYTHON, "-I", "-c", PROGRAM, folder])
        case _:
            check([os.path.join(sysconfig.get_path("scripts"), "zstn")])
    threads = ", free-threaded" if IS_FREE_THREADED else ""
    print(f"CPython {platform.python_version()}{threads}, {sysconfig.get_platform()}: passed")


if __name__ == "__main__":
    main()
