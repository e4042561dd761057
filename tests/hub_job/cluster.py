"""Starts Ray clusters with several nodes on this machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

# Ray reads these variables when it is imported. A test cluster is not reachable from
# other machines, so it needs no authentication.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Keeping idle workers between tests is faster than starting new ones.
os.environ["RAY_DISABLE_IMPORT_WARNING"] = "1"
# These settings let Ray detect a killed node within seconds.
os.environ["RAY_health_check_period_ms"] = "1000"
os.environ["RAY_health_check_timeout_ms"] = "2000"
os.environ["RAY_health_check_failure_threshold"] = "3"
# The machine may run other programs, whose memory must not count towards Ray's limit.
os.environ["RAY_memory_monitor_refresh_ms"] = "0"
# Workers have the priority of other programs. At Ray's default, a busy machine would
# starve them.
os.environ["RAY_worker_niceness"] = "0"

from ray.cluster_utils import Cluster  # noqa: E402

#: Minimum size of Ray's object store, which no test uses.
_OBJECTS_BYTES = 80 << 20


class Nodes:
    """A cluster whose head node runs no tasks."""

    def __init__(self) -> None:
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _OBJECTS_BYTES}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: list[Any] = []

    @property
    def address(self) -> str:
        return self._cluster.address

    def add(self, cpus: int, memory_bytes: int = 1 << 30, **resources: float) -> Any:
        """Adds a node, and waits until it has joined."""
        node = self._cluster.add_node(
            num_cpus=cpus,
            memory=memory_bytes,
            object_store_memory=_OBJECTS_BYTES,
            resources=resources or None,
        )
        self._nodes.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Kills a node abruptly, like a power failure."""
        self._nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def clear(self) -> None:
        for node in list(self._nodes):
            self._nodes.remove(node)
            self._cluster.remove_node(node)

    def close(self) -> None:
        self._cluster.shutdown()


def kill_busy_worker() -> str:
    """Kills a process of Ray that runs a task, among the descendants of this process.
    Returns its title."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in _descendants(os.getpid()):
            title = _title(pid)
            # Processes that run a task are named after its file. The others are idle
            # workers or agents of a node, and a node ends with its agents.
            if title.startswith("ray::") and ".safetensors" in title:
                os.kill(pid, signal.SIGKILL)
                return title
        time.sleep(0.02)
    raise AssertionError("no worker is busy")


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of the program may contain spaces and brackets.
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        some = children.get(waiting.pop(), [])
        found += some
        waiting += some
    return found


def _title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0").decode(errors="replace")
    except OSError:
        return ""
