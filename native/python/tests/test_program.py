"""The command line of the package: the script `zstn` and ``python -m zstn``."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import zstn
import zstn.numpy
from gateway import program

SCRIPT = os.path.join(sysconfig.get_path("scripts"), "zstn")

posix = pytest.mark.skipif(os.name != "posix", reason="signals, pipes and terminals of POSIX")


def listen() -> None:
    """Restores the reaction to Ctrl-C, which shells disable for background commands."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run(
    command: Sequence[object], arguments: Sequence[str], folder: Path
) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        [*map(str, command), *arguments], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    ids = {f"a tensor with a long name, {n}": np.arange(3) for n in range(3000)}
    zstn.numpy.save_file(ids, folder / "many.zstn")
    random = np.random.default_rng(0)
    large = {f"t{n}": random.standard_normal((512, 1024)).astype(np.float32) for n in range(16)}
    zstn.numpy.save_file(large, folder / "large.safetensors")
    zstn.numpy.save_file(large, folder / "large.zstn")
    (folder / "broken.zstn").write_bytes(b"ZSTN" + bytes(100))
    return folder


@pytest.mark.parametrize(
    "line,status",
    [
        ("--version", 0),
        ("--help", 0),
        ("", 2),
        ("pack --help", 0),
        ("ls many.zstn", 0),
        ("ls many.zstn --json", 0),
        ("info large.zstn", 0),
        ("get large.zstn t3 --rows 0:4", 0),
        ("verify large.zstn", 0),
        ("unpack large.zstn -c --quiet", 0),
        ("completions bash", 0),
        ("verify broken.zstn", 1),
        ("verify broken.zstn --json", 1),
        ("pack", 2),
        ("pack --efort max a", 2),
        ("ls many.zstn --json --no-such-option", 2),
        ("ls missing.zstn", 3),
        ("ls s3://", 2),
    ],
)
def test_it_prints_and_returns_what_the_program_does(line: str, status: int, folder: Path) -> None:
    expected = run([program()], line.split(), folder)
    assert expected[0] == status, expected
    assert run([SCRIPT], line.split(), folder) == expected
    if len(line.split()) == 1:
        assert run([sys.executable, "-m", "zstn"], line.split(), folder) == expected


@posix
def test_file_names_of_any_bytes(folder: Path, tmp_path: Path) -> None:
    name = os.fsdecode(b"gr\xc3\xb6\xc3\x9fe \xff.zstn")
    try:
        shutil.copy(folder / "many.zstn", tmp_path / name)
    except OSError:
        pytest.skip("the file system takes only UTF-8")
    assert run([SCRIPT], ["verify", name], tmp_path) == run([program()], ["verify", name], tmp_path)


@posix
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("is_ignored", [False, True], ids=["", "ignored"])
def test_a_signal_leaves_no_file(number: signal.Signals, is_ignored: bool, folder: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [SCRIPT, "pack", str(folder / "large.safetensors"), "-o", str(tmp_path / "a.zstn"), "--effort", "max"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=(lambda: signal.signal(number, signal.SIG_IGN)) if is_ignored else listen,
    )
    while not list(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(number)
    output = process.communicate(timeout=120)
    names = [path.name for path in tmp_path.iterdir()]
    if is_ignored:
        assert (process.returncode, names) == (0, ["a.zstn"]), output
    else:
        assert (process.returncode, output, names) == (130, (b"", b""), [])


@posix
def test_closed_pipes(folder: Path) -> None:
    # `head` ends a listing early, which is no failure, but the bytes of a file are needed.
    for arguments, status in ((["ls", "many.zstn"], 0), (["unpack", "large.zstn", "-c"], 141)):
        for command in ([SCRIPT], [sys.executable, "-m", "zstn"]):
            process = subprocess.Popen(
                [*command, *arguments], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            assert process.stdout is not None and process.stderr is not None
            process.stdout.read(1)
            process.stdout.close()
            assert process.stderr.read() == b""
            process.stderr.close()
            assert process.wait(120) == status


@posix
def test_terminals(folder: Path) -> None:
    def on_terminal(command: str, *arguments: str) -> tuple[int, bytes]:
        ours, theirs = os.openpty()
        process = subprocess.Popen([command, *arguments], cwd=folder, stdout=theirs, stderr=theirs)
        os.close(theirs)
        output = b""
        try:
            while part := os.read(ours, 4096):
                output += part
        except OSError:
            # On Linux, the end of the other side is an error.
            pass
        os.close(ours)
        return process.wait(120), output

    for arguments in (["unpack", "large.zstn", "-c"], ["--help"]):
        assert on_terminal(SCRIPT, *arguments) == on_terminal(str(program()), *arguments)
    status, output = on_terminal(SCRIPT, "unpack", "large.zstn", "-c")
    assert status == 2 and b"is a terminal" in output


@pytest.mark.skipif(not shutil.which("git"), reason="needs git")
@pytest.mark.parametrize("command", [[SCRIPT], [sys.executable, "-m", "zstn"]], ids=["script", "module"])
def test_git_lfs_starts_the_script(command: list[str], tmp_path: Path) -> None:
    git = ["git", "-C", str(tmp_path)]
    subprocess.run([*git, "init", "--quiet"], check=True)
    status, _, error = run(command, ["lfs", "install"], tmp_path)
    assert status == 0, error
    found = subprocess.run(
        [*git, "config", "lfs.customtransfer.zstn.path"], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert found == SCRIPT
    assert run([found], ["--version"], tmp_path)[1].decode() == f"zstn {zstn.__version__}\n"
