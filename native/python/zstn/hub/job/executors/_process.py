"""A process of the local executor, which reads tasks and writes outcomes as one JSON
object per line."""

from __future__ import annotations

import json
import os
import signal
import sys

from .._work import GivenBack, work


def main() -> None:
    # Ctrl-C in a terminal is meant for the run, which gives tasks back.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Other output to standard output must not be mistaken for an outcome.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        outcome = work(json.loads(line))
        print(json.dumps(outcome), file=out, flush=True)
        if outcome["state"] == "given_back":
            return


if __name__ == "__main__":
    try:
        main()
    except (GivenBack, BrokenPipeError):
        pass
