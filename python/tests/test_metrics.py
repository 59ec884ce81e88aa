"""A master's pages over HTTP: Prometheus' own parser reads the metrics, and the program and the class have the same
option."""

import re
import urllib.request

import numpy
import pytest
from prometheus_client import parser
from support import DEADLINE, MASTER, Group, Script, WebMaster, free_port

import pccl

UNITS = ("_seconds", "_bytes", "_info", "_total", "_ratio")


@pytest.fixture
def master():
    program = WebMaster()
    yield program.address, program.http
    program.close()


def page(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=DEADLINE) as answer:
        return answer.read().decode()


def test_prometheus_reads_them(master):
    address, http = master
    group = Group(address, 2)
    group.all(lambda comm, i: comm.all_reduce(numpy.ones(8, "f4"), numpy.ones(8, "f4"), op="sum"))
    while "pccl_operation_seconds_count 1\n" not in page(http, "/metrics"):
        pass
    text = page(http, "/metrics")
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    series = [sample for family in families.values() for sample in family.samples]
    assert len(series) < 200
    assert len({(sample.name, *sorted(sample.labels.items())) for sample in series}) == len(series)
    assert families["pccl_members"].samples[0].value == 2
    assert families["pccl_operation_seconds"].type == "histogram"
    buckets = [sample.value for sample in families["pccl_operation_seconds"].samples if "le" in sample.labels]
    assert buckets == sorted(buckets) and buckets[-1] == 1
    group.close()


def test_names(master):
    """The rules of `promtool check metrics`: each metric has a help, only counters end in _total, units are base units
    at the end, and names do not repeat their type."""
    text = page(master[1], "/metrics")
    helps = dict(re.findall(r"^# HELP (\w+) (.+)$", text, re.M))
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    assert set(helps) == set(types) and all(help.endswith(".") for help in helps.values())
    for name, kind in types.items():
        assert re.fullmatch(r"pccl(_[a-z0-9]+)+", name)
        assert name.endswith("_total") == (kind == "counter"), name
        assert not re.search(r"_(counter|gauge|histogram|metric|ms|us|milliseconds|kib|mib)(_|$)", name), name
        assert kind != "histogram" or name.endswith(UNITS), name
    for line in text.splitlines():
        assert line.startswith("#") or re.match(r"(\w+)[ {]", line).group(1).startswith("pccl_"), line


def test_the_class_has_the_option():
    http = f"127.0.0.1:{free_port()}"
    with pccl.MasterNode("127.0.0.1:0", options={"http": http}):
        assert page(http, "/healthz") == "ok\n"
        assert '"members":0' in page(http, "/status.json")
    with pytest.raises(OSError):
        page(http, "/healthz")
    with pytest.raises(pccl.InvalidArgument, match="http"):
        pccl.MasterNode("127.0.0.1:0", options={"http": "nowhere:x"})


def test_status_from_python(master):
    program = Script(MASTER, "status", master[1])
    program.line("idle: no members")
    assert program.end() == 0


def test_reports_are_checked(master):
    group = Group(master[0], 1)
    comm = group.members[0]
    with pytest.raises(pccl.InvalidArgument, match="step"):
        comm.report(step=-1, loss=1)
    with pytest.raises(ValueError):
        comm.report(step=1, loss="little")
    comm.report(step=1 << 63, loss=float("nan"))
    group.close()
    with pytest.raises(pccl.PCCLError):
        comm.report(step=1, loss=1)
