"""Runs a command that dies with its parent: ``python -I -S with_parent.py PARENT_PID COMMAND ...``.

It asks Linux to send SIGKILL when the parent ends (``prctl(PR_SET_PDEATHSIG)``, which survives exec) and then becomes
the command, so the process id stays the same and nothing is left beside it. A ``preexec_fn`` could do the same, but
runs Python code in a forked copy of a program that may have threads.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Set the signal, look whether the parent is there still, and exec."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        os._exit(127)


if __name__ == "__main__":
    main()
