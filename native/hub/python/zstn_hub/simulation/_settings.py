"""The machines, the store and the speeds that a simulation assumes."""

from __future__ import annotations

from dataclasses import dataclass, field

MB = 10**6
GB = 10**9


@dataclass(frozen=True)
class Cluster:
    """A cluster of identical machines. The defaults describe a c6in.2xlarge instance of
    AWS."""

    nodes: int = 64
    #: Processors per machine.
    cores: int = 8
    #: Processors per task.
    threads: int = 1
    #: Bytes per second that a machine can receive, and also send.
    network_bytes_per_second: float = 12.5e9 / 8
    #: Tasks that the driver can start per second.
    dispatches_per_second: float = 500.0

    @property
    def slots(self) -> int:
        """Number of tasks that a machine runs at the same time."""
        return max(1, self.cores // self.threads)


@dataclass(frozen=True)
class Store:
    """An object store. The limits apply to the whole job. S3 allows 5500 reads and 3500
    writes per second and prefix. Names are digests, so the store can split them into as
    many prefixes as needed; the defaults are for 16."""

    read_bytes_per_second: float = 100 * GB
    write_bytes_per_second: float = 100 * GB
    reads_per_second: float = 16 * 5500.0
    writes_per_second: float = 16 * 3500.0
    #: Seconds until the first byte of a response.
    latency: float = 0.05
    #: Bytes per second of a connection.
    stream_bytes_per_second: float = 90 * MB
    #: Connections that a task uses at the same time, for reading and for writing.
    streams: int = 4
    #: Bytes per request.
    read_part_bytes: int = 8 << 20
    write_part_bytes: int = 16 << 20
    #: Requests per task that do not depend on its length: entries of results, and the
    #: checks before packing.
    fixed_reads: int = 3
    fixed_writes: int = 2


@dataclass(frozen=True)
class Speeds:
    """Speeds of one processor in bytes of originals per second, and the ratios
    achieved."""

    pack: float = 395 * MB
    #: Restoring the packed file and computing its digest, to compare it.
    verify: float = 746 * MB
    #: Packing as a delta from a base.
    pack_with_base: float = 150 * MB
    #: Packed length divided by original length.
    ratio: float = 0.66
    ratio_with_base: float = 0.20
    #: Processor seconds per task, independent of its length.
    seconds_per_task: float = 0.15


@dataclass(frozen=True)
class Failures:
    """How often machines and attempts fail, and how failures are handled."""

    #: Mean time between failures of a machine in hours; 0 for no failures. A spot
    #: machine may be taken away once in a day or two.
    node_hours: float = 720.0
    #: Seconds until a failed machine has been replaced.
    replacement_seconds: float = 300.0
    #: Share of attempts that fail at the end and are repeated.
    task: float = 0.001
    #: Maximum number of attempts at a task.
    attempts: int = 4


@dataclass(frozen=True)
class Prices:
    """Prices in US dollars. The defaults are list prices of AWS, us-east-1, on demand, in
    2025."""

    node_hour: float = 0.4536
    thousand_reads: float = 0.0004
    thousand_writes: float = 0.005
    #: Per gigabyte that leaves the store for machines elsewhere.
    gb_out: float = 0.0
    #: Per gigabyte and month of storage.
    gb_month: float = 0.021


@dataclass(frozen=True)
class Settings:
    """All settings of a simulation."""

    cluster: Cluster = field(default_factory=Cluster)
    store: Store = field(default_factory=Store)
    speeds: Speeds = field(default_factory=Speeds)
    failures: Failures = field(default_factory=Failures)
    prices: Prices = field(default_factory=Prices)
