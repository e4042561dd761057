"""The commands ``hf zstn`` of huggingface_hub's command line, and the program
``hf-zstn``, which work on packed checkpoints in repositories."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ._arguments import parse
from ._errors import sentence
from ._output import quieten

__all__ = ["main"]

#: Commands whose result is their output.
_LISTS = frozenset({"cat", "ls"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0 for success, 1 after an error or if
    an original was kept because no packed file provably restores it, 2 for wrong
    arguments, 130 after Ctrl-C."""
    options = parse(arguments)
    try:
        quieten(options.quiet)
        status: int = options.run(options) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Standard output is closed, so flushing it at exit would fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # The reader of a list may stop early.
        return 0 if options.verb in _LISTS else 1
    except Exception as error:
        text = sentence(error)
        if text is None:
            raise
        print(f"error: {text}", file=sys.stderr)
        return 1
    return status
