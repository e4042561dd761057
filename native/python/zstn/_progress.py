"""Progress bars and callbacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

#: A progress callback for the native module: takes the bytes done and the total.
Report = Callable[[int, int], None]


@contextmanager
def watching(progress: Any, title: str) -> Iterator[Report | None]:
    """Yields the callback for `progress`, which is `True` for a tqdm bar, a class like
    ``tqdm.tqdm`` or an instance of one, or a function of two numbers."""
    report: Report = progress
    if progress is None or progress is False:
        yield None
        return
    if progress is True:
        try:
            from tqdm.auto import tqdm
        except ImportError as error:
            raise ImportError("progress=True needs tqdm: `pip install tqdm`") from error
        progress = tqdm
    if isinstance(progress, type):
        with progress(total=None, unit="B", unit_scale=True, desc=title) as bar:
            yield _of_bar(bar)
    elif hasattr(progress, "update"):
        yield _of_bar(progress)
    elif callable(progress):
        yield report
    else:
        raise TypeError("progress must be True, a class like tqdm.tqdm, or a function(done, total)")


def _of_bar(bar: Any) -> Report:
    shown = 0

    def report(done: int, total: int) -> None:
        nonlocal shown
        if bar.total != total:
            bar.total = total
        # The count is lower than before if a new phase has begun.
        bar.update(done - shown)
        shown = done

    return report
