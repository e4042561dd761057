"""A folder of packed checkpoints of one training run."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from .. import _native
from .._checkpoint import pack, unpack, verify
from .._errors import ZstnError
from .._log import LOGGER
from .._options import check_effort, count, flag, size
from .._reader import open as open_model
from .._types import Effort
from . import _files, _manifest
from ._manifest import PackedCheckpoint, StoredFile

#: The library's limit of bases in a chain.
_MAX_BASES = 4

#: Files below this length are copied.
_SMALLEST_BYTES = 4096

#: Files with other names than models are packed from this length on.
_OTHER_BYTES = 1 << 20

#: A delta is only used if its length is below this share of the whole file's expected
#: packed length.
_WORTHWHILE = 0.97

#: A file and the bases that it depends on, the nearest first.
_Chain: TypeAlias = list[tuple[PackedCheckpoint, StoredFile]]

#: The names, dtypes and shapes of a file's tensors.
_Layout: TypeAlias = frozenset[tuple[str, str, tuple[int, ...]]]


class PackedCheckpoints:
    """Packed checkpoints of one training run, each in a folder of its own inside `folder`.

    Files of models and optimisers are packed, as deltas against the checkpoint before
    where that is smaller; other files are copied. A file that has no such delta, but the
    same tensors as another file of its checkpoint, such as averaged weights (EMA), is
    packed as a delta against that file. A checkpoint gets its name once every packed file
    has been decoded and compared with its original.

    Args:
        folder: the folder, which is created by the first `pack`.
        max_chain: the largest number of bases that a delta depends on, 0 to 4. After
            this many deltas, a file is packed whole. With 0, there are no deltas.
        effort: ``"fast"``, ``"balanced"`` or ``"max"``, as in `zstn.pack`.
        extended: whether frames that only zstn reads are used, as in `zstn.pack`.
        threads: number of threads, or 0 to share one per core with the whole process.
        memory: approximate limit in bytes, or a text such as ``"512M"``.

    Methods raise `OSError` if a file cannot be read or written, and `ZstnError` with one
    of these codes: ``"malformed"`` for a damaged store, ``"changed"`` or ``"differs"`` if
    a checkpoint changes while it is packed, ``"unsupported"`` if it contains a link.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_chain: int = _MAX_BASES,
        effort: Effort = "balanced",
        extended: bool = False,
        threads: int = 0,
        memory: int | str | None = None,
    ) -> None:
        self.folder = Path(folder).absolute()
        self._max_chain = count("max_chain", max_chain, 0, _MAX_BASES) or 0
        self._effort: Effort = check_effort(effort)  # type: ignore[assignment]
        self._extended = flag("extended", extended)
        self._threads = count("threads", threads, 0, 1024) or 0
        self._memory = size("memory", memory)
        self._check: _files.Check = lambda: None

    def names(self) -> list[str]:
        """Returns the names of the packed checkpoints, in the order of packing."""
        return [checkpoint.name for checkpoint in self._all()]

    def get(self, name: str) -> PackedCheckpoint:
        """Returns the description of a packed checkpoint.

        Raises:
            FileNotFoundError: if there is none of this name.
        """
        return _manifest.read(self.folder / name)

    def pack(self, checkpoint: str | os.PathLike[str]) -> PackedCheckpoint:
        """Packs a checkpoint, which is a folder or a file, and verifies the result. The
        original is not removed.

        The packed checkpoint has the name of the original. If another one of this name
        exists with other content, the name gets a number: ``checkpoint-100~2``. If one
        has the same content, it is returned.
        """
        source = Path(checkpoint).absolute()
        originals = _files.listed(source)
        for path in (source.name, *originals):
            _manifest.check_path(path, source)
        states = {path: _state(file) for path, file in originals.items()}
        digests = {path: _files.sha256(file, self._check) for path, file in originals.items()}
        existing = self._all()
        same = self._find(existing, source.name, digests)
        if same is not None:
            return same
        self.folder.mkdir(parents=True, exist_ok=True)
        target = self._unused(source.name)
        part = _files.temporary(target)
        part.mkdir()
        try:
            previous = existing[-1] if existing else None
            # Bases in this checkpoint are still in the folder `part`.
            unfinished = PackedCheckpoint(part.name, source.name, 0, source.is_file(), ())
            stored: list[StoredFile] = []
            layouts: dict[_Layout, StoredFile] = {}
            for path, original in originals.items():
                self._check()
                file = StoredFile(path, states[path][0], digests[path], path, states[path][0])
                base = previous.counterpart(path, source.is_file()) if previous else None
                chain = self._chain(previous, base) if previous and base else []
                layout = _layout(original) if self._is_packable(file) else None
                twin = layouts.get(layout) if layout else None
                twin_chain = self._chain(unfinished, twin) if twin else []
                file = self._store(original, file, chain, twin_chain, part)
                if twin and file.base == part.name:
                    file = replace(file, base=target.name, base_path=twin.path)
                stored.append(file)
                if layout:
                    layouts.setdefault(layout, file)
            if states != {path: _state(file) for path, file in _files.listed(source).items()}:
                raise ZstnError(f"{source} changed while it was packed: pack it again", "changed")
            number = previous.number + 1 if previous else 0
            result = PackedCheckpoint(
                target.name, source.name, number, source.is_file(), tuple(stored)
            )
            result.write(part)
            for folder in {part, *(path.parent for path in _files.listed(part).values())}:
                _files.sync_folder(folder)
            part.rename(target)
            _files.sync_folder(self.folder)
        except BaseException:
            _files.remove(part)
            raise
        LOGGER.info(
            "packed the checkpoint %s: %d bytes into %d", source, result.original_bytes, result.packed_bytes
        )
        return result

    def restore(self, name: str, dst: str | os.PathLike[str] | None = None) -> Path:
        """Restores a checkpoint, byte for byte, and returns its path.

        Args:
            name: the name of a packed checkpoint.
            dst: the file or folder to create; by default, it has the name of the
                original and is in the folder that contains the store.

        Raises:
            FileExistsError: if `dst` exists and has other content than the checkpoint.
            FileNotFoundError: if there is no packed checkpoint of this name, or if one
                that contains a base is missing.
        """
        checkpoint = self.get(name)
        target = self.folder.parent / checkpoint.original if dst is None else Path(dst).absolute()
        if os.path.lexists(target):
            if not self.is_original(name, target):
                raise FileExistsError(
                    f"{target} exists and differs from the packed checkpoint {name}: "
                    "remove it, or restore to another path"
                )
            return target
        part = _files.temporary(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            for file in checkpoint.files:
                self._check()
                path = part if checkpoint.is_file else part / file.path
                path.parent.mkdir(parents=True, exist_ok=True)
                self._restore(checkpoint, file, path)
            if not checkpoint.is_file:
                part.mkdir(exist_ok=True)
            part.rename(target)
        except BaseException:
            _files.remove(part)
            raise
        return target

    def needed(self, name: str) -> dict[Path, int]:
        """Returns the files that restoring a packed checkpoint reads, with their lengths in
        bytes: its own files, and the bases of its deltas in this checkpoint and others."""
        checkpoint = self.get(name)
        chains = (self._chain(checkpoint, file) for file in checkpoint.files)
        return {
            self._path(owner, entry): entry.stored_bytes
            for chain in chains
            for owner, entry in chain
        }

    def is_original(self, name: str, path: str | os.PathLike[str]) -> bool:
        """Returns whether a file or folder has exactly the content of a packed
        checkpoint, by its digests."""
        checkpoint = self.get(name)
        found = _files.listed(Path(path))
        if checkpoint.is_file and len(found) == 1:
            found = {file.path: next(iter(found.values())) for file in checkpoint.files}
        files = {file.path: file for file in checkpoint.files}
        return found.keys() == files.keys() and all(
            original.stat().st_size == files[path].bytes
            and _files.sha256(original, self._check) == files[path].sha256
            for path, original in found.items()
        )

    def remove_original(self, name: str, path: str | os.PathLike[str]) -> bool:
        """Removes the original of a packed checkpoint, if its content is still that of
        the packed one, and if all packed files that restoring it needs are present.
        Returns whether it was removed."""
        needed = self.needed(name).items()
        if any(stored.stat().st_size != length for stored, length in needed):
            return False
        if not self.is_original(name, path):
            return False
        _files.remove(Path(path))
        return True

    def prune(self, keep: Iterable[str]) -> list[str]:
        """Removes all packed checkpoints except those to keep and the bases that these
        need. Returns the names of the removed ones."""
        existing = {checkpoint.name: checkpoint for checkpoint in self._all()}
        needed: set[str] = set()
        pending = [name for name in keep if name in existing]
        while pending:
            name = pending.pop()
            if name not in needed and name in existing:
                needed.add(name)
                pending += existing[name].bases
        # Deltas go before their bases, so that an interruption leaves no delta without one.
        removed = [name for name in reversed(existing) if name not in needed]
        for name in removed:
            hidden = self.folder / f".{name}.part"
            _files.remove(hidden)
            (self.folder / name).rename(hidden)
            _files.remove(hidden)
        return removed

    def _all(self) -> list[PackedCheckpoint]:
        """Returns all packed checkpoints, in the order of packing."""
        if not self.folder.is_dir():
            return []
        found = []
        for path in self.folder.iterdir():
            # Another thread may remove a checkpoint meanwhile; other folders have no
            # description.
            if not path.name.startswith("."):
                with suppress(FileNotFoundError, NotADirectoryError):
                    found.append(_manifest.read(path))
        return sorted(found, key=lambda checkpoint: (checkpoint.number, checkpoint.name))

    @staticmethod
    def _find(
        existing: list[PackedCheckpoint], original: str, digests: dict[str, str]
    ) -> PackedCheckpoint | None:
        for checkpoint in existing:
            found = {file.path: file.sha256 for file in checkpoint.files}
            if checkpoint.original == original and found == digests:
                return checkpoint
        return None

    def _unused(self, name: str) -> Path:
        target, copies = self.folder / name, 1
        while os.path.lexists(target):
            copies += 1
            target = self.folder / f"{name}~{copies}"
        return target

    def _path(self, checkpoint: PackedCheckpoint, file: StoredFile) -> Path:
        return self.folder / checkpoint.name / file.stored

    def _chain(self, checkpoint: PackedCheckpoint, file: StoredFile) -> _Chain:
        """Returns a file and the bases that it depends on, the nearest first."""
        chain = [(checkpoint, file)]
        while file.base is not None:
            is_file = checkpoint.is_file
            checkpoint = self.get(file.base)
            found = checkpoint.base_of(file, is_file)
            if found is None or len(chain) > _MAX_BASES:
                raise ZstnError(
                    f"{self.folder / checkpoint.name}: it has no base for {file.path} of {chain[0][0].name}",
                    "malformed",
                )
            file = found
            chain.append((checkpoint, file))
        return chain

    def _store(
        self, original: Path, file: StoredFile, chain: _Chain, twin: _Chain, part: Path
    ) -> StoredFile:
        """Packs or copies a file of a checkpoint to the folder `part`. `chain` begins with
        the file in the checkpoint before, `twin` with another file of this checkpoint that
        has the same tensors."""
        if self._is_packable(file):
            packed: StoredFile | None = None
            lone = chain[0][1].lone if chain else 0
            if 0 < lone <= self._max_chain:
                # A delta from the checkpoint before was not worthwhile recently.
                lone += 1
            else:
                lone = int(self._takes_delta(chain))
                packed = self._pack_delta(original, file, chain, 0, part)
            packed = packed or self._pack_delta(original, file, twin, lone, part)
            packed = packed or self._pack_whole(original, file, lone, part)
            if packed is not None:
                return packed
        target = part / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        _files.copy(original, target)
        if _files.sha256(target, self._check) != file.sha256:
            raise ZstnError(f"{original} changed while it was copied: pack it again", "changed")
        return file

    @staticmethod
    def _is_packable(file: StoredFile) -> bool:
        name = file.path.lower()
        if file.bytes < _SMALLEST_BYTES or name.endswith((".json", ".zstn", ".z4dm")):
            return False
        return _native.is_model_name(file.path) or file.bytes >= _OTHER_BYTES

    def _takes_delta(self, chain: _Chain) -> bool:
        """Returns whether a delta may be added to a chain."""
        is_packed = bool(chain) and chain[0][1].stored != chain[0][1].path
        return is_packed and len(chain) <= self._max_chain

    def _pack_delta(
        self, original: Path, file: StoredFile, chain: _Chain, lone: int, part: Path
    ) -> StoredFile | None:
        """Packs a file as a delta. Returns `None` if the chain has no base or would be too
        long, or if a delta would not save enough."""
        if not self._takes_delta(chain):
            return None
        bases = [self._path(*entry) for entry in chain]
        whole = chain[-1][1]
        expected_bytes = file.bytes * whole.stored_bytes / max(whole.bytes, 1)
        stored = f"{file.path}.z4dm"
        try:
            length = self._pack(original, part / stored, bases)
        except ZstnError as error:
            if error.code in ("cancelled", "changed"):
                raise
            LOGGER.debug("%s cannot be packed as a delta: %s", original, error)
            return None
        if length >= expected_bytes * _WORTHWHILE:
            (part / stored).unlink()
            return None
        base = chain[0][0].name
        return StoredFile(file.path, file.bytes, file.sha256, stored, length, base, lone)

    def _pack_whole(
        self, original: Path, file: StoredFile, lone: int, part: Path
    ) -> StoredFile | None:
        """Packs a file without a base. Returns `None` if it does not become smaller."""
        stored = f"{file.path}.zstn"
        length = self._pack(original, part / stored, None)
        if length >= file.bytes:
            (part / stored).unlink()
            return None
        return StoredFile(file.path, file.bytes, file.sha256, stored, length, None, lone)

    def _pack(self, original: Path, target: Path, bases: list[Path] | None) -> int:
        """Packs a file, compares the packed file with it, and returns the packed length.
        """
        target.parent.mkdir(parents=True, exist_ok=True)
        packed = pack(
            original,
            target,
            base=bases,
            effort=self._effort,
            extended=self._extended,
            threads=self._threads,
            memory=self._memory,
        )
        verified = verify(
            target, original=original, base=bases, threads=self._threads, memory=self._memory
        )
        if not verified.identical:
            raise ZstnError(
                f"{target} could not be compared with {original} byte for byte", "differs"
            )
        return packed.packed_bytes

    def _restore(self, checkpoint: PackedCheckpoint, file: StoredFile, target: Path) -> None:
        chain = self._chain(checkpoint, file)
        stored, *bases = (self._path(*entry) for entry in chain)
        if file.stored == file.path:
            _files.copy(stored, target)
        else:
            unpack(stored, target, base=bases or None, threads=self._threads, memory=self._memory)
        if _files.sha256(target, self._check) != file.sha256:
            raise ZstnError(
                f"{stored} restores other bytes than those that were packed: it was damaged or "
                "replaced",
                "differs",
            )


def restore_checkpoint(
    packed: str | os.PathLike[str], dst: str | os.PathLike[str] | None = None
) -> str:
    """Restores a packed checkpoint, byte for byte, and returns its path as a string, for
    arguments such as `resume_from_checkpoint`.

    Args:
        packed: the folder of the packed checkpoint, such as
            ``"out/packed/checkpoint-100"``.
        dst: the file or folder to create; by default, ``"out/checkpoint-100"``. If it has
            the checkpoint's content already, nothing is written.

    See `PackedCheckpoints.restore` for the errors.
    """
    path = Path(packed).absolute()
    return str(PackedCheckpoints(path.parent).restore(path.name, dst))


def _layout(path: Path) -> _Layout | None:
    """Returns the layout of a model, or `None` for a file that has no tensors."""
    try:
        with open_model(path) as model:
            tensors = [(name, model[name]) for name in model.keys()]
    except (OSError, ZstnError):
        return None
    return frozenset((name, tensor.dtype, tuple(tensor.shape)) for name, tensor in tensors) or None


def _state(path: Path) -> tuple[int, int]:
    """Returns the length of a file in bytes, and the time of its last change."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns

