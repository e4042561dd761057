"""Packing whole hubs: a plan, runs on one or many machines, and a report. The command
``python -m zstn.hub`` uses these functions."""

from ._check import Checked, Damage, check, repair
from ._family import with_bases
from ._gc import Garbage, find_garbage, remove_garbage
from ._limits import limits
from ._plan import Planner
from ._report import Report, report
from ._restore import restore
from ._row import Row, load_plan, read_plan, write_plan
from ._run import Run, Settings, Summary
from ._task import Limits, Outcome, State, Task
from ._work import work
from .executors import Executor, Node

__all__ = [
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
