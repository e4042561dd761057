"""The command line. Options have the same names and meanings as in ``zstn``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from .._options import size_argument
from . import _cat, _ls, _pack, _pull, _push
from ._cat import Rows

#: Runs a command, which prints its result. Returns the exit status, or `None` for 0.
Run = Callable[[argparse.Namespace], int | None]


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="hf zstn",
        description="Packed checkpoints (.zstn) in repositories. REPO is OWNER/NAME, "
        "datasets/OWNER/NAME or spaces/OWNER/NAME, each optionally with @REVISION.",
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    pack = _verb(verbs, "pack", _pack.run, "Pack a local checkpoint, or that of a repository")
    pack.add_argument("source", metavar="REPO|PATH")
    pack.add_argument("-o", "--output", help="file or folder to make [default: next to PATH, or "
                      "a folder with the name of the repository]")  # fmt: skip
    _packing(pack)
    _revision(pack)
    pack.add_argument("-f", "--force", action="store_true", help="replace an existing file")

    push = _verb(verbs, "push", _push.run, "Pack a checkpoint while it is uploaded")
    push.add_argument("source", metavar="PATH", help="a file, or a folder with all its files")
    push.add_argument("repository", metavar="REPO", help="a repository that exists")
    _revision(push)
    push.add_argument("--create-pr", action="store_true", help="open a pull request")
    push.add_argument("--keep-original", action="store_true",
                      help="leave files in the repository that the packed ones restore "
                      "[default: remove them after a proof, in a commit of their own]")  # fmt: skip
    push.add_argument("-m", "--message", help="first line of the commit message")
    _packing(push)

    pull = _verb(verbs, "pull", _pull.run, "Download a repository, and print the folder")
    pull.add_argument("repository", metavar="REPO")
    _revision(pull)
    pull.add_argument("--unpack", action="store_true", help="restore the packed files")
    pull.add_argument("-o", "--output", help="folder to make [default: in the cache]")
    _threads(pull)

    listing = _verb(verbs, "ls", _ls.run, "List files of a repository, or tensors of a file")
    listing.add_argument("place", metavar="REPO[/FILE]")
    _revision(listing)
    listing.add_argument("--json", action="store_true", help="print JSON")

    cat = _verb(verbs, "cat", _cat.run, "Write the bytes of a tensor to standard output")
    cat.add_argument("place", metavar="REPO/FILE")
    cat.add_argument("tensor", metavar="TENSOR", help="name, as `hf zstn ls` prints it")
    cat.add_argument("--rows", metavar="A..B", type=Rows.parse,
                     help="only these rows: one like 5, or 100..200 or 100:200; either end may "
                     "be left out, and negative ones count from the end")  # fmt: skip
    cat.add_argument("-f", "--force", action="store_true", help="write to a terminal, too")
    _revision(cat)
    _threads(cat)
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    return parser.parse_args(arguments)


def _verb(verbs: Any, name: str, run: Run, help: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help, description=help + ".")
    parser.set_defaults(run=run, verb=name)
    parser.add_argument("-q", "--quiet", action="store_true", help="suppress messages")
    return parser


def _revision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--revision", help="branch, tag or commit [default: main]")
    parser.add_argument("--repo-type", choices=["model", "dataset", "space"],
                        help="[default: as REPO says, or model]")  # fmt: skip


def _packing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--effort", choices=["fast", "balanced", "max"], default="balanced",
                        help="how hard to look for a smaller form [default: balanced]")  # fmt: skip
    parser.add_argument("--extended", action="store_true",
                        help="write extension frames where they are smaller; z4ai cannot read a file with one")  # fmt: skip
    parser.add_argument("--memory", type=size_argument, metavar="SIZE",
                        help="memory to stay within, like 512M")  # fmt: skip
    _threads(parser)


def _threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-T", "--threads", type=int, default=0, metavar="N",
                        help="threads, 0 for one per core")  # fmt: skip
