"""The machines, the store and the speeds that a simulation assumes."""

from __future__ import annotations

from dataclasses import dataclass, field

MB = 10**6
GB = 10**9


@dataclass(frozen=True)
class Cluster:
    """Equal machines. The defaults are those of a c6in.2xlarge of AWS."""

    nodes: int = 64
    #: Processors of a machine.
    cores: int = 8
    #: Processors of a task.
    threads: int = 1
    #: Bytes per second that a machine can receive, and send as well.
    network_bytes_per_second: float = 12.5e9 / 8
    #: Tasks that the driver can start in a second.
    dispatches_per_second: float = 500.0

    @property
    def slots(self) -> int:
        """Tasks that a machine works on at the same time."""
        return max(1, self.cores // self.threads)


@dataclass(frozen=True)
class Store:
    """An object store. The limits are for the whole job. Those of S3 are 5500 reads
    and 3500 writes a second for each prefix; names are digests, so a store can part
    them into as many prefixes as it takes: the defaults are for 16."""

    read_bytes_per_second: float = 100 * GB
    write_bytes_per_second: float = 100 * GB
    reads_per_second: float = 16 * 5500.0
    writes_per_second: float = 16 * 3500.0
    #: Seconds before the first byte of an answer.
    latency: float = 0.05
    #: Bytes per second of one connection.
    stream_bytes_per_second: float = 90 * MB
    #: Connections that a task reads and writes by at the same time.
    streams: int = 4
    #: Bytes of one request.
    read_part_bytes: int = 8 << 20
    write_part_bytes: int = 16 << 20
    #: Requests of a task that do not depend on its length: entries of results and
    #: the checks before.
    fixed_reads: int = 3
    fixed_writes: int = 2


@dataclass(frozen=True)
class Speeds:
    """What one processor does in a second, in bytes of originals, and what becomes
    of them."""

    pack: float = 395 * MB
    #: Restoring what was packed, with its digest, to compare it.
    verify: float = 746 * MB
    #: Packing the difference from a base.
    pack_with_base: float = 150 * MB
    #: Packed length by that of the original.
    ratio: float = 0.66
    ratio_with_base: float = 0.20
    #: Seconds of a processor for each task, whatever its length.
    seconds_per_task: float = 0.15


@dataclass(frozen=True)
class Failures:
    """How often something goes wrong."""

    #: Mean time between failures of one machine, in hours; 0 for never. A spot
    #: machine may be taken away once in a day or two.
    node_hours: float = 720.0
    #: Seconds until another machine takes its place.
    replacement_seconds: float = 300.0
    #: Part of the attempts that fail at the end, and are made again.
    task: float = 0.001
    #: Attempts at one task that may fail by themselves.
    attempts: int = 4


@dataclass(frozen=True)
class Prices:
    """US dollars: list prices of AWS, us-east-1, on demand, in 2025."""

    node_hour: float = 0.4536
    thousand_reads: float = 0.0004
    thousand_writes: float = 0.005
    #: Bytes that leave the store for machines elsewhere.
    gb_out: float = 0.0
    #: Storage of a gigabyte for a month.
    gb_month: float = 0.021


@dataclass(frozen=True)
class Settings:
    """All of them."""

    cluster: Cluster = field(default_factory=Cluster)
    store: Store = field(default_factory=Store)
    speeds: Speeds = field(default_factory=Speeds)
    failures: Failures = field(default_factory=Failures)
    prices: Prices = field(default_factory=Prices)
