"""A simulated user's machine: a separate home folder with git, git-lfs and zstn."""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import checkpoints

ROOT = Path(__file__).parents[2]
ZSTN = Path(os.environ.get("ZSTN_BIN") or ROOT / "target" / "debug" / "zstn")
GIT_LFS = Path(os.environ.get("ZSTN_GIT_LFS") or shutil.which("git-lfs") or "git-lfs")

#: Time limit of a command, which only matters if programs wait for each other.
LIMIT_SECONDS = 300


class Machine:
    """A home folder, and the environment of the programs that run with it."""

    def __init__(self, folder, variables=None):
        self.home = folder / "home"
        programs = self.home / "programs"
        programs.mkdir(parents=True)
        (programs / "git-lfs").symlink_to(GIT_LFS)
        (programs / "zstn").symlink_to(ZSTN)
        own = ("GIT_", "AWS_", "LFS_", "XDG_")
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(own)},
            "HOME": str(self.home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            **(variables or {}),
        }
        for key, value in {
            "user.name": "Test",
            "user.email": "test@example.org",
            "init.defaultBranch": "main",
            "protocol.file.allow": "always",
        }.items():
            self.run(self.home, "git", "config", "--global", key, value)
        self.run(self.home, "git", "lfs", "install", "--skip-repo")

    def start(self, folder, *command, **variables):
        """Starts a command in a separate process group."""
        return subprocess.Popen(
            [str(word) for word in command],
            cwd=folder,
            env={**self.environment, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def attempt(self, folder, *command, **variables):
        """Runs a command, and returns its exit status and output."""
        process = self.start(folder, *command, **variables)
        try:
            printed, _ = process.communicate(timeout=LIMIT_SECONDS)
        finally:
            process.kill()
        return process.returncode, printed.decode(errors="replace")

    def run(self, folder, *command, **variables):
        """Runs a command that must succeed, and returns its output."""
        status, printed = self.attempt(folder, *command, **variables)
        if status != 0:
            raise AssertionError(f"{command} ended with {status}:\n{printed}")
        return printed


class Case(unittest.TestCase):
    """A test case with a folder, a machine, and a repository to push to."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="zstn-lfs-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.machine = self.new_machine("first")
        self.remote = self.folder / "remote.git"
        self.machine.run(self.folder, "git", "init", "--quiet", "--bare", self.remote)

    def new_machine(self, name, variables=None):
        folder = self.folder / name
        folder.mkdir()
        return Machine(folder, variables)

    def new_repository(self, machine, name="work"):
        """Creates a repository with the remote, and lets git-lfs manage its large
        files."""
        folder = machine.home / name
        machine.run(machine.home, "git", "init", "--quiet", folder)
        machine.run(folder, "git", "remote", "add", "origin", self.remote)
        machine.run(folder, "git", "lfs", "track", "*.safetensors", "*.bin")
        return folder

    def commit(self, machine, folder, message="files"):
        machine.run(folder, "git", "add", "--all")
        machine.run(folder, "git", "commit", "--quiet", "--message", message)

    def clone(self, machine, name, *arguments, **variables):
        folder = machine.home / name
        command = ["git", *arguments, "clone", "--quiet", self.remote, folder]
        machine.run(machine.home, *command, **variables)
        return folder

    def clone_pointers(self, machine, name):
        """Clones the repository without fetching objects."""
        return self.clone(machine, name, GIT_LFS_SKIP_SMUDGE="1")

    def assert_same_files(self, folder, expected):
        self.assertEqual(digests(folder), expected)


def digests(folder):
    """Returns the SHA-256 of every file in a working tree, keyed by path."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.relative_to(folder).parts[0] != ".git"
    }


def objects(folder):
    """Returns the paths of the objects below a folder, keyed by name."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name: path for path in files if re.fullmatch("[0-9a-f]{64}", path.name)}


def write_files(machine, folder):
    """Writes files of every type that an object can have, and returns their digests.

    There are eleven checkpoints, more than git-lfs transfers concurrently.
    """
    checkpoints.write_many(folder, 11)
    checkpoints.write(folder / "a name with spaces.safetensors", 12)
    machine.run(folder, "zstn", "pack", "--quiet", "m0.safetensors", "-o", "packed.bin")
    machine.run(folder, "zstn", "compress", "--quiet", "m1.safetensors", "-o", "frame.bin")
    (folder / "noise.bin").write_bytes(checkpoints.noise(1_500_000))
    (folder / "empty.bin").write_bytes(b"")
    (folder / "letter.bin").write_bytes(b"x")
    # The file begins like the envelope in which the store keeps some objects.
    (folder / "envelope.bin").write_bytes(b"ZLFS\x01\0\0\0rest")
    (folder / "magic.bin").write_bytes(b"ZSTN")
    checkpoints.write_with_gap(folder / "gap.safetensors")
    # The file begins like a safetensors file.
    truncated = (folder / "m2.safetensors").read_bytes()[:9000]
    (folder / "truncated.safetensors").write_bytes(truncated)
    return digests(folder)
