"""Signals, forks, memory use and start-up time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

import zstn.numpy

pytestmark = pytest.mark.skipif(os.name != "posix", reason="forks and signals of POSIX")


# If the tests run in the background of a shell, their child processes ignore SIGINT.
LISTEN = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"


def run(program: str, *args: object, **options: object) -> subprocess.CompletedProcess[str]:
    # Python 3.12 and later warn about forks of processes with threads.
    warnings = ["-W", "error", "-W", "ignore:This process:DeprecationWarning"]
    command = [sys.executable, "-X", "dev", *warnings, "-c", LISTEN + textwrap.dedent(program)]
    return subprocess.run(
        [*command, *map(str, args)], capture_output=True, text=True, timeout=120, **options
    )


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """64 MB of data that take a while to pack."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("large") / "large.safetensors"
    tensors = {f"t{n}": random.standard_normal((1024, 1024)).astype(np.float32) for n in range(16)}
    zstn.numpy.save_file(tensors, path)
    return path


def test_importing_brings_no_framework() -> None:
    done = run("import sys, zstn; print(sorted(sys.modules))")
    assert done.returncode == 0, done.stderr
    for module in ("numpy", "torch", "jax", "ml_dtypes", "fsspec", "tqdm", "huggingface_hub"):
        assert f"'{module}'" not in done.stdout


def test_errors_are_those_of_safetensors_once_it_is_imported() -> None:
    first = """
        import sys, zstn
        def failure():
            try:
                zstn.open(b"{}")
            except zstn.ZstnError as error:
                return error
        early = failure()
        assert "safetensors" not in sys.modules and not isinstance(early, KeyError)
    """
    program = """
        import pickle, safetensors, zstn
        try:
            zstn.open(b"{}")
        except safetensors.SafetensorError as error:
            assert type(error) is zstn.ZstnError and error.code == "malformed", error.code
            assert str(pickle.loads(pickle.dumps(error))) == str(error)
        assert issubclass(zstn.TensorNotFoundError, (KeyError, safetensors.SafetensorError))
        assert issubclass(zstn.SliceError, IndexError) and issubclass(zstn.SliceError, zstn.ZstnError)
    """
    for parts in ([first], [first, program], [program]):
        done = run("\n".join(map(textwrap.dedent, parts)))
        assert done.returncode == 0, done.stderr


