"""Tasks, which are rows of a plan for a process on any machine, and their outcomes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: The outcome of a task:
#:
#: - ``packed``: the file was packed, compared with the original and recorded in
#:   ``done/``;
#: - ``known``: another process had packed it before; the original was not read;
#: - ``refused``: packing it would fail again; recorded in ``failed/``;
#: - ``retry``: it failed for a transient reason; recorded in ``failed/``;
#: - ``lost``: its process or machine is gone. Only executors report this, and it is not
#:   recorded;
#: - ``given_back``: its process was asked to end before it was done. Not recorded.
State = Literal["packed", "known", "refused", "retry", "lost", "given_back"]


@dataclass(frozen=True)
class Limits:
    """The resources that a task needs, which executors reserve."""

    #: Memory in bytes for the process that works on the task. `packer_bytes` is the
    #: packer's part of it.
    memory_bytes: int
    #: Disk space in bytes in the folder for temporary files (``TMPDIR``).
    scratch_bytes: int
    #: Number of threads that pack, and of processors that are reserved for them.
    threads: int = 1

    #: Memory in bytes of the interpreter and the program itself.
    PROCESS_BYTES = 96 << 20

    @property
    def packer_bytes(self) -> int:
        """The memory limit of the packer in bytes."""
        return self.memory_bytes - self.PROCESS_BYTES


@dataclass(frozen=True)
class Task:
    """One row of a plan, with everything that a process needs to work on it, in a few
    hundred bytes. The contents of files are transferred directly between source,
    process and store, never through an executor."""

    #: The row of the plan, with its key.
    row: dict[str, Any]
    #: Location of the originals: a folder or an address that `zstn_hub.job` accepts.
    source: str
    #: Location of the results: a folder, local or in an object store.
    store: str
    #: Effort and extension frames, as in the plan.
    effort: str
    extended: bool
    limits: Limits
    #: Whether a file that was refused before is tried again.
    retry_refused: bool = False
    #: Number of the attempt, from 1.
    attempt: int = 1
    #: OWNER/NAME/PATH of the bases that the plan contains, by key, for messages.
    places: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        key: str = self.row["key"]
        return key

    def to_dict(self) -> dict[str, Any]:
        """Returns the task as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Task:
        plain: dict[str, Any] = {**values, "limits": Limits(**values["limits"])}
        return cls(**plain)


@dataclass(frozen=True)
class Outcome:
    """The result of one attempt at a task."""

    key: str
    state: State
    #: The reason as a sentence, unless the state is ``packed`` or ``known``.
    reason: str = ""
    #: Number of bytes of the original that were read; 0 if the state is ``known``.
    read_bytes: int = 0
    #: Length of the packed file; 0 if there is none.
    packed_bytes: int = 0
    #: Peak memory of the process so far in bytes; 0 if unknown.
    peak_bytes: int = 0
    seconds: float = 0.0
    #: The machine, for display.
    node: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """Returns the outcome as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        return cls(**values)
