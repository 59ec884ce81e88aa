#!/usr/bin/env python3
"""How a process has ended, where that is not in our hands alone: for the tests of the Python
package and of the pages.

    endings.py LAST COMMAND...

runs a command, shows what it prints, and ends as it does; well if it ended well. LAST is a regular
expression.
"""

import re
import signal
import subprocess
import sys

# pytorch issue 190489: a thread of gloo's that still lets go of the last collective aborts the
# process at its end.
GLOO_AT_THE_END = "terminate called without an active exception"


def ended_well(status, lines, last):
    """Whether a process has ended in order. Who had said its last line, and nothing but gloo's
    words after it, had done its work: its abort is an end like any other."""
    if status != -signal.SIGABRT:
        return status == 0
    said = [line for line in lines if line.strip()]
    return len(said) > 1 and re.search(last, said[-2]) is not None and said[-1] == GLOO_AT_THE_END


def main(last, *command):
    lines = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return 0 if ended_well(process.returncode, lines, last) else process.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
