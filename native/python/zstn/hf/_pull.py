"""``hf zstn pull``"""

from __future__ import annotations

from argparse import Namespace

from .. import hub as packed
from .._errors import ZstnError
from ..hub._download import hub as library
from ._folder import copy_folder
from ._repository import Hub, Place


def run(options: Namespace) -> None:
    place = Place.parse(options.repository, options.revision, options.repo_type)
    if place.path is not None:
        raise ZstnError(f"{options.repository} is a file; pull {place}, or open the file itself")
    which = {
        "revision": place.revision,
        "repo_type": place.repo_type,
        "token": Hub().token or False,
    }
    if options.unpack:
        folder = packed.snapshot_download(place.name, threads=options.threads, **which)
        if options.output:
            copy_folder(folder, options.output)
    elif options.output:
        library().snapshot_download(place.name, local_dir=options.output, **which)
    else:
        folder = library().snapshot_download(place.name, **which)
    print(options.output or folder)
