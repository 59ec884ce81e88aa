"""Hosts that are far from each other: network namespaces joined by wanem, which has rates, delays,
loss, duplicates, reordering, queues and cuts. All of it can be changed while the hosts talk. Needs
root and ip of iproute2.

    with Wan(4, rate_mbit=1000, delay_ms=25, loss_percent=0.1) as wan:
        subprocess.run(wan.prefix(2) + ["pccl-perf", "--connect", wan.address(0) + ":48148"])
        wan.set_rate(40, 0, 1)
        wan.drop(0, 1)

A Network of tests/e2e/namespaces.py, so that whatever is told to drop, heal, unplug or crawl there
works here, too.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import select
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
from namespaces import PREFIX, Network, remove_leftovers  # noqa: E402 pylint: disable=wrong-import-position

ANSWER_S = 120
NEW_NETWORK = 0x40000000  # CLONE_NEWNET


class Failure(Exception):
    pass


def _ip(namespace, commands):
    words = ["ip"] + (["-n", namespace] if namespace else []) + ["-batch", "-"]
    done = subprocess.run(words, input="\n".join(commands) + "\n", text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure(f"ip: {done.stderr.strip()} in {commands}")


@contextlib.contextmanager
def inside(namespace):
    """Sockets that this thread makes belong to the namespace."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as home, open(f"/run/netns/{namespace}", "rb") as there:
        if libc.setns(there.fileno(), NEW_NETWORK) != 0:
            raise Failure(f"{namespace}: {os.strerror(ctypes.get_errno())}")
        try:
            yield
        finally:
            libc.setns(home.fileno(), NEW_NETWORK)


class Wan(Network):
    """Hosts 0 ... count - 1 with the addresses 10.99.0.<1 + number> and fd99::<1 + number>, at
    first all alike."""

    made = 0  # in this process

    def __init__(self, count, rate_mbit=1000, delay_ms=25, loss_percent=0, queue_kib=4096, mtu=1500, emulator=None):
        super().__init__(count)
        self.base = f"{PREFIX}{os.getpid()}-w{Wan.made}-"
        Wan.made += 1
        self.switch = self.base + "s"
        self.mtu = mtu
        self.settings = [f"rate {rate_mbit}", f"delay {delay_ms}", f"loss {loss_percent}", f"queue {queue_kib}"]
        self.emulator = emulator or os.environ.get("E2E_WANEM", "wanem")
        self.process = None

    def address_v6(self, host):
        return f"fd99::{1 + host:x}"

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_):
        self.remove()

    def build(self):
        remove_leftovers()
        _ip(None, [f"netns add {name}" for name in [self.switch] + [self.name(i) for i in range(self.count)]])
        quiet = "for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done"
        subprocess.run(["ip", "netns", "exec", self.switch, "sh", "-c", quiet], check=True)
        switch = []
        for i in range(self.count):
            switch += [
                f"link add port{i} mtu {self.mtu} type veth peer name eth0 netns {self.name(i)}",
                f"link set port{i} up",
            ]
        _ip(self.switch, switch)
        for i in range(self.count):
            self._build_host(i)
        self._start()

    def _build_host(self, host):
        commands = [
            f"link set eth0 address {self._hardware(host)} mtu {self.mtu}",
            f"address add {self.address(host)}/24 dev eth0",
            f"address add {self.address_v6(host)}/64 dev eth0 nodad",
            "link set lo up",
            "link set eth0 up",
        ]
        for other in range(self.count):  # known beforehand: nobody asks over a long link, or after a cut
            if other != host:
                for address in (self.address(other), self.address_v6(other)):
                    commands.append(f"neigh replace {address} lladdr {self._hardware(other)} nud permanent dev eth0")
        _ip(self.name(host), commands)

    @staticmethod
    def _hardware(host):
        return f"02:00:00:00:00:{host:02x}"

    def _start(self):
        # Everything waits for it, so it goes first where that is allowed; nice says so where not,
        # and goes on.
        words = ["ip", "netns", "exec", self.switch, "nice", "-n", "-15", self.emulator]
        self.process = subprocess.Popen(
            words + [f"port{i}" for i in range(self.count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._answer() != "ready":
            raise Failure(f"{self.emulator} does not start")
        for setting in self.settings:
            self.tell(setting)

    def _answer(self):
        if not select.select([self.process.stdout], [], [], ANSWER_S)[0]:
            raise Failure("the emulator does not answer")
        return self.process.stdout.readline().rstrip("\n")

    def remove(self):
        """Ends what runs in the namespaces, and the emulator."""
        if self.process:
            self.process.stdin.close()
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            self.process = None
        super().remove()

    # ---- changes; ports are hosts

    def tell(self, command):
        """A command of wanem; returns the answer."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        answer = self._answer()
        if not answer or answer.startswith("error"):
            raise Failure(f"{command}: {answer or 'the emulator has ended'}")
        return answer

    def set_rate(self, mbit, *ports):
        """Of all ports, of one, or from one to another."""
        self.tell(" ".join(["rate", *map(str, ports), str(mbit)]))

    def set_one_way(self, up, down, port):
        """Sets the Mbit/s that one port can send and receive."""
        self.tell(f"up {port} {up}")
        self.tell(f"down {port} {down}")

    def set_site(self, site, up, down, ports):
        """Puts these ports into a site, 1 to 8, and sets the Mbit/s of its uplink and downlink, which they share."""
        for port in ports:
            self.tell(f"site {port} {site}")
        self.tell(f"siteup {site} {up}")
        self.tell(f"sitedown {site} {down}")

    def set_pair(self, mbit, one, other):
        """Limits the data between two ports, in each direction, besides the rates of the ports; 0: unlimited."""
        self.set_rate(mbit, one, other)
        self.set_rate(mbit, other, one)

    def set_delay(self, ms, *pair):
        self.tell(" ".join(["delay", *map(str, pair), str(ms)]))

    def set_loss(self, percent, *pair):
        self.tell(" ".join(["loss", *map(str, pair), str(percent)]))

    def set_duplicates(self, percent, *pair):
        """Makes `percent` of the segments arrive twice: of all, or from one port to another."""
        self.tell(" ".join(["duplicate", *map(str, pair), str(percent)]))

    def set_reorder(self, percent, ms, *pair):
        """Delays `percent` of the segments by `ms` beyond the delay of the pair; other segments overtake them."""
        self.tell(" ".join(["reorder", *map(str, pair), str(percent), str(ms)]))

    def drop(self, sender, receiver):
        """Drops all frames from the sender to the receiver; the other direction still works."""
        self.tell(f"cut {sender} {receiver}")

    def restore(self, sender, receiver):
        self.tell(f"heal {sender} {receiver}")

    def heal(self, one, other):
        """In both directions, from whatever cut it."""
        for sender, receiver in ((one, other), (other, one)):
            self.restore(sender, receiver)
            words = ["ip", "-n", self.name(sender), "route", "del", "unreachable", f"{self.address(receiver)}/32"]
            subprocess.run(words, capture_output=True, check=False)

    def stats(self):
        """For each port: in, out, sent_bytes, lost, duplicated, held_back, cut_off, queue_full, queue_full_in,
        refused."""
        return json.loads(self.tell("stats"))
