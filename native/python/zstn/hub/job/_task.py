"""A task: one row of a plan for a process on any machine, and its outcome."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

#: What became of a task:
#:
#: - ``packed``: packed, compared with the original and noted in ``done/``;
#: - ``known``: somebody had done it before; nothing of the original was read;
#: - ``refused``: it would fail again; noted in ``failed/``;
#: - ``retry``: it failed for a reason that may pass; noted in ``failed/``;
#: - ``lost``: the process or the machine that worked on it is gone. Only
#:   executors say so; nothing is noted;
#: - ``given_back``: its process was asked to end first. Nothing is noted.
State = Literal["packed", "known", "refused", "retry", "lost", "given_back"]


@dataclass(frozen=True)
class Limits:
    """The resources that a task needs. An executor reserves them."""

    #: Memory in bytes of the process that works on it. The packer is held to the
    #: part of it that `packer_bytes` says.
    memory_bytes: int
    #: Room in bytes in the folder for temporary files (``TMPDIR``).
    scratch_bytes: int
    #: Threads that code, and so processors.
    threads: int = 1

    #: What the interpreter and the program itself take.
    PROCESS_BYTES = 96 << 20

    @property
    def packer_bytes(self) -> int:
        """The limit that the packer gets."""
        return self.memory_bytes - self.PROCESS_BYTES


@dataclass(frozen=True)
class Task:
    """One row of a plan, and all that a process needs to work on it: a few hundred
    bytes. The bytes of files go from the source to the store, never through an
    executor."""

    #: The row of the plan, with its key.
    row: dict[str, Any]
    #: Where originals are: a folder or address that `zstn.hub.job` plans from.
    source: str
    #: Where results are: a folder, or one in an object store.
    store: str
    #: Effort and extension frames, as in the plan.
    effort: str
    extended: bool
    limits: Limits
    #: Whether a file is tried again that was refused before.
    retry_refused: bool = False
    #: 1 for the first attempt.
    attempt: int = 1

    @property
    def key(self) -> str:
        key: str = self.row["key"]
        return key

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Task:
        plain: dict[str, Any] = {**values, "limits": Limits(**values["limits"])}
        return cls(**plain)


@dataclass(frozen=True)
class Outcome:
    """The end of one attempt at a task."""

    key: str
    state: State
    #: The reason, as a sentence, unless it is packed or known.
    reason: str = ""
    #: Bytes of the original that were read; 0 for what was known.
    read_bytes: int = 0
    #: Length of the packed file; 0 if there is none.
    packed_bytes: int = 0
    #: The most memory in bytes that its process has had so far; 0 if unknown.
    peak_bytes: int = 0
    seconds: float = 0.0
    #: The machine, for people.
    node: str = field(default="")

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Outcome:
        return cls(**values)
