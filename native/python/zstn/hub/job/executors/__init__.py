"""Executors, which run tasks in processes on this machine or in a cluster."""

from ._executor import Executor, Node

__all__ = ["Executor", "Node"]
