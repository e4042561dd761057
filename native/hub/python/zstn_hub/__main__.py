"""The command line of ``python -m zstn_hub``, which packs the checkpoints of a whole hub."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from zstn import ZstnError
from zstn._options import size_argument

from .job import _verbs
from .simulation import command as simulation


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0 for success; 1 after an error, or
    if files were refused, lost or damaged; 2 for wrong arguments, or if the plan or
    source of a run is missing; 3 if another run could do more."""
    options = _parse(arguments)
    try:
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except KeyboardInterrupt:
        return 130
    except _verbs.ConfigurationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except (OSError, ValueError, ZstnError) as error:
        print(f"error: {error}", file=sys.stderr)
        may_pass = getattr(error, "retryable", isinstance(error, OSError))
        return 3 if may_pass and options.verb == "run" else 1


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m zstn_hub",
        description="Packs the checkpoints of a whole hub, on one or many machines. A run can be "
        "stopped or killed at any time; the same command continues it.",
    )
    verbs = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    plan = _verb(verbs, "plan", _verbs.plan, "List the files to pack")
    plan.add_argument("source", metavar="SOURCE", help="folder, or one in an object store, with "
                      "OWNER/NAME/FILE; or the address of a hub")  # fmt: skip
    plan.add_argument("-o", "--output", required=True, metavar="PLAN.jsonl", help="plan to write")
    plan.add_argument("--repo", action="append", default=[], metavar="OWNER/NAME[@REVISION]",
                      help="repository to list; needed for a hub. May be repeated")  # fmt: skip
    plan.add_argument("--known", action="append", default=[], metavar="PLAN.jsonl",
                      help="earlier plan, whose files are not read again and keep their bases. "
                      "May be repeated")  # fmt: skip
    plan.add_argument("--base", choices=["auto"], help="store files as deltas from others "
                      "where that saves a tenth or more")  # fmt: skip
    plan.add_argument("--to", metavar="STORE", help="where results will be; --base auto keeps "
                      "sketches there")  # fmt: skip
    _options(plan)

    run = _verb(verbs, "run", _verbs.run, "Pack the files of a plan")
    run.add_argument("plan", metavar="PLAN.jsonl")
    run.add_argument("--from", dest="source", required=True, metavar="SOURCE",
                     help="as for `plan`")  # fmt: skip
    run.add_argument("--to", required=True, metavar="STORE", help="folder for results, or one in an "
                     "object store (s3://…, az://…, gs://…)")  # fmt: skip
    run.add_argument("--executor", choices=["local", "ray"], default="local",
                     help="processes of this machine, or a cluster of Ray [default: local]")  # fmt: skip
    run.add_argument("--address", help="address of the cluster, for --executor ray")
    run.add_argument("--shard", type=_shard, default=(0, 1), metavar="i/n",
                     help="share of the plan: i of n, from 0, like 3/16")  # fmt: skip
    run.add_argument("--processes", type=_count, metavar="N",
                     help="files at a time, for --executor local [default: one per processor]")  # fmt: skip
    run.add_argument("--memory", type=size_argument, metavar="SIZE", help="memory for all of them, like 16G, "
                     "for --executor local [default: 80 %% of the machine's]")  # fmt: skip
    run.add_argument("-T", "--threads", type=_count, default=1, metavar="N",
                     help="threads for each file [default: 1]")  # fmt: skip
    run.add_argument("--attempts", type=_count, default=4, metavar="N",
                     help="attempts at a file that fails temporarily [default: 4]")  # fmt: skip
    run.add_argument("--check", action="store_true",
                     help="read files that are already packed, and pack damaged ones again; "
                     "as `check --repair` does")  # fmt: skip
    run.add_argument("--retry-failed", action="store_true",
                     help="try files again that were refused")  # fmt: skip
    run.add_argument("--grace", type=float, default=25.0, metavar="SECONDS",
                     help="seconds to hand back current files after SIGTERM or Ctrl-C; "
                          "a second signal ends at once [default: 25]")  # fmt: skip
    run.add_argument("--json", action="store_true", help="print an object for each outcome")
    _options(run)

    report = _verb(verbs, "report", _verbs.report, "Print what plans have become")
    _store_and_plans(report)
    report.add_argument("--json", action="store_true", help="print JSON")

    check = _verb(verbs, "check", _verbs.check, "Compare packed files with their entries")
    _store_and_plans(check)
    check.add_argument("--repair", action="store_true", help="remove the entries of lost and "
                       "damaged files, so that the next run packs them again")  # fmt: skip
    check.add_argument("--json", action="store_true", help="print JSON")

    gc = _verb(verbs, "gc", _verbs.gc, "Find packed files that no plan names and no delta needs")
    _store_and_plans(gc)
    does = gc.add_mutually_exclusive_group()
    does.add_argument("--dry-run", action="store_true", help="print what would be removed [default]")
    does.add_argument("--delete", action="store_true", help="remove it")
    gc.add_argument("--json", action="store_true", help="print JSON")

    restore = _verb(verbs, "restore", _verbs.restore, "Restore files of a plan")
    _store_and_plans(restore)
    restore.add_argument("-o", "--output", required=True, metavar="DIR",
                         help="folder for OWNER/NAME/FILE")  # fmt: skip
    restore.add_argument("--only", action="append", default=[], metavar="OWNER/NAME[/FILE]",
                         help="restore this alone [default: all]. May be repeated")  # fmt: skip
    restore.add_argument("-T", "--threads", type=int, default=0, metavar="N",
                         help="threads that decode [default: one per core]")  # fmt: skip

    help = "Estimate the hours and the cost of a job by a model of its events"
    simulation.add_arguments(verbs.add_parser("simulate", help=help))
    return parser.parse_args(arguments)


def _verb(
    verbs: Any, name: str, run: Callable[[argparse.Namespace], int], help: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help, description=help + ".")
    parser.set_defaults(run=run, verb=name)
    return parser


def _store_and_plans(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("store", metavar="STORE", help="folder with results, or one in an object store")
    parser.add_argument("--plan", action="append", required=True, metavar="PLAN.jsonl",
                        help="may be repeated")  # fmt: skip


def _options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--effort", choices=["fast", "balanced", "max"], default="balanced",
                        help="how hard to look for a smaller form; the same for plan and run "
                        "[default: balanced]")  # fmt: skip
    parser.add_argument("--extended", action="store_true",
                        help="write extension frames where they are smaller; the same for plan and "
                        "run")  # fmt: skip


def _shard(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", text)
    if found is None or int(found[1]) >= int(found[2]):
        raise argparse.ArgumentTypeError("a share must be i/n, with i from 0 to n - 1, like 0/8")
    return int(found[1]), int(found[2])


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError("the number must be at least 1")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
