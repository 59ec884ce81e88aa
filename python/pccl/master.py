"""A master as a program: `pccl_master --listen-address 0.0.0.0:48148`, or `python -m pccl.master`.

Ctrl-C and SIGTERM end it in order. It takes its flags by the names of `pccl-master` too, the C program, which the wheel
has as `pccl/bin/pccl-master`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from typing import Dict, Optional, Sequence

from . import MasterNode, PCCLError, __version__


def _arguments(arguments: Optional[Sequence[str]]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="pccl_master", description="Runs a master of PCCL.")
    parser.add_argument(
        "--listen-address",
        "--listen",
        default="0.0.0.0:48148",
        help="host:port, or several separated by commas (%(default)s)",
    )
    parser.add_argument(
        "--option",
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of masters, as in `man 7 pccl`",
    )
    parser.add_argument("--version", action="version", version=__version__)
    return parser.parse_args(arguments)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    given = _arguments(arguments)
    options: Dict[str, str] = {}
    for option in given.option:
        name, equals, value = option.partition("=")
        if not equals:
            print(f"pccl_master: {option!r} is not NAME=VALUE", file=sys.stderr)
            return 2
        options[name] = value

    stop = threading.Event()
    try:
        master = MasterNode(given.listen_address, options=options)
        before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
        master.run()
    except PCCLError as error:
        print(f"pccl_master: {error.words}", file=sys.stderr)
        return 1
    print(f"pccl_master: listening on port {master.port}", file=sys.stderr, flush=True)
    try:
        while not stop.is_set() and not master.wait(0.1):
            pass
        master.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return 0


if __name__ == "__main__":
    sys.exit(main())
