"""Runs the Python examples of README.md one after another in an empty folder, with only
zstn and NumPy installed."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def main() -> None:
    examples = re.findall(r"^```python\n(.*?)^```$", README.read_text("utf-8"), re.M | re.S)
    assert examples, "README.md has no examples"
    names: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ["ZSTN_CACHE"] = os.path.join(folder, "cache")
        for number, example in enumerate(examples, 1):
            exec(compile(example, f"README.md, example {number}", "exec"), names)
        os.chdir("/")
    print(f"{len(examples)} examples ran")


if __name__ == "__main__":
    main()
