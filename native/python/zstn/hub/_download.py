"""Snapshots of repositories, downloaded with huggingface_hub."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .._errors import ZstnError
from ._names import (
    other_formats,
    refuse_deltas,
    restored_names,
    restores_other_model,
    with_packed,
)
from ._tree import Request, Tree, select, view_name

#: Receives the names of all files and returns the names of files to skip.
LeaveOut = Callable[[list[str]], Iterable[str]]

#: Maximum number of downloads of a branch that moves meanwhile.
_ATTEMPTS = 4


def hub() -> Any:
    try:
        import huggingface_hub
    except ImportError as error:
        raise ImportError(
            "repositories of a hub need huggingface_hub: `pip install huggingface_hub`"
        ) from error
    return huggingface_hub


@dataclass(frozen=True, slots=True)
class _Listing:
    """The commit of a revision and the names of its files."""

    commit: str
    names: list[str]
    request: Request
    """The request, restricted to the cache if the names were found there."""
    others: Sequence[str] = ()
    """Names of files that were not requested."""


def _listing(request: Request) -> _Listing:
    """Lists the requested files on the hub. Without a connection, lists the files that
    have been downloaded before."""
    found = _find(request)
    names = select(found.names, request)
    others = sorted(set(found.names).difference(names))
    return replace(found, names=names, others=others)


def _find(request: Request) -> _Listing:
    if request.local_files_only:
        return _look_up(request)
    hub()
    from huggingface_hub import errors

    try:
        return _ask(request)
    except (errors.HFValidationError, errors.RevisionNotFoundError):
        raise
    except Exception as error:
        # Like huggingface_hub, this falls back to the cache while the hub does not
        # respond.
        try:
            return _look_up(request)
        except errors.LocalEntryNotFoundError:
            pass
        if isinstance(error, (errors.HfHubHTTPError, errors.LocalTokenNotFoundError)):
            raise
        raise errors.LocalEntryNotFoundError(
            f"{request.repo_id} has not been downloaded before, and its files cannot be listed on the hub: {error}"
        ) from error


def _ask(request: Request) -> _Listing:
    api = hub().HfApi(token=request.token)
    info = api.repo_info(request.repo_id, revision=request.revision, repo_type=request.repo_type)
    names = [sibling.rfilename for sibling in info.siblings or []]
    return _Listing(info.sha, names, request)


def _look_up(request: Request) -> _Listing:
    # This requests no files, only the commit.
    offline = replace(request, local_files_only=True)
    folder = _snapshot(offline, request.revision, allow_patterns=[])
    files = (path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in files]
    # The list may be incomplete. Keeping the request offline prevents a download that
    # gets a connection again from treating it as complete.
    return _Listing(folder.name, names, offline)


def download(request: Request) -> Tree:
    """Downloads the requested files, except files that packed ones restore."""
    for _ in range(_ATTEMPTS):
        listing = _listing(request)
        # This check comes first, so that no unusable delta is downloaded.
        refuse_deltas(request.repo_id, listing.names)
        tree = _download(listing, ())
        if tree is not None:
            return tree
    raise _changing(request)


def download_if_packed(request: Request, leave_out: LeaveOut | None = None) -> Tree | None:
    """Downloads like `download`, but skips weights in other formats in folders that
    contain safetensors weights, and packed files that restore other formats. Returns
    `None` without a download if no other file is packed. `leave_out` receives the names
    of all files first, and returns more files to skip."""
    for _ in range(_ATTEMPTS):
        listing = _listing(request)
        skipped = [name for name in listing.names if restores_other_model(name)]
        names = [name for name in listing.names if not restores_other_model(name)]
        if not restored_names(names):
            return None
        skipped += [*other_formats(names), *(leave_out(names) if leave_out else ())]
        tree = _download(replace(listing, names=names), skipped)
        if tree is not None:
            return tree
    raise _changing(request)


def _changing(request: Request) -> ZstnError:
    return ZstnError(
        f"{request.repo_id}: {request.revision or 'its main branch'} was another commit each time "
        "its files were downloaded; try again, or give a commit as `revision`",
        "changed",
    )


def _download(listing: _Listing, left_out: Iterable[str]) -> Tree | None:
    """Returns the downloaded files, or `None` if the revision has moved to another
    commit."""
    request = listing.request
    left_out = {*restored_names(listing.names), *left_out}
    allow_patterns = with_packed(request.allow_patterns)
    ignored = request.ignore_patterns or []
    ignored = [ignored] if isinstance(ignored, str) else ignored
    # The patterns may match packed files whose restored files were not requested.
    left_out.update(_matching(listing.others, allow_patterns, ignored))
    ignored = [*ignored, *(glob.escape(name) for name in sorted(left_out))]
    # The revision is requested by its name instead of the commit, so that the cache can
    # resolve the name when there is no connection.
    folder = _snapshot(
        request,
        request.revision,
        allow_patterns=allow_patterns,
        ignore_patterns=ignored,
    )
    if folder.name != listing.commit:
        return None
    kept = [name for name in listing.names if name not in left_out]
    shown_as = view_name(request.repo_id, listing.commit, request.repo_type)
    return Tree(folder, kept, shown_as, is_commit=True)


def _matching(names: Sequence[str], allow: list[str] | None, ignore: list[str]) -> Iterable[str]:
    from huggingface_hub.utils import filter_repo_objects

    found: Iterable[str] = filter_repo_objects(names, allow_patterns=allow, ignore_patterns=ignore)
    return found


def _snapshot(request: Request, revision: str | None, **patterns: Any) -> Path:
    return Path(
        hub().snapshot_download(
            request.repo_id,
            revision=revision,
            repo_type=request.repo_type,
            cache_dir=request.cache_dir,
            local_files_only=request.local_files_only,
            token=request.token,
            **patterns,
        )
    )
