"""Messages and progress on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ._table import escaped


@contextmanager
def bar(title: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows the progress on a file, if standard error is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from tqdm import tqdm

    with tqdm(desc=escaped(title), unit="B", unit_scale=True, leave=False) as shown:

        def report(done: int, total: int) -> None:
            shown.total = total
            shown.update(done - shown.n)

        yield report


def quieten(quiet: bool) -> None:
    """Disables huggingface_hub's progress bars if `quiet`, or without a terminal."""
    if not quiet and sys.stderr.isatty():
        return
    try:
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        # Packing local files does not need huggingface_hub.
        return
    disable_progress_bars()


def say(text: str, quiet: bool = False) -> None:
    if quiet:
        return
    # The work continues even if its messages can no longer be read.
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
