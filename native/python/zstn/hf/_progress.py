"""Messages and progress, on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ._table import escaped


@contextmanager
def bar(title: str, quiet: bool) -> Iterator[Callable[[int, int], None] | None]:
    """Shows how much of a file is done, on a terminal."""
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
    """Keeps huggingface_hub from showing progress where nobody sees it move."""
    if not quiet and sys.stderr.isatty():
        return
    try:
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        # Local files are packed without it.
        return
    disable_progress_bars()


def say(text: str, quiet: bool = False) -> None:
    if quiet:
        return
    # Work does not end because nobody reads its messages any more.
    with suppress(BrokenPipeError):
        print(text, file=sys.stderr, flush=True)
