"""Separate hosts for masters and peers: network namespaces on one switch. Needs root and ip of iproute2. All names
begin with pccl-<pid of the test>-, so that the next test finds and removes the leftovers of a killed one."""

import os
import subprocess
import sys

import harness

SKIPPED = 77  # exit code: this machine does not permit it
PREFIX = "pccl-"
V6 = "2001:db8:99::"  # the beginning of the IPv6 addresses
NOWHERE = "02:00:00:00:de:ad"  # not an address of any host, so packets to it are lost silently


def _ip(commands):
    done = subprocess.run(["ip", "-batch", "-"], input="\n".join(commands) + "\n", text=True, capture_output=True)
    harness.check(done.returncode == 0, f"ip: {done.stderr.strip()}")


def _names():
    listed = subprocess.run(["ip", "netns", "list"], text=True, capture_output=True).stdout
    return [line.split()[0] for line in listed.splitlines() if line.startswith(PREFIX)]


def _remove(names):
    for name in names:
        pids = subprocess.run(["ip", "netns", "pids", name], text=True, capture_output=True).stdout
        for pid in pids.split():
            try:
                os.kill(int(pid), 9)
            except ProcessLookupError:
                pass
        subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def remove_leftovers():
    """Removes namespaces of tests that were killed."""
    _remove([name for name in _names() if not os.path.exists(f"/proc/{name.split('-')[1]}")])


