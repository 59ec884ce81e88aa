"""The `pccl top` command: shows a run live in a terminal, using /status.json of its master."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import http.client
import io
import json
import pathlib
import select
import shutil
import ssl
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

try:
    import termios
    import tty
except ImportError:  # not available on this platform
    termios = None  # type: ignore[assignment]

__all__ = ["main"]

_PORT = 48180
_PATIENCE_S = 10.0
_BARS = " ▁▂▃▄▅▆▇█"
_Status = Dict[str, Any]


class _Unanswered(Exception):
    """The master has not sent a status; the text is the reason."""


class _Master:
    """A master's HTTP address, with the credentials for HTTPS."""

    def __init__(self, text: str) -> None:
        self.https = text.startswith("https://")
        self.address = _address(text[8:] if self.https else text)
        self.token = ""
        self.fingerprint = ""
        self.context: Optional[ssl.SSLContext] = None

    def secure(self, token_file: Optional[str], authority: Optional[str], fingerprint: Optional[str]) -> None:
        """Sets the credentials. Raises OSError or ValueError if a file or an argument is unusable."""
        if not self.https:
            if token_file or authority or fingerprint:
                raise ValueError("--token-file, --ca and --fingerprint require an address that begins with https://")
            return
        if token_file:
            lines = pathlib.Path(token_file).read_text(encoding="ascii").split()
            if len(lines) != 1:  # checked here, because a later error would show the file's content
                raise ValueError(f"{token_file}: expected a file with one line, the token")
            self.token = lines[0]
        self.context = ssl.create_default_context(cafile=authority)
        if fingerprint:
            self.fingerprint = fingerprint.replace(":", "").lower()
            if len(self.fingerprint) != 64 or self.fingerprint.strip("0123456789abcdef"):
                raise ValueError("invalid fingerprint: expected 64 hexadecimal digits")
            self.context.check_hostname = False
            self.context.verify_mode = ssl.CERT_NONE

    def open(self) -> http.client.HTTPConnection:
        """Connects directly to the master, ignoring any proxy in the environment."""
        if self.context is None:
            return http.client.HTTPConnection(self.address, timeout=_PATIENCE_S)
        connection = http.client.HTTPSConnection(self.address, timeout=_PATIENCE_S, context=self.context)
        connection.connect()
        shown = connection.sock.getpeercert(True) or b""
        if self.fingerprint and hashlib.sha256(shown).hexdigest() != self.fingerprint:
            connection.close()
            raise OSError("its certificate has a different fingerprint")
        return connection


def _address(text: str) -> str:
    """Returns host:port, with the same defaults as pccl-master status."""
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        host, port = text, str(_PORT)
    elif ":" in host and not host.startswith("["):
        host, port = f"[{text}]", str(_PORT)
    if not host or not port.isdecimal() or int(port) > 65535 or any(c in "/?#@ " for c in host):
        raise argparse.ArgumentTypeError(f"{text!r} is not an address")
    return f"{host}:{port}"


