"""How long a job on a whole hub takes and what it costs, by a model of its events:
``python -m zstn.hub simulate``. Pure Python; the same seed gives the same figures.

`simulate` runs a list of `Work` on a `Cluster`; `estimate` does it for volumes
that are too large for a list, with sizes drawn from a `Census`.
"""

from ._census import Census
from ._estimate import Estimate, Knee, estimate, knee
from ._events import Run, simulate
from ._settings import Cluster, Failures, Prices, Settings, Speeds, Store
from ._work import Work, work_of

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
