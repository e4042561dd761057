"""The command line: the program `zstn`, and ``python -m zstn``."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import sysconfig

from . import _native


def main() -> int:
    """Runs the command line and returns its exit status. The process has to end then."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C would raise a `KeyboardInterrupt` after the work, which handles it itself.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _native.run_command_line(_script(), sys.argv[1:])


def _script() -> str:
    """Returns the path of the installed script, which git-lfs can start."""
    scripts = sysconfig.get_path("scripts")
    started, extension = os.path.splitext(sys.argv[0])
    if found := shutil.which("zstn", path=scripts):
        return found
    if extension in ("", ".exe") and shutil.which(started):
        return sys.argv[0]
    return shutil.which("zstn") or os.path.join(scripts, "zstn")


if __name__ == "__main__":
    sys.exit(main())