def _printable(text: str) -> str:
    """Replaces unprintable characters, because the server must not control our terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def _read(master: _Master) -> _Status:
    with contextlib.closing(master.open()) as connection:
        headers = {"Authorization": f"Bearer {master.token}"} if master.token else {}
        connection.request("GET", "/status.json", headers=headers)
        answer = connection.getresponse()
        if answer.status != 200:
            words = answer.read(1000).decode(errors="replace").strip()
            raise _Unanswered(f"{master.address} answered: {_printable(words)}")
        status = json.load(answer)
    if not isinstance(status, dict) or status.get("program") != "pccl-master":
        raise _Unanswered(f"{master.address} is not the HTTP address of a master")
    return status


def _ask(master: _Master) -> _Status:
    try:
        return _read(master)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise _Unanswered(
            f"no master answers at {master.address}: {_printable(str(error))}. Check that it was "
            f"started with --http {master.address}"
        ) from error


# ---- words ----


def _scaled(value: float, units: Sequence[str]) -> str:
    unit = 0
    while value >= 1000 and unit + 1 < len(units):
        value /= 1000
        unit += 1
    return f"{value:.0f} {units[unit]}" if value >= 100 or unit == 0 else f"{value:.1f} {units[unit]}"


def _rate(value: float) -> str:
    return _scaled(value, ("B/s", "kB/s", "MB/s", "GB/s", "TB/s")) if value else "-"


def _time(ms: float) -> str:
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120e3:
        return f"{ms / 1e3:.1f} s"
    return f"{ms / 60e3:.0f} min" if ms < 7200e3 else f"{ms / 3600e3:.1f} h"


def _bars(values: Sequence[float]) -> str:
    most = max(values, default=0) or 1
    return "".join(_BARS[0 if value <= 0 else max(1, round(8 * value / most))] for value in values)


def _name(peer: _Status) -> str:
    return f"{peer['name']} {peer['id'][:8]}" if peer["name"] else str(peer["id"][:8])


def _state(peer: _Status) -> str:
    if not peer["connected"]:
        return "DISCONNECTED"
    if peer["silent"]:
        return "SILENT"
    if peer["state"] != "member":
        return str(peer["state"])
    return "waits" if peer["in"] else "works"


# ---- the screen ----


def _head(status: _Status) -> List[str]:
    spans = status["spans"]
    seconds = (spans["ms"] + spans["newest_ms"]) / 1e3
    flow = sum(spans["bytes"][-2:]) / seconds
    run = f"run {status['run'][:8]}, epoch {status['epoch']}" if status["run"] else "no run"
    lines = [
        f"pccl-master {status['version']}, up {_time(status['uptime_ms'])}: {run}"
        + (", RECOVERING" if status["recovering"] else "")
        + (", optimizing" if status["optimizing"] else ""),
        f"{status['members']} members, {status['newcomers']} newcomers; operations: "
        f"{status['operations_under_way']} running, {status['operations_committed']} committed, "
        f"{status['operations_aborted']} aborted; {_rate(flow)} reduced",
        f"10 min  |{_bars(spans['bytes'])}| bytes",
    ]
    if any(spans["aborted"]):
        lines.append(f"        |{_bars(spans['aborted'])}| aborted")
    steps = [step for step in status["steps"] if step["loss"] is not None]
    if steps:
        last = max(steps, key=lambda step: step["step"])
        lines.append(f"step {last['step']}: loss {last['loss']:.5g}, reported by {last['count']}")
    return lines


def _verdicts(status: _Status, names: Dict[str, str]) -> List[str]:
    lines = []
    for verdict in status["verdicts"]:
        who = " -> ".join(names.get(id, id[:8]) for id in (verdict["peer"], verdict["other"]) if id)
        kind = "FROM THE START" if "finding" in verdict and verdict["finding"] else "VERDICT"
        lines.append(f"{kind} {verdict['class']}: {who}: {verdict['evidence']}: {verdict['action']}")
    return lines


def _calls(status: _Status, names: Dict[str, str]) -> List[str]:
    lines = []
    for call in status["calls"]:
        what = f"{call['kind']} tag {call['tag']}" if call["call"] == "operation" else f"{call['call']} {call['round']}"
        missing = [names.get(place["peer"], place["peer"][:8]) for place in call["missing"]]
        more = call["missing_count"] - len(missing)
        waits = "; waiting for " + ", ".join(missing) + (f" and {more} more" if more > 0 else "") if missing else ""
        lines.append(f"  {what}, {_time(call['since_ms'])}: {call['come_count']} of {call['world']}{waits}")
    return lines


def _row(cells: Tuple[str, ...]) -> str:
    name, state, group, rank, where, word, rate, step = cells
    return f"{name:<28.28} {state:<12} {group:>5} {rank:>5} {where:<30.30} {word:>10} {rate:>11} {step:>16}"


def _peers(status: _Status) -> List[str]:
    worst = ("DISCONNECTED", "SILENT", "leaving", "returning", "newcomer", "waits", "works")
    order = {state: place for place, state in enumerate(worst)}
    peers = sorted(status["peers"], key=lambda p: (order.get(_state(p), -1), p["group"], p.get("rank", 0)))
    lines = [_row(("PEER", "STATE", "GROUP", "RANK", "IN", "LAST SEEN", "TO NEXT", "STEP: LOSS"))]
    for peer in peers:
        loss = peer.get("loss")
        step = f"{peer['step']}: {'nan' if loss is None else format(loss, '.4g')}" if "step" in peer else "-"
        rate = _rate(peer.get("achieved_to_next") or peer.get("rate_to_next") or 0)
        lines.append(
            _row(
                (
                    _name(peer),
                    _state(peer),
                    str(peer["group"]),
                    str(peer.get("rank", "-")),
                    peer["in"] or "its own code",
                    _time(peer["last_word_ms"]),
                    rate,
                    step,
                )
            )
        )
    return lines


def screen(status: _Status, columns: int, rows: int) -> List[str]:
    """Returns the lines that fit on the screen. If there are too many, omits healthy peers first. Raises _Unanswered if
    the status does not have the fields and values of this version."""
    try:
        return _screen(status, columns, rows)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        words = _printable(f"{type(error).__name__}: {error}")[:200]
        raise _Unanswered(f"cannot show the status: the master has a different version: {words}") from error


def _screen(status: _Status, columns: int, rows: int) -> List[str]:
    names = {peer["id"]: _name(peer) for peer in status["peers"]}
    calls = _calls(status, names)
    lines = _head(status) + _verdicts(status, names)
    lines += ["", f"pending calls: {len(calls)}{' and more' if status['more_calls'] else ''}"]
    lines += calls[: max(3, rows // 3)]
    for gone in status["gone"][:2]:
        who = gone["name"] or gone["id"][:8]
        lines.append(f"  removed {_time(gone['since_ms'])} ago: {who}: {gone['reason']}")
    lines.append("")
    peers = _peers(status)
    room = max(2, rows - len(lines))
    if len(peers) > room:
        peers = peers[: room - 1] + [f"and {len(peers) - room + 1} more"]
    return [_printable(line)[:columns] for line in (lines + peers)[:rows]]


@contextlib.contextmanager
def _keys() -> Iterator[None]:
    """Delivers key presses without Enter. If that is impossible, only Ctrl-C ends the program."""
    if termios is None or not sys.stdin.isatty():
        yield
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


def _is_quit(seconds: float) -> bool:
    if termios is None or not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if select.select([sys.stdin], [], [], max(0.0, until - time.monotonic()))[0]:
            key = sys.stdin.read(1)
            if key in ("q", "Q", ""):
                return True
    return False


def _lines_of(master: _Master, columns: int, rows: int) -> List[str]:
    try:
        return screen(_ask(master), columns, rows)
    except _Unanswered as error:  # the master may return
        return [str(error)]


def _watch(master: _Master) -> None:
    """Shows the run on the terminal's alternate screen, so that the previous contents reappear at the end."""
    sys.stdout.write("\033[?1049h\033[?25l")
    try:
        with _keys():
            while True:
                columns, rows = shutil.get_terminal_size()
                lines = _lines_of(master, columns, rows - 1)
                sys.stdout.write("\033[H" + "".join(f"{line}\033[K\r\n" for line in lines) + "\033[J")
                sys.stdout.flush()
                if _is_quit(1.0):
                    return
    except KeyboardInterrupt:
        pass
    finally:
        sys.stdout.write("\033[?25h\033[?1049l")
        sys.stdout.flush()


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(
        prog="pccl top",
        description="Shows a run live: its peers with state and last contact, the pending calls and the missing "
        "peers. q or Ctrl-C quits. If the output is not a terminal, the status is printed once.",
        epilog="exit status: 0 success; 1 no answer from a master; 2 wrong usage",
    )
    parser.add_argument(
        "master",
        nargs="?",
        type=_Master,
        default=f"127.0.0.1:{_PORT}",
        help=f"address given to the master's --http (127.0.0.1:{_PORT}); https://... for a master with --http-cert",
    )
    parser.add_argument(
        "--token-file", metavar="FILE", help="file that contains a token with the role observe or admin, for https://"
    )
    parser.add_argument(
        "--ca", metavar="FILE", help="authority that signed the master's certificate, or the certificate itself, in PEM"
    )
    parser.add_argument(
        "--fingerprint",
        metavar="HEX",
        help="instead of --ca: SHA-256 of the master's certificate, which the master logs",
    )
    parser.add_argument("--once", action="store_true", help="prints the status once, even on a terminal")
    given = parser.parse_args(arguments)
    try:
        given.master.secure(given.token_file, given.ca, given.fingerprint)
    except (OSError, ValueError) as error:
        parser.error(str(error))
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # names may contain characters that this terminal cannot display
    if sys.stdout.isatty() and not given.once:
        _watch(given.master)
        return 0
    try:
        columns = shutil.get_terminal_size((160, 24)).columns if sys.stdout.isatty() else 200
        print("\n".join(screen(_ask(given.master), columns, 1 << 20)))
    except _Unanswered as error:
        print(f"pccl top: {error}", file=sys.stderr)
        return 1
    return 0
