"""What runs tasks: processes of this machine, or a cluster."""

from ._executor import Executor, Node

__all__ = ["Executor", "Node"]
