"""Caches the sizes that peers reach in `target/cache/sizes.json`: computing them takes minutes and is deterministic."""

import hashlib
import importlib.metadata
import json

from corpus.packages import CACHE

FILE = CACHE / "sizes.json"


def size(package, what, inputs, make):
    """The result of `make()` for these inputs, taken from the cache if this version of the package has computed it
    before."""
    digests = [hashlib.sha256(part).hexdigest() for part in inputs]
    key = " ".join([f"{package} {importlib.metadata.version(package)}", what, *digests])
    known = json.loads(FILE.read_text()) if FILE.is_file() else {}
    if key not in known:
        found = make()
        # The file is read again because another run may have added to it.
        known = json.loads(FILE.read_text()) if FILE.is_file() else {}
        known[key] = found
        FILE.parent.mkdir(parents=True, exist_ok=True)
        part = FILE.with_suffix(".part")
        part.write_text(json.dumps(known, indent=0))
        part.replace(FILE)
    return known[key]
