"""Estimates the duration and the cost of a job on a whole hub, with a discrete-event
simulation: ``python -m zstn_hub simulate``. It is pure Python, and the
same seed gives the same figures.

`simulate` runs a list of `Work` on a `Cluster`. `estimate` handles volumes that are too
large for a list, with file lengths drawn from a `Census`.
"""

from ._estimate import Estimate, Knee, estimate, knee
from ._events import Run, simulate
from ._settings import Cluster, Failures, Prices, Settings, Speeds, Store
from ._work import Census, Work, work_of

__all__ = [
    "Census",
    "Cluster",
    "Estimate",
    "Failures",
    "Knee",
    "Prices",
    "Run",
    "Settings",
    "Speeds",
    "Store",
    "Work",
    "estimate",
    "knee",
    "simulate",
    "work_of",
]
