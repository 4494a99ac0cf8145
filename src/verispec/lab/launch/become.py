"""Becomes the server: ``python become.py CORES COMMAND...``, in a process that the lab has just started.

It runs before the server's first instruction, so that threads inherit the processors. The server also gets a signal
when the lab ends without stopping it, however the lab ends. CORES are numbers with commas, or ``-`` for all.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    cores, command = sys.argv[1], sys.argv[2:]
    if cores != "-":
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit(f"{command[0]}: {error.strerror}")
