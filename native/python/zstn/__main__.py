"""Runs the program `zstn`, which is not part of this package: ``python -m zstn``."""

from __future__ import annotations

import shutil
import subprocess
import sys


def main(arguments: list[str]) -> int:
    """Runs the program and returns its exit status."""
    program = shutil.which("zstn")
    if program is None:
        print(
            "the program `zstn` is not installed, and this package does not contain it: see "
            "https://github.com/zstn/zstn#try-it. In Python, zstn.pack, zstn.unpack, "
            "zstn.verify and zstn.convert do the same; `hf-zstn` works on repositories.",
            file=sys.stderr,
        )
        return 2
    try:
        return subprocess.call([program, *arguments])
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
