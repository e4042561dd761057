"""The command ``hf zstn pack``."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from pathlib import Path

from .. import _native
from .._checkpoint import pack
from .._errors import ZstnError
from ..hub._download import hub as library
from ..hub._names import check_name, is_other_model, packed_name
from ._files import new_folder
from ._output import bar, ratio, say, size
from ._plan import Step, packed_index, plan
from ._repository import Hub, Place


def run(options: Namespace) -> None:
    if os.path.exists(options.source):
        _pack_local(options)
    elif options.source.startswith((".", "/", "~")):
        raise FileNotFoundError(f"{options.source}: no such file or folder")
    else:
        _pack_repository(options)


def _pack_local(options: Namespace) -> None:
    source = os.path.normpath(options.source)
    if os.path.isdir(source):
        default: str | None = f"{os.path.abspath(source)}-zstn"
    else:
        default = _packed_file(source)
    output = options.output or default
    if output is None:
        raise ZstnError(f"{source} is not named like a model file; name the output with -o")
    with bar(os.path.basename(source), options.quiet) as progress:
        report = pack(
            source, output, effort=options.effort,
            extended=options.extended, threads=options.threads,
            memory=options.memory, overwrite=options.force, progress=progress,
        )  # fmt: skip
    _say_sizes(output, report.original_bytes, report.packed_bytes, options.quiet)
    print(output)


def _pack_repository(options: Namespace) -> None:
    place, hub = Place.parse(options.source, options.revision, options.repo_type), Hub()
    if place.path is not None:
        output = options.output or _packed_file(os.path.basename(place.path))
        if output is None:
            raise ZstnError(f"{place.path} is not named like a model file; name the output with -o")
        address = place.address(place.path)
        with bar(place.path, options.quiet) as progress:
            report = pack(
                address, output, effort=options.effort,
                extended=options.extended, threads=options.threads,
                memory=options.memory, overwrite=options.force, progress=progress,
                token=hub.token,
            )  # fmt: skip
        _say_sizes(output, report.original_bytes, report.packed_bytes, options.quiet)
        print(output)
        return
    info = hub.info(place)
    names = [one.rfilename for one in info.siblings or []]
    entries = plan(names)
    if not any(entry.step is Step.PACK for entry in entries):
        raise ZstnError(f"{place} has no model files to pack")
    for entry in entries:
        check_name(entry.name)
    output = options.output or place.name.rpartition("/")[2]
    before = after = 0
    with new_folder(output) as folder:
        for entry in entries:
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            is_other, local = is_other_model(entry.name), ""
            if is_other or entry.step is not Step.PACK:
                local = library().hf_hub_download(
                    place.name, entry.name, repo_type=place.repo_type, revision=info.sha,
                    token=hub.token or False,
                )  # fmt: skip
            if is_other and not _native.is_other_model(local):
                # The content has no format that the extension may mean.
                shutil.copy(local, folder / entry.name)
            elif entry.step is Step.PACK:
                source = local or place.address(entry.name, info.sha)
                with bar(entry.name, options.quiet) as progress:
                    report = pack(
                        source, target, effort=options.effort,
                        extended=options.extended,
                        threads=options.threads, memory=options.memory, progress=progress,
                        token=None if local else hub.token,
                    )  # fmt: skip
                before, after = before + report.original_bytes, after + report.packed_bytes
            elif entry.step is Step.INDEX:
                target.write_bytes(packed_index(entry.name, Path(local).read_bytes(), names))
            else:
                shutil.copy(local, target)
    _say_sizes(output, before, after, options.quiet)
    print(output)


def _packed_file(name: str) -> str | None:
    """Returns the name of the packed form of a model file; `None` for other names."""
    packed = packed_name(name)
    return packed if packed != name else None


def _say_sizes(name: str, original: int, packed: int, quiet: bool) -> None:
    text = f"{name}: {size(original)} in {size(packed)} ({ratio(original, packed)})"
    say(text, quiet)
