"""The command ``hf zstn pack``."""

from __future__ import annotations

import os
import shutil
from argparse import Namespace
from pathlib import Path

from .._checkpoint import pack
from .._errors import ZstnError
from ..hub._download import hub as library
from ..hub._names import check_name, packed_name
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
        default = f"{os.path.abspath(source)}-zstn"
    else:
        default = packed_name(source)
        if default == source:
            raise ZstnError(f"{source} is not a .safetensors file; name the output with -o")
    output = options.output or default
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
        output = options.output or packed_name(os.path.basename(place.path))
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
        raise ZstnError(f"{place} has no .safetensors files to pack")
    for entry in entries:
        check_name(entry.name)
    output = options.output or place.name.rpartition("/")[2]
    before = after = 0
    with new_folder(output) as folder:
        for entry in entries:
            target = folder / entry.path
            target.parent.mkdir(parents=True, exist_ok=True)
            if entry.step is Step.PACK:
                with bar(entry.name, options.quiet) as progress:
                    report = pack(
                        place.address(entry.name, info.sha), target, effort=options.effort,
                        extended=options.extended,
                        threads=options.threads, memory=options.memory, progress=progress,
                        token=hub.token,
                    )  # fmt: skip
                before, after = before + report.original_bytes, after + report.packed_bytes
                continue
            local = library().hf_hub_download(
                place.name, entry.name, repo_type=place.repo_type, revision=info.sha,
                token=hub.token or False,
            )  # fmt: skip
            if entry.step is Step.INDEX:
                target.write_bytes(packed_index(entry.name, Path(local).read_bytes(), names))
            else:
                shutil.copy(local, target)
    _say_sizes(output, before, after, options.quiet)
    print(output)


def _say_sizes(name: str, original: int, packed: int, quiet: bool) -> None:
    text = f"{name}: {size(original)} in {size(packed)} ({ratio(original, packed)})"
    say(text, quiet)
