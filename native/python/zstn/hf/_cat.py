"""The command ``hf zstn cat``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from .._errors import ZstnError
from .._reader import open
from .._slices import plan
from ._repository import Hub, Place


def run(options: Namespace) -> None:
    place = Place.parse(options.place, options.revision, options.repo_type)
    if place.path is None:
        raise ZstnError(f"{options.place} names no file; `hf zstn ls {place}` lists them")
    if sys.stdout.isatty() and not options.force:
        raise ZstnError("the bytes of a tensor are not for a terminal; write them to a file or "
                        "a pipe, or give --force")  # fmt: skip
    with open(place.address(place.path), token=Hub().token, threads=options.threads) as reader:
        info = reader[options.tensor]
        memory: Any
        if options.rows is None:
            memory = reader.read(info.name)
        else:
            if not info.shape:
                raise ZstnError(f"{info.name} is a single value and has no rows")
            planned = plan(options.rows.within(info.shape[0]), info.shape)
            assert planned is not None
            memory = reader._native.read_slice(info.name, planned[0])
    sys.stdout.buffer.write(memory)
    sys.stdout.buffer.flush()
