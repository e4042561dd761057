"""Ray clusters of several nodes on this machine."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

# Read when Ray is imported. Nobody else reaches a cluster of the tests.
os.environ["RAY_AUTH_MODE"] = "disabled"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
# Workers are idle between tests; starting them takes longer than keeping them.
os.environ["RAY_DISABLE_IMPORT_WARNING"] = "1"
# A node that was killed is noticed within seconds.
os.environ["RAY_health_check_period_ms"] = "1000"
os.environ["RAY_health_check_timeout_ms"] = "2000"
os.environ["RAY_health_check_failure_threshold"] = "3"
# The machine of the tests may be full of other programs; their memory is not ours.
os.environ["RAY_memory_monitor_refresh_ms"] = "0"

from ray.cluster_utils import Cluster  # noqa: E402

#: The least that Ray takes for its object store, which no test needs.
_OBJECTS_BYTES = 80 << 20


class Nodes:
    """A cluster whose head runs no tasks."""

    def __init__(self) -> None:
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": _OBJECTS_BYTES}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes: list[Any] = []

    @property
    def address(self) -> str:
        return self._cluster.address

    def add(self, cpus: int, memory_bytes: int = 1 << 30, **resources: float) -> Any:
        """Adds a node, and waits until it is there."""
        node = self._cluster.add_node(
            num_cpus=cpus,
            memory=memory_bytes,
            object_store_memory=_OBJECTS_BYTES,
            resources=resources or None,
        )
        self._nodes.append(node)
        return node

    def kill(self, node: Any) -> None:
        """Ends a node as a power failure does."""
        self._nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def clear(self) -> None:
        for node in list(self._nodes):
            self._nodes.remove(node)
            self._cluster.remove_node(node)

    def close(self) -> None:
        self._cluster.shutdown()


def kill_busy_worker() -> str:
    """Kills a process of Ray that works on a task, among the descendants of this
    process, and returns its title."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for pid in _descendants(os.getpid()):
            title = _title(pid)
            # Tasks are named after files. Others are idle, or agents of a node, which
            # ends with its agents.
            if title.startswith("ray::") and ".safetensors" in title:
                os.kill(pid, signal.SIGKILL)
                return title
        time.sleep(0.02)
    raise AssertionError("no worker is busy")


def _descendants(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of a program may contain spaces and brackets.
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
