"""The `pccl` command: `pccl doctor`, `pccl master`, `pccl perf` and `pccl top`, also as `python -m pccl doctor` etc."""

from __future__ import annotations

import sys
from typing import Callable, Dict, Optional, Sequence

from . import doctor, master, perf, top

_PROGRAMS: Dict[str, Callable[[Optional[Sequence[str]]], int]] = {
    "doctor": doctor.main,
    "master": master.main,
    "perf": perf.main,
    "top": top.main,
}
_USAGE = """usage: pccl PROGRAM [OPTION]...

  doctor   checks the machines and the paths between them before a run
  master   runs a master, as pccl-master
  perf     measures performance, as pccl-perf
  top      shows a run live in a terminal

pccl PROGRAM --help lists the options of a program."""


def main(arguments: Optional[Sequence[str]] = None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] in (["-h"], ["--help"]):
        print(_USAGE)
        return 0
    program = _PROGRAMS.get(given[0]) if given else None
    if program is None:
        print(f"pccl: unknown program {given[0]!r}\n\n{_USAGE}" if given else _USAGE, file=sys.stderr)
        return 2
    return program(given[1:])


if __name__ == "__main__":
    sys.exit(main())
