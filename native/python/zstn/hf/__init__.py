"""``hf zstn``: packed checkpoints in repositories, from the command line of
huggingface_hub. It is also the program ``hf-zstn``."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from ._arguments import parse
from ._errors import sentence
from ._progress import quieten

__all__ = ["main"]

#: Verbs whose result is what they print.
_LISTS = frozenset({"cat", "ls"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command and returns its exit status: 0, 1 after an error or if an original
    was kept for want of a proof, 2 for wrong arguments, 130 after Ctrl-C."""
    options = parse(arguments)
    try:
        quieten(options.quiet)
        status: int = options.run(options) or 0
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Nothing can be flushed then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        # Whoever reads a list has seen enough.
        return 0 if options.verb in _LISTS else 1
    except Exception as error:
        text = sentence(error)
        if text is None:
            raise
        print(f"error: {text}", file=sys.stderr)
        return 1
    return status
