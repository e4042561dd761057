"""The resources that a row needs, estimated from the header data in its plan."""

from __future__ import annotations

from collections.abc import Sequence

from ._row import Row
from ._task import Limits, Task
from .executors import Node

#: Minimum and maximum memory of the packer. Larger tensors are packed in blocks.
_LEAST_BYTES = 64 << 20
_MOST_BYTES = 1 << 30


def limits(row: Row, threads: int = 1) -> Limits:
    """Returns the resources for a row: memory for its largest tensor, its intermediate
    data and its packed form; disk space for the downloaded file and the packed one. A
    delta also needs the packed base and the restored base, which is about as long as
    the file."""
    largest = row.size if row.largest_tensor is None else row.largest_tensor
    packer_bytes = min(max(3 * largest, _LEAST_BYTES), _MOST_BYTES)
    copies = 2 + 2 * min(len(row.bases), 2)
    return Limits(
        memory_bytes=packer_bytes + Limits.PROCESS_BYTES,
        scratch_bytes=copies * row.size,
        threads=threads,
    )


def unheld(task: Task, nodes: Sequence[Node]) -> str | None:
    """Returns the reason why no machine can work on a task; `None` if one can."""
    if any(node.holds(task) for node in nodes):
        return None
    needs, most = task.limits, max(nodes, key=lambda node: node.memory_bytes, default=None)
    if most is None:
        has = "there is none"
    else:
        has = f"the largest has {_mebibytes(most.memory_bytes)} of memory"
        if most.scratch_bytes is not None:
            has += f", {_mebibytes(most.scratch_bytes)} for temporary files"
        has += f" and {most.threads} processors"
    return (
        f"no machine is large enough: it needs {_mebibytes(needs.memory_bytes)} of memory, "
        f"{_mebibytes(needs.scratch_bytes)} for temporary files and {needs.threads} "
        f"processors, and {has}; run it on a larger one with --retry-failed"
    )


def _mebibytes(count: int) -> str:
    return f"{(count + (1 << 20) - 1) >> 20} MiB"
