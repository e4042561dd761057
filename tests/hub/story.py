"""Follows one model through a hub: it is packed into a repository, loaded through the
gateway, cloned with git-lfs, and read in part from C.

`cargo xtask hub-demo` prepares the programs and runs this script.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.request import urlopen

REPOSITORY = "me/model"
ROOT = Path(__file__).parents[2]
TESTS = ROOT / "native" / "python" / "tests"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--git-lfs", type=Path, help="program; without it that part is left out")
    parser.add_argument("--c-library", type=Path, help="where libzstn is installed")
    return parser.parse_args()


def size(count: int) -> str:
    units = [("GB", 10**9), ("MB", 10**6), ("kB", 10**3)]
    for unit, factor in units:
        if count >= factor:
            return f"{count / factor:.3g} {unit}" if count < 100 * factor else f"{count // factor} {unit}"
    return f"{count} B"


class Table:
    """Prints the steps of the demo with the number of bytes that each one transferred."""

    def __init__(self, original: int) -> None:
        self.original = original
        self.rows: list[tuple[str, str, int, int]] = []

    def add(self, what: str, how: str, moved: int, of: int | None = None) -> None:
        self.rows.append((what, how, moved, self.original if of is None else of))

    def print(self) -> None:
        cells = [("", "moved", "original", "", "")]
        for what, how, moved, of in self.rows:
            cells.append((what, size(moved), size(of), f"{100 * moved / of:.1f} %", how))
        widths = [max(len(row[column]) for row in cells) for column in range(5)]
        for what, moved, of, share, how in cells:
            line = f"{what:<{widths[0]}}  {moved:>{widths[1]}}  {of:>{widths[2]}}  "
            print(f"{line}{share:>{widths[3]}}  {how}".rstrip())


class Story:
    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.model: Path = options.model.absolute()
        self.digest = hashlib.sha256(self.model.read_bytes()).hexdigest()
        self.table = Table(self.model.stat().st_size)
        self.zstn = Path(os.environ["ZSTN_BIN"])

    def run(self, *command: object, cwd: Path | None = None, **variables: str) -> str:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd or self.folder,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode != 0:
            sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done.stdout

    def check(self, path: Path) -> None:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != self.digest:
            sys.exit(f"{path} is not the original")

    def push(self, hub: StubHub) -> None:
        """Packs the model into a repository during the upload."""
        from huggingface_hub import HfApi

        HfApi(token="hf_secret").create_repo(REPOSITORY)
        hub.clear_log()
        hf = Path(sys.executable).with_name("hf-zstn")
        self.run(hf, "push", self.model, REPOSITORY, HF_TOKEN="hf_secret")
        sent = sum(one["received_bytes"] for one in hub.log)
        self.table.add("push to the hub", "hf zstn push", sent)

    def load(self, hub: StubHub) -> None:
        """Loads the model with programs that do not know about packing."""
        from huggingface_hub import hf_hub_download
        from safetensors import safe_open

        gateway = Gateway(hub.endpoint)
        path = Path(
            hf_hub_download(
                REPOSITORY, self.model.name, endpoint=gateway.endpoint, cache_dir=self.folder / "cache"
            )
        )
        self.check(path)
        with safe_open(path, "np") as file, safe_open(self.model, "np") as original:
            assert file.keys() == original.keys()
        with urlopen(f"{gateway.endpoint}/metrics") as answer:
            figures = dict(
                line.rsplit(" ", 1)
                for line in answer.read().decode().splitlines()
                if not line.startswith("#")
            )
        gateway.close()
        fetched = int(figures["zstn_gateway_upstream_bytes_total"])
        self.table.add("load through the gateway", "huggingface_hub, safetensors", fetched)

    def clone(self) -> None:
        """Stores the model in a git repository, and clones the repository."""
        programs = self.folder / "programs"
        programs.mkdir()
        (programs / "git-lfs").symlink_to(self.options.git_lfs)
        (programs / "zstn").symlink_to(self.zstn)
        home = self.folder / "home"
        home.mkdir()
        store = self.folder / "store"
        environment = {
            "HOME": str(home),
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

        def git(folder: Path, *command: object, **more: str) -> str:
            return self.run("git", *command, cwd=folder, **environment, **more)

        for key, value in [("user.name", "Me"), ("user.email", "me@example.org")]:
            git(home, "config", "--global", key, value)
        git(home, "lfs", "install", "--skip-repo")
        bare, work, clone = (self.folder / name for name in ("bare.git", "work", "clone"))
        git(home, "init", "--quiet", "--bare", "--initial-branch=main", bare)
        git(home, "clone", "--quiet", bare, work)
        self.run("zstn", "lfs", "install", "--store", store, cwd=work, **environment)
        git(work, "lfs", "track", "*.safetensors")
        shutil.copy(self.model, work / "model.safetensors")
        git(work, "add", ".")
        git(work, "commit", "--quiet", "-m", "Add the model")
        git(work, "push", "--quiet", "origin", "HEAD:main")
        git(home, "clone", "--quiet", bare, clone, GIT_LFS_SKIP_SMUDGE="1")
        self.run("zstn", "lfs", "install", "--store", store, cwd=clone, **environment)
        git(clone, "lfs", "pull")
        self.check(clone / "model.safetensors")
        stored = sum(path.stat().st_size for path in store.rglob("*") if path.is_file())
        self.table.add("clone with git-lfs", "zstn lfs, its store in a folder", stored)

    def row(self, hub: StubHub) -> None:
        """Reads one row of the model's largest tensor from the repository, with a C
        program."""
        from safetensors import safe_open

        with safe_open(self.model, "np") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}
            matrices = [name for name, shape in shapes.items() if len(shape) == 2]
            name = max(matrices, key=lambda name: shapes[name][0] * shapes[name][1])
        url = f"{hub.endpoint}/{REPOSITORY}/resolve/main/{self.model.with_suffix('.zstn').name}"
        program = self.folder / "rows"
        prefix: Path = self.options.c_library
        flags = self.run(
            "pkg-config", "--cflags", "--libs", "libzstn",
            PKG_CONFIG_PATH=str(prefix / "lib" / "pkgconfig"),
            # libzstn.pc contains the path to which it was installed.
            PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1",
        )  # fmt: skip
        source = ROOT / "native" / "capi" / "examples" / "c" / "rows.c"
        self.run("cc", source, "-o", program, *flags.split())
        hub.clear_log()
        printed = self.run(program, url, name, "1", LD_LIBRARY_PATH=str(prefix / "lib"))
        moved = sum(one["sent_bytes"] for one in hub.log)
        zstn = ["get", self.model, name, "--rows", "0..1", "-o", self.folder / "row.bin"]
        self.run(self.zstn, *zstn)
        expected = (self.folder / "row.bin").read_bytes()
        if bytes.fromhex(printed.strip()) != expected:
            sys.exit("the row is not that of the original")
        self.table.add(f"one row of {name}", "C, libzstn", moved)


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="zstn-hub-") as folder:
        story = Story(options, Path(folder))
        hub = StubHub()
        steps: list[tuple[object, Callable[[], None]]] = [
            (True, lambda: story.push(hub)),
            (True, lambda: story.load(hub)),
            (options.git_lfs, story.clone),
            (options.c_library, lambda: story.row(hub)),
        ]
        os.environ.update(HF_ENDPOINT=hub.endpoint, HF_HOME=f"{folder}/hf", HF_HUB_DISABLE_XET="1")
        os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
        os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
        for wanted, step in steps:
            if wanted:
                step()
        hub.close()
        story.table.print()


sys.path.insert(0, str(TESTS))
from gateway import Gateway  # noqa: E402
from stub_hub import StubHub  # noqa: E402

if __name__ == "__main__":
    main()