class Network:
    """Hosts 0 ... count - 1, each with the address 10.99.0.<1 + number>, joined by a switch."""

    def __init__(self, count):
        self.count = count
        self.base = f"{PREFIX}{os.getpid()}-"
        self.switch = self.base + "s"

    def build(self):
        remove_leftovers()
        commands = [f"netns add {self.switch}"] + [f"netns add {self.name(i)}" for i in range(self.count)]
        _ip(commands)
        for name in [self.switch] + [self.name(i) for i in range(self.count)]:  # leaves one path between two hosts
            off = "for i in all default; do echo 1 >/proc/sys/net/ipv6/conf/$i/disable_ipv6; done"
            subprocess.run(["ip", "netns", "exec", name, "sh", "-c", off], check=False, capture_output=True)
        commands = [f"-n {self.switch} link add sw type bridge", f"-n {self.switch} link set sw up"]
        for i in range(self.count):
            commands += [
                f"-n {self.switch} link add port{i} type veth peer name eth0 netns {self.name(i)}",
                f"-n {self.switch} link set port{i} master sw",
                f"-n {self.switch} link set port{i} up",
                f"-n {self.name(i)} address add {self.address(i)}/24 dev eth0",
                f"-n {self.name(i)} link set lo up",
                f"-n {self.name(i)} link set eth0 up",
            ]
        for command in commands:
            done = subprocess.run(["ip"] + command.split(), text=True, capture_output=True)
            harness.check(done.returncode == 0, f"ip {command}: {done.stderr.strip()}")

    def remove(self):
        _remove([name for name in _names() if name.startswith(self.base)])

    def name(self, host):
        return f"{self.base}{host}"

    def address(self, host):
        return f"10.99.0.{1 + host}"

    def prefix(self, host):
        return ["ip", "netns", "exec", self.name(host)]

    def _do(self, host, words):
        done = subprocess.run(["ip", "-n", self.name(host)] + words.split(), text=True, capture_output=True)
        harness.check(done.returncode == 0, f"ip {words} at host {host}: {done.stderr.strip()}")

    def drop(self, sender, receiver):
        """Drops packets from one host to the other; the other direction still works."""
        self._do(sender, f"neigh replace {self.address(receiver)} lladdr {NOWHERE} nud permanent dev eth0")

    def deny(self, sender, receiver):
        """The sender gets an error at once when it sends to the receiver."""
        self._do(sender, f"route replace unreachable {self.address(receiver)}/32")

    def cut(self, one, other, how="drop"):
        """Cuts both directions."""
        for sender, receiver in ((one, other), (other, one)):
            getattr(self, how)(sender, receiver)

    def heal(self, one, other):
        for sender, receiver in ((one, other), (other, one)):
            words = {
                "neigh": f"neigh del {self.address(receiver)} dev eth0",
                "route": f"route del unreachable {self.address(receiver)}/32",
            }
            for command in words.values():  # it may not exist
                subprocess.run(["ip", "-n", self.name(sender)] + command.split(), capture_output=True)

    def wall(self, host, answer="drop", neighbors=(), family="inet"):
        """A firewall at the host: connections from others are dropped, or answered with `answer`. `neighbors` are hosts
        behind the same firewall."""
        near = "".join(f"ip saddr {self.address(other)} accept\n" for other in neighbors)
        rules = f"""
            table {family} wall {{
                chain incoming {{
                    type filter hook input priority 0; policy accept;
                    iif lo accept
                    ct state established,related accept
                    {near}
                    meta l4proto tcp {answer}
                }}
            }}"""
        done = subprocess.run(self.prefix(host) + ["nft", "-f", "-"], input=rules, text=True, capture_output=True)
        harness.check(done.returncode == 0, f"nft at host {host}: {done.stderr.strip()}")

    def forget(self, host, seconds):
        """The firewall at the host forgets connections that have been silent for this time, as a NAT does: it then
        drops their packets in both directions."""
        settings = f"timeout_established={seconds}", "loose=0"
        for setting in settings:
            words = ["sysctl", "-qw", f"net.netfilter.nf_conntrack_tcp_{setting}"]
            subprocess.run(self.prefix(host) + words, check=True)
        rules = """
            table inet forgetful {
                chain incoming { type filter hook input priority -1; meta l4proto tcp ct state invalid drop; }
                chain outgoing { type filter hook output priority 0; meta l4proto tcp ct state invalid drop; }
            }"""
        done = subprocess.run(self.prefix(host) + ["nft", "-f", "-"], input=rules, text=True, capture_output=True)
        harness.check(done.returncode == 0, f"nft at host {host}: {done.stderr.strip()}")

    def remembers(self, host, port):
        """Returns true if that firewall knows a connection from this port."""
        words = self.prefix(host) + ["cat", "/proc/net/nf_conntrack"]
        return f"sport={port} " in subprocess.run(words, text=True, capture_output=True, check=True).stdout

    def separate(self):
        """Gives each host IPv6, too, and a separate network, which the switch joins to the others."""
        for host in range(self.count):
            on = "echo 0 >/proc/sys/net/ipv6/conf/eth0/disable_ipv6"
            subprocess.run(self.prefix(host) + ["sh", "-c", on], check=True)
            for words in (
                f"address del {self.address(host)}/24 dev eth0",
                f"address add {self.address(host)}/32 dev eth0",
                "route add 10.99.0.0/24 dev eth0",
                f"address add {V6}{1 + host}/128 dev eth0 nodad",
                f"route add {V6}/64 dev eth0",
            ):
                self._do(host, words)

    def sockets(self, host):
        """Returns both ends of the host's established connections."""
        words = self.prefix(host) + ["ss", "-Htn", "state", "established"]
        lines = subprocess.run(words, text=True, capture_output=True, check=True).stdout.splitlines()
        return {tuple(line.split()[-2:]) for line in lines}

    def connections(self, host):
        """Returns the addresses of the other ends of the host's established connections."""
        ends = [other.rsplit(":", 1)[0] for _, other in self.sockets(host)]
        return {end.strip("[]").replace("::ffff:", "") for end in ends}

    def unplug(self, host):
        """Unplugs the cable: no packets pass in either direction, and no host gets an error."""
        done = subprocess.run(["ip", "-n", self.switch, "link", "set", f"port{host}", "down"], capture_output=True)
        harness.check(done.returncode == 0, f"unplug: {done.stderr}")

    def plug(self, host):
        done = subprocess.run(["ip", "-n", self.switch, "link", "set", f"port{host}", "up"], capture_output=True)
        harness.check(done.returncode == 0, f"plug: {done.stderr}")

    def crawl(self, host, kbit):
        """Limits the send rate of the host, in kbit/s."""
        words = f"tc -n {self.name(host)} qdisc add dev eth0 root tbf rate {kbit}kbit burst 2000 limit 60000"
        done = subprocess.run(words.split(), text=True, capture_output=True)
        harness.check(done.returncode == 0, f"tc: {done.stderr}")


def need_root():
    """Ends the test program if it may not make namespaces."""
    if os.geteuid() != 0:
        harness.say("skipped: network namespaces need root")
        sys.exit(SKIPPED)
