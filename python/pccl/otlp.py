"""Sends the figures of a run to OpenTelemetry: `python -m pccl.otlp 127.0.0.1:48180 --endpoint http://collector:4318`.

Reads /status.json of a master and sends it as OTLP metrics over HTTP, in the JSON encoding, so it needs no package
besides Python. The master must have been started with --http.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

TIMEOUT_S = 10
USES = ("computing", "waiting", "moving", "lost", "joint")
Point = Tuple[float, Dict[str, Any]]


def _attributes(values: Mapping[str, Any]) -> List[Dict[str, Any]]:
    return [{"key": key, "value": {"stringValue": str(value)}} for key, value in values.items()]


class _Metrics:
    """The metrics of one request."""

    def __init__(self, start_ns: int, now_ns: int) -> None:
        self._start, self._now = str(start_ns), str(now_ns)
        self.all: List[Dict[str, Any]] = []

    def add(self, name: str, unit: str, words: str, points: Sequence[Point], counts: bool = False) -> None:
        """Adds a gauge, or with `counts` a sum since the master's start."""
        if not points:
            return
        data: Dict[str, Any] = {
            "dataPoints": [
                {
                    "attributes": _attributes(attributes),
                    "startTimeUnixNano": self._start,
                    "timeUnixNano": self._now,
                    "asDouble": float(value),
                }
                for value, attributes in points
            ]
        }
        if counts:
            data.update(aggregationTemporality=2, isMonotonic=True)
        self.all.append({"name": name, "unit": unit, "description": words, "sum" if counts else "gauge": data})


def _peers(status: Mapping[str, Any]) -> Iterator[Tuple[Mapping[str, Any], Dict[str, Any]]]:
    for peer in status["peers"]:
        yield peer, {"pccl.peer.id": peer["id"], "pccl.peer.name": peer["name"], "pccl.group": peer["group"]}


def request_of(status: Mapping[str, Any], now_ns: int) -> Dict[str, Any]:
    """Returns the ExportMetricsServiceRequest of a status, as an object for JSON. now_ns: nanoseconds since 1970."""
    metrics = _Metrics(now_ns - status["uptime_ms"] * 1_000_000, now_ns)
    metrics.add("pccl.members", "{peer}", "Members of the run.", [(status["members"], {})])
    metrics.add("pccl.newcomers", "{peer}", "Peers that wait for admission.", [(status["newcomers"], {})])
    outcomes = [(status[f"operations_{outcome}"], {"outcome": outcome}) for outcome in ("committed", "aborted")]
    metrics.add("pccl.operations", "{operation}", "Ended operations.", outcomes, counts=True)
    whole = status["time"]["whole_ms"]
    metrics.add(
        "pccl.member.time",
        "s",
        "Time of all members together, by its use.",
        [(whole[use] / 1000, {"use": use}) for use in USES],
        counts=True,
    )
    verdicts: Dict[str, int] = {}
    for verdict in status["verdicts"]:
        if not verdict["finding"]:
            verdicts[verdict["class"]] = verdicts.get(verdict["class"], 0) + 1
    current = [(number, {"class": kind}) for kind, number in verdicts.items()]
    metrics.add("pccl.verdicts", "{verdict}", "Current verdicts.", current)
    metrics.add(
        "pccl.peer.share",
        "1",
        "Recent share of a member's time, by its use.",
        [
            (percent / 100, {**names, "use": use})
            for peer, names in _peers(status)
            for use, percent in zip(USES, peer["shares"] or ())
        ],
    )
    for key, name, unit, words in (
        ("last_word_ms", "pccl.peer.last_seen", "ms", "Time since the last message of a peer."),
        ("step", "pccl.peer.step", "{step}", "Step in the last training report of a peer."),
        ("loss", "pccl.peer.loss", "1", "Loss in the last training report of a peer."),
    ):
        points = [(peer[key], names) for peer, names in _peers(status) if peer.get(key) is not None]
        metrics.add(name, unit, words, points)
    resource = {"service.name": "pccl-master", "service.version": status["version"], "pccl.run": status["run"] or ""}
    scope = {"scope": {"name": "pccl.otlp"}, "metrics": metrics.all}
    return {"resourceMetrics": [{"resource": {"attributes": _attributes(resource)}, "scopeMetrics": [scope]}]}


def _url_of(master: str) -> str:
    return (master if "://" in master else f"http://{master}").rstrip("/") + "/status.json"


def _headers(text: str) -> Dict[str, str]:
    """Reads OTEL_EXPORTER_OTLP_HEADERS: `name=value,name=value`, with percent-encoded values."""
    headers = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"invalid header {item!r}: expected name=value")
        headers[name.strip()] = urllib.parse.unquote(value.strip())
    return headers


def export(master: str, endpoint: str, headers: Mapping[str, str], token: Optional[str] = None) -> None:
    """Sends the present figures once. Raises OSError if the master or the receiver does not answer, or refuses."""
    read = urllib.request.Request(_url_of(master))
    if token:
        read.add_header("Authorization", f"Bearer {token}")
    with urllib.request.urlopen(read, timeout=TIMEOUT_S) as answer:
        status = json.load(answer)
    body = json.dumps(request_of(status, time.time_ns())).encode()
    send = urllib.request.Request(endpoint.rstrip("/") + "/v1/metrics", body, dict(headers), method="POST")
    send.add_header("Content-Type", "application/json")
    with urllib.request.urlopen(send, timeout=TIMEOUT_S) as answer:
        answer.read()


def _seconds(text: str) -> float:
    value = float(text)
    if not 1 <= value <= 86400:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected 1 to 86400 seconds")
    return value


def _endpoint(text: str) -> str:
    url = urllib.parse.urlsplit(text)
    if url.scheme not in ("http", "https") or not url.hostname:
        raise argparse.ArgumentTypeError(f"invalid value {text!r}: expected http://host:port or https://host:port")
    return text


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m pccl.otlp", description="Sends figures as OTLP metrics.")
    parser.add_argument("master", help="address in the master's --http, or its URL")
    parser.add_argument(
        "--endpoint",
        type=_endpoint,
        default=os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318"),
        help="OTLP receiver (HTTP); default: OTEL_EXPORTER_OTLP_ENDPOINT, or http://127.0.0.1:4318",
    )
    parser.add_argument("--interval", type=_seconds, default=15.0, help="seconds between two requests (15)")
    parser.add_argument("--token-file", help="file with a token of the master with the role observe")
    parser.add_argument("--once", action="store_true", help="sends once; the exit status is 1 if this fails")
    chosen = parser.parse_args(arguments)
    try:
        headers = _headers(os.environ.get("OTEL_EXPORTER_OTLP_HEADERS", ""))
        token = None
        if chosen.token_file:
            with open(chosen.token_file, encoding="ascii") as file:
                token = file.read().strip()
    except (OSError, ValueError) as error:
        parser.error(str(error))
    failed = None
    while True:
        try:
            export(chosen.master, chosen.endpoint, headers, token)
            words = None
        except (OSError, ValueError, KeyError) as error:  # not reachable, not JSON, not a master's status
            words = f"{type(error).__name__}: {error}"
        if words != failed:  # a lasting failure is reported once
            print(f"pccl.otlp: {words or 'figures are sent again'}", file=sys.stderr, flush=True)
        failed = words
        if chosen.once:
            return 1 if failed else 0
        time.sleep(chosen.interval)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