def test_ctrl_c_ends_packing_and_leaves_nothing(large: Path, tmp_path: Path) -> None:
    program = """
        import sys, zstn
        source, target = sys.argv[1:]
        print("ready", flush=True)
        try:
            zstn.pack(source, target, effort="max")
        except KeyboardInterrupt:
            print("stopped", flush=True)
    """
    command = [sys.executable, "-c", LISTEN + textwrap.dedent(program)]
    process = subprocess.Popen(
        [*command, str(large), str(tmp_path / "a.zstn")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    # Packing the whole file takes longer than this.
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=60)[0] == "stopped\n"
    assert process.returncode == 0
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_ends_reading_from_a_server_that_hangs() -> None:
    program = """
        import os, signal, socket, threading, zstn
        server = socket.create_server(("127.0.0.1", 0))
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            # Without the signal it fails after its time limits.
            zstn.open(f"http://127.0.0.1:{server.getsockname()[1]}/a.zstn")
        except KeyboardInterrupt:
            print("stopped", flush=True)
        os._exit(0)
    """
    done = run(program)
    assert (done.stdout, done.returncode) == ("stopped\n", 0), done.stderr


def test_ctrl_c_ends_loading_and_its_work() -> None:
    program = """
        import io, os, signal, time, numpy, zstn.numpy
        from zstn._safe_open import _safe_open_handle
        data = zstn.numpy.save({f"t{n}": numpy.full(1000, n, "i2") for n in range(300)})
        reads = 0
        class Slow(io.RawIOBase):
            # Reading all tensors takes six seconds.
            def __init__(self):
                self.inner = io.BytesIO(data)
            def readable(self):
                return True
            seekable = readable
            def seek(self, *place):
                return self.inner.seek(*place)
            def tell(self):
                return self.inner.tell()
            def readinto(self, out):
                global reads
                reads += 1
                if reads == 10:
                    os.kill(os.getpid(), signal.SIGINT)
                time.sleep(0.02)
                return self.inner.readinto(out)
        model = _safe_open_handle(Slow(), "np")
        reads = 0
        try:
            model.get_tensors()
        except KeyboardInterrupt:
            time.sleep(0.3)
            after = reads
            time.sleep(0.5)
            print("stopped", 0 < after == reads < 300, flush=True)
    """
    done = run(program)
    assert (done.stdout, done.returncode) == ("stopped True\n", 0), done.stderr


def test_readers_and_engine_after_a_fork(tmp_path: Path) -> None:
    array = np.random.default_rng(0).standard_normal((2048, 1024)).astype(np.float32)
    zstn.numpy.save_file({"a": array, "b": np.ones(3)}, tmp_path / "a.zstn")
    program = """
        import os, sys, zstn, zstn.numpy
        model = zstn.open(sys.argv[1])
        expected = model.numpy("a").tobytes()
        children = []
        for _ in range(3):
            child = os.fork()
            if child == 0:
                assert model.numpy("a").tobytes() == expected
                assert model.slice("a")[5:9, 3].tobytes()
                loaded = zstn.numpy.load_file(sys.argv[1])
                assert loaded["a"].tobytes() == expected
                zstn.verify(sys.argv[1])
                os._exit(7)
            children.append(child)
        for child in children:
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert model.numpy("a").tobytes() == expected
    """
    done = run(program, tmp_path / "a.zstn")
    assert done.returncode == 0, done.stderr


def test_a_child_that_ends_leaves_its_parents_outputs(large: Path, tmp_path: Path) -> None:
    program = """
        import os, sys, threading, zstn
        source, target = sys.argv[1:]
        child = 0
        def progress(done, total):
            global child
            if not child and done < total:
                child = os.fork()
                if not child:
                    sys.exit(0)
                # The output is unfinished until the child has ended.
                assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        zstn.pack(source, target, progress=progress)
        assert child
        zstn.verify(target, original=source)
    """
    done = run(program, large, tmp_path / "a.zstn")
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_memory_of_load_file(large: Path, tmp_path: Path) -> None:
    zstn.pack(large, tmp_path / "a.zstn")
    program = """
        import sys, zstn.numpy
        def peak():
            # Unlike ru_maxrss, without that of the parent.
            with open("/proc/self/status") as status:
                (line,) = [line for line in status if line.startswith("VmHWM")]
            return int(line.split()[1]) << 10
        zstn.numpy.load_file(sys.argv[2])
        before = peak()
        tensors = zstn.numpy.load_file(sys.argv[1])
        print(peak() - before, sum(array.nbytes for array in tensors.values()))
    """
    small = tmp_path / "small.zstn"
    random = np.random.default_rng(0)
    zstn.numpy.save_file({"a": random.standard_normal(4096).astype(np.float32)}, small)
    done = run(program, tmp_path / "a.zstn", small)
    assert done.returncode == 0, done.stderr
    grown, loaded = map(int, done.stdout.split())
    # The memory for the tensors, the largest packed tensor (4 MiB) and its decoding.
    assert loaded <= grown + (8 << 20)
    assert grown < loaded + (24 << 20)


def test_the_end_of_the_interpreter_is_clean(large: Path, tmp_path: Path) -> None:
    program = """
        import sys, threading, zstn
        thread = threading.Thread(target=zstn.pack, args=sys.argv[1:], daemon=True)
        thread.start()
        thread.join(0.5)
    """
    done = run(program, large, tmp_path / "a.zstn")
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir() if path.name != "a.zstn"] == []
