"""The command ``hf zstn pull``."""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

from .. import hub as packed
from .._errors import ZstnError
from ..hub._download import hub as library
from ._files import check_pulled, copy_folder
from ._repository import Hub, Place


def run(options: Namespace) -> None:
    place = Place.parse(options.repository, options.revision, options.repo_type)
    if place.path is not None:
        raise ZstnError(f"{options.repository} is a file; pull {place}, or open the file itself")
    which: dict[str, Any] = {
        "revision": place.revision,
        "repo_type": place.repo_type,
        "token": Hub().token or False,
    }
    if options.unpack:
        which["progress"] = not options.quiet and sys.stderr.isatty()
        folder = packed.snapshot_download(place.name, threads=options.threads, **which)
        if options.output:
            copy_folder(folder, options.output)
    else:
        if options.output:
            check_pulled(options.output)
        which["local_dir"] = options.output
        folder = library().snapshot_download(place.name, **which)
    print(options.output or folder)
