"""pccl.otlp: a receiver that parses with opentelemetry-proto gets the figures of a run; wrong use gets an error."""

import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from support import DEADLINE, Group, WebMaster, environment


class Receiver:
    """An OTLP receiver, which keeps the requests."""

    def __init__(self, code=200):
        self.requests, self.headers = [], []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):  # pylint: disable=invalid-name
                body = self.rfile.read(int(self.headers["Content-Length"]))
                assert self.path == "/v1/metrics"
                receiver.headers.append(self.headers)
                receiver.requests.append(json_format.Parse(body, ExportMetricsServiceRequest()))
                self.send_response(code)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(name="receiver")
def make_receiver():
    receiver = Receiver()
    yield receiver
    receiver.close()


@pytest.fixture(name="master")
def start_master():
    program = WebMaster()
    yield program.address, program.http
    program.close()


def otlp(*arguments, **env):
    command = [sys.executable, "-m", "pccl.otlp", *arguments]
    return subprocess.run(
        command, env=environment(**env), capture_output=True, text=True, timeout=DEADLINE, check=False
    )


def points(request):
    """Returns {name: [(attributes, value)]} of a request, and its resource."""
    (resource,) = request.resource_metrics
    (scope,) = resource.scope_metrics
    found = {}
    for metric in scope.metrics:
        data = metric.sum if metric.WhichOneof("data") == "sum" else metric.gauge
        if metric.WhichOneof("data") == "sum":
            assert data.is_monotonic and data.aggregation_temporality == 2
        found[metric.name] = [
            ({item.key: item.value.string_value for item in point.attributes}, point.as_double)
            for point in data.data_points
        ]
        assert all(0 < point.start_time_unix_nano <= point.time_unix_nano for point in data.data_points)
    return found, {item.key: item.value.string_value for item in resource.resource.attributes}


def test_figures(master, receiver):
    address, http = master
    group = Group(address, 2)
    group.all(lambda comm, _: comm.all_reduce(np.ones(1024, np.float32), np.empty(1024, np.float32)))
    group.members[0].report(step=7, loss=2.5)
    while not receiver.requests or "pccl.peer.loss" not in points(receiver.requests[-1])[0]:
        done = otlp(http, "--endpoint", receiver.url + "/", "--once", OTEL_EXPORTER_OTLP_HEADERS="x-key=a%20b")
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    found, resource = points(receiver.requests[-1])
    group.close()
    assert receiver.headers[-1]["x-key"] == "a b"
    assert resource["service.name"] == "pccl-master" and len(resource["pccl.run"]) == 32
    assert found["pccl.members"] == [({}, 2)]
    assert ({"outcome": "committed"}, 1) in found["pccl.operations"]
    assert {attributes["use"] for attributes, _ in found["pccl.member.time"]} == {
        "computing",
        "waiting",
        "moving",
        "lost",
        "joint",
    }
    ((attributes, loss),) = found["pccl.peer.loss"]
    assert loss == 2.5 and len(attributes["pccl.peer.id"]) == 32
    assert len(found["pccl.peer.last_seen"]) == 2


def test_no_master_and_no_receiver(master, receiver):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    done = otlp(f"127.0.0.1:{port}", "--endpoint", receiver.url, "--once")
    assert done.returncode == 1 and "refused" in done.stderr and not receiver.requests
    done = otlp(master[1], "--endpoint", f"http://127.0.0.1:{port}", "--once")
    assert done.returncode == 1 and "refused" in done.stderr


def test_refusing_receiver(master):
    receiver = Receiver(503)
    done = otlp(master[1], "--endpoint", receiver.url, "--once")
    receiver.close()
    assert done.returncode == 1 and "503" in done.stderr


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["127.0.0.1:1", "--interval", "0"], "expected 1 to 86400 seconds"),
        (["127.0.0.1:1", "--endpoint", "collector:4318"], "expected http://host:port"),
        (["127.0.0.1:1", "--token-file", "/nonexistent"], "/nonexistent"),
        ([], "master"),
    ],
)
def test_wrong_use(arguments, words):
    done = otlp(*arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr


def test_wrong_header():
    done = otlp("127.0.0.1:1", "--once", OTEL_EXPORTER_OTLP_HEADERS="nonsense")
    assert done.returncode == 2 and "expected name=value" in done.stderr
