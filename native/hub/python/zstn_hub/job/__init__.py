"""Packing whole hubs: a plan, runs on one or many machines, and a report. The command
``python -m zstn_hub`` uses these functions."""

from ._plan import Planner, with_bases
from ._report import Report, report
from ._restore import restore
from ._row import Base, Row, load_plan, read_plan, write_plan
from ._run import Run, Settings, Summary, limits
from ._store import Checked, Damage, Garbage, check, find_garbage, remove_garbage, repair
from ._task import Limits, Outcome, State, Task
from ._work import work
from .executors import Executor, Node

__all__ = [
    "Base",
    "Checked",
    "Damage",
    "Executor",
    "Garbage",
    "Limits",
    "Node",
    "Outcome",
    "Planner",
    "Report",
    "Row",
    "Run",
    "Settings",
    "State",
    "Summary",
    "Task",
    "check",
    "find_garbage",
    "limits",
    "load_plan",
    "read_plan",
    "remove_garbage",
    "repair",
    "report",
    "restore",
    "with_bases",
    "work",
    "write_plan",
]
