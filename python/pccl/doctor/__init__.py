"""The `pccl doctor` command: checks before a run whether this machine and its network paths to the master and to the
other peers are suitable. Run it on all machines at once: `pccl doctor master.example.com --peers 4`.

It examines the machine (`_machine`) and probes the master (`_master`). Then it joins the master's run as a peer and
examines the paths to the other peers (`_peers`). Each result is a `Finding`: the problem, and a command that fixes it.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import List, Optional, Sequence

from .._errors import PCCLError
from . import _machine, _master, _peers
from ._finding import Finding

__all__ = ["main"]


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pccl doctor",
        description="Checks this machine and its paths to the master and to the other peers, and prints a fix for each "
        "problem. Run it before a run, on all machines at the same time.",
        epilog="exit status: 0 no problem found; 1 problem found; 2 wrong usage",
    )
    parser.add_argument("master", nargs="?", help="host, host:port or [v6]:port; none: checks only this machine")
    parser.add_argument(
        "--peers", type=_positive, default=1, metavar="N", help="number of machines that run the doctor (1)"
    )
    parser.add_argument(
        "--wait", type=_positive, default=60, metavar="S", help="seconds to wait for the others (60)"
    )
    parser.add_argument("--json", action="store_true", help="prints the results as one JSON object")
    return parser


def _printable(text: str) -> str:
    """Replaces unprintable characters, because text from the system or the network must not control the terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _print_findings(title: str, findings: Sequence[Finding]) -> None:
    print(title)
    for finding in findings:
        print(_printable(f"  {finding.level:<5}{finding.check:<12}{finding.text}"), flush=True)
        if finding.mend:
            print(_printable(f"       {'':<12}fix: {finding.mend}"), flush=True)


def _print_paths(paths: Sequence[_peers.Path]) -> None:
    for path in paths:
        rtt = "      unknown" if path.rtt_us is None else f"{path.rtt_us / 1e3:9.2f} ms"
        figures = f"{path.rate / 1e6:9.1f} MB/s{rtt}" if path.rate else "  unreachable"
        print(f"       {figures}   {path.sender} -> {path.receiver}")


class _Examination:
    def __init__(self, prints: bool) -> None:
        self.prints = prints
        self.findings: List[Finding] = []
        self.paths: Sequence[_peers.Path] = ()
        self.peers: Sequence[str] = ()

    def note(self, title: str, findings: Sequence[Finding]) -> None:
        self.findings += findings
        if self.prints:
            _print_findings(title, findings)

    def run(self, master: Optional[str], peers: int, wait: int) -> None:
        host, port = _master.split(master) if master else ("", 0)
        self.note("this machine", _machine.examine())
        if not master:
            return
        reached = _master.examine(host, port)
        self.note(f"the master at {host}, port {port}", reached.findings)
        if not reached.address:
            return
        met = _peers.examine(master, reached.own_address, peers, wait, self.findings)
        self.paths, self.peers = met.paths, met.names
        self.note(f"the peers: {', '.join(met.names) or 'none'}", met.findings)
        if self.prints:
            _print_paths(met.paths)

    @property
    def is_well(self) -> bool:
        return all(finding.level != "bad" for finding in self.findings)

    def to_json(self) -> str:
        return json.dumps(
            {
                "ok": self.is_well,
                "findings": [asdict(finding) for finding in self.findings],
                "peers": list(self.peers),
                "paths": [asdict(path) for path in self.paths],
            },
            indent=1,
        )


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.master is None and given.peers > 1:
        parser.error("--peers requires the master's address")
    examination = _Examination(prints=not given.json)
    try:
        examination.run(given.master, given.peers, given.wait)
    except ValueError as error:  # an invalid address
        parser.error(error.reason if isinstance(error, PCCLError) else str(error))
    print(examination.to_json() if given.json else "no problem found" if examination.is_well else "problems found")
    return 0 if examination.is_well else 1


if __name__ == "__main__":
    sys.exit(main())
