"""Listings of files to pack, from a folder, an object store or a hub."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from zstn import _native

#: Revision of files in sources without revisions.
REVISION = "main"

#: Names that a hub allows for owners and repositories.
_NAME = re.compile(r"(?!.*\.\.)[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?")


@dataclass(frozen=True)
class Listed:
    """A file of a listing."""

    repo: str
    revision: str
    path: str
    size: int
    #: Changes whenever the content changes; `None` if it is unknown.
    version: str | None
    #: SHA-256 of the file, if the listing contains it.
    sha256: str | None
    #: Path or address of the file.
    location: str


def is_hub(source: str) -> bool:
    """Returns whether the source is the endpoint of a hub."""
    return source.startswith(("https://", "http://"))


def is_model(path: str) -> bool:
    """Returns whether a file with this path is packed, according to its extension: a
    safetensors file, or a model file of another format. An index of shards is not."""
    return _native.is_model_name(path)


def check_source(source: str) -> None:
    """Checks that a source exists, if it is a local folder.

    Raises:
        ValueError: if it does not exist.
    """
    if "://" not in source and not os.path.isdir(source):
        raise ValueError(f"{source} is not a folder; a source has files OWNER/NAME/PATH")


def listing(
    source: str, repositories: Sequence[str] = (), note: Callable[[str], None] = lambda _: None
) -> Iterator[Listed]:
    """Yields the model files of a source, by their extensions. The source is a folder,
    local or in an object store, with files ``OWNER/NAME/PATH``; or the named
    repositories of a hub, at their newest commit or at the revision after an ``@``.
    `note` receives a sentence about each entry of a local folder that is skipped.

    Raises:
        ValueError: if the source is none of these.
    """
    if is_hub(source):
        if not repositories:
            raise ValueError("name the repositories of the hub with --repo; none is packed unasked")
        return _hub(source, repositories)
    if "://" in source:
        return _chosen(_stored(source), repositories)
    check_source(source)
    return _chosen(_local(Path(source), note), repositories)


def _chosen(files: Iterable[Listed], repositories: Sequence[str]) -> Iterator[Listed]:
    wanted = set(repositories)
    return (file for file in files if not wanted or file.repo in wanted)


def mistake(source: str, repositories: Sequence[str] = ()) -> str:
    """Returns a sentence that explains why no files were found in a source."""
    if repositories:
        return f"{source} has no model files of {', '.join(repositories)}; check the names"
    if not is_hub(source) and "://" not in source:
        root = Path(source)
        inner = [path for path in (*root.glob("*"), *root.glob("*/*")) if is_model(path.name)]
        if inner:
            return (
                f"{source} has no files OWNER/NAME/PATH, but {inner[0].relative_to(root)}; name "
                "the folder that contains the owners"
            )
    return f"{source} has no model files (such as .safetensors and .gguf) OWNER/NAME/PATH"


def _local(folder: Path, note: Callable[[str], None]) -> Iterator[Listed]:
    inside = os.path.realpath(folder).rstrip(os.sep) + os.sep
    for owner, name in _repositories(folder):
        root = folder / owner / name
        for path, _, files in sorted(os.walk(root)):
            for file in sorted(files):
                if not is_model(file) or file.startswith("."):
                    continue
                location = Path(path) / file
                reason, status = None, None
                if not os.path.realpath(location).startswith(inside):
                    reason = "it is a link that leads out of the source"
                else:
                    try:
                        status = location.stat()
                        if not stat.S_ISREG(status.st_mode):
                            reason = "it is not a regular file"
                    except OSError as error:
                        reason = str(error)
                if reason is not None or status is None:
                    note(f"left out: {location.relative_to(folder).as_posix()}: {reason}")
                    continue
                inner = location.relative_to(root).as_posix()
                version = f"{status.st_size}-{status.st_mtime_ns}"
                yield Listed(
                    f"{owner}/{name}", REVISION, inner, status.st_size, version, None, str(location)
                )


def _repositories(folder: Path) -> Iterator[tuple[str, str]]:
    for owner in sorted(folder.iterdir()):
        if not owner.is_dir() or not _NAME.fullmatch(owner.name):
            continue
        for name in sorted(owner.iterdir()):
            if name.is_dir() and _NAME.fullmatch(name.name):
                yield owner.name, name.name


def _stored(url: str) -> Iterator[Listed]:
    folder = url.rstrip("/")
    for path, size, tag in _native.list_objects(folder + "/"):
        owner, _, rest = path.partition("/")
        name, _, inner = rest.partition("/")
        names = _NAME.fullmatch(owner) and _NAME.fullmatch(name)
        if names and is_model(inner):
            version = None if tag is None else f"{size}-{tag}"
            yield Listed(
                f"{owner}/{name}", REVISION, inner, size, version, None, f"{folder}/{path}"
            )


def _hub(endpoint: str, repositories: Sequence[str]) -> Iterator[Listed]:
    from huggingface_hub import HfApi
    from huggingface_hub.hf_api import RepoFile

    api = HfApi(endpoint=endpoint)
    for text in repositories:
        repo, _, revision = text.partition("@")
        commit = api.repo_info(repo, revision=revision or None).sha
        assert commit is not None
        for file in api.list_repo_tree(repo, revision=commit, recursive=True):
            if isinstance(file, RepoFile) and is_model(file.path):
                sha256 = None if file.lfs is None else file.lfs.sha256
                location = f"hf://{repo}@{commit}/{file.path}"
                yield Listed(
                    repo, commit, file.path, file.size, file.blob_id, sha256, location
                )
