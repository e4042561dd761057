"""Sizes that peers reached, kept in `target/cache/sizes.json`: they take minutes, and are the same every time."""

import hashlib
import importlib.metadata
import json

from corpus.packages import CACHE

FILE = CACHE / "sizes.json"


def size(package, what, inputs, make):
    """What `make()` gives for these inputs, or gave before with this version of the package."""
    digests = [hashlib.sha256(part).hexdigest() for part in inputs]
    key = " ".join([f"{package} {importlib.metadata.version(package)}", what, *digests])
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    if key not in known:
        found = make()
        # Read again: another run may have added to it.
        known = json.loads(FILE.read_text()) if FILE.is_file() else {}
        known[key] = found
        FILE.parent.mkdir(parents=True, exist_ok=True)
        part = FILE.with_suffix(".part")
        part.write_text(json.dumps(known, indent=0))
        part.replace(FILE)
    return known[key]
