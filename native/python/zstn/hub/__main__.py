"""Packs the checkpoints of a whole hub: ``python -m zstn.hub``."""

from __future__ import annotations

import sys

from .job._command import main

if __name__ == "__main__":
    sys.exit(main())
