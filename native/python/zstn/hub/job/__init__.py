"""Packing of whole hubs: a plan, a run on one or many machines, a report."""

from ._task import Limits, Outcome, State, Task
from .executors import Executor, Node

__all__ = ["Executor", "Limits", "Node", "Outcome", "State", "Task"]
