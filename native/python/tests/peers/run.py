"""Runs the test suite of another package with zstn: `run.py z4ai` or `run.py
safetensors`. The suite comes from the package's source distribution, which pip
downloads; no part of it is in this repository."""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SUITES = {
    "z4ai": ("z4ai", "0.2.0", "tests"),
    "safetensors": ("safetensors", "0.8.0", "bindings/python/tests"),
}


def download(package: str, version: str, into: Path) -> Path:
    """Returns the path of the source distribution, which is downloaded once."""
    archive = into / f"{package}-{version}.tar.gz"
    if not archive.exists():
        into.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [
                sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
                "--disable-pip-version-check", "--no-binary", package, "--dest", str(into),
                f"{package}=={version}",
            ],
            check=True,
        )  # fmt: skip
    return archive


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()))
    options, rest = parser.parse_known_args()
    package, version, tests = SUITES[options.suite]
    archive = download(package, version, options.cache)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(archive) as opened:
            opened.extractall(folder, filter="data")
        place = Path(folder) / "suite"
        shutil.copytree(HERE / f"{options.suite}_suite", place)
        shutil.copytree(Path(folder) / f"{package}-{version}" / tests, place / "tests")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rs"]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run(
            [*command, f"--rootdir={place}", "--import-mode=importlib", "tests", *rest],
            cwd=place,
            env=environment,
        )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
