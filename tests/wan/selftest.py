"""Is a long link what it is set to? Measured with plain sockets. That nothing is early or too fast,
and that everything arrives, is judged; how closely rates and delays are met are figures, which a
busy machine changes."""

import array
import fcntl
import hashlib
import os
import socket
import struct
import sys
import threading
import time

from networks import NETWORKS
from wan import Failure, Wan, inside

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
# pylint: disable-next=wrong-import-position
from harness import DEADLINE, check, equal, figure, poll, say, within  # noqa: E402
from namespaces import need_root  # noqa: E402 pylint: disable=wrong-import-position

SO_RCVBUFFORCE = 33
SIOCETHTOOL, ETHTOOL_SRXCSUM, ETHTOOL_STXCSUM = 0x8946, 0x15, 0x17
MEGABIT = 1e6 / 8
STANDSTILL_MBIT = 1e-6  # a datagram takes minutes


def connection(wan, sender, receiver, v6=False, congestion="reno"):
    """(sending socket, receiving socket)"""
    family = socket.AF_INET6 if v6 else socket.AF_INET
    address = wan.address_v6(receiver) if v6 else wan.address(receiver)
    with inside(wan.name(receiver)):
        listener = socket.socket(family)
    listener.bind((address, 0))
    listener.listen()
    with inside(wan.name(sender)):
        sending = socket.socket(family)
    sending.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    sending.connect(listener.getsockname()[:2])
    receiving, _ = listener.accept()
    listener.close()
    for one in (sending, receiving):
        one.settimeout(DEADLINE)
    return sending, receiving


def transfer(wan, size, skip=0, **ways):
    """Moves so many bytes from host 0 to host 1. Returns bytes per second in all, and after the
    first `skip` bytes."""
    sending, receiving = connection(wan, 0, 1, **ways)
    data = os.urandom(size)

    def send():
        sending.sendall(data)
        sending.close()

    digest, got, counted = hashlib.sha256(), 0, 0
    sender = threading.Thread(target=send)
    begun = started = time.monotonic()
    sender.start()
    while True:
        part = receiving.recv(1 << 18)
        if not part:
            break
        digest.update(part)
        got += len(part)
        if counted == 0 and got > skip:
            started, counted = time.monotonic(), got
    ended = time.monotonic()
    sender.join()
    receiving.close()
    equal(got, size, "bytes that came")
    check(digest.digest() == hashlib.sha256(data).digest(), "other bytes came")
    return got / (ended - begun), (got - counted) / (ended - started)


def test_rate(wan):
    """Also at run time, of a pair, and over IPv6."""
    for mbit, ports, v6 in ((60, (), False), (60, (), True), (20, (), False), (30, (0, 1), True), (10, (0,), False)):
        wan.set_rate(100)
        wan.set_rate(0, 0, 1)
        wan.set_rate(mbit, *ports)
        payload = (1428 if v6 else 1448) / 1538  # of a full segment, with all that is on the wire
        most = mbit * MEGABIT * payload
        of_all, of_rest = transfer(wan, int(mbit * MEGABIT * 0.6), int(mbit * MEGABIT * 0.2), v6=v6)
        check(of_all < most * 1.02, f"faster than {mbit} Mbit/s {ports}: {of_all / MEGABIT:.1f}")
        figure("share of the rate that is set", of_rest / most, "share")
    wan.set_rate(100)
    wan.set_rate(0, 0, 1)


def test_rate_changes_under_way(wan):
    """What waits in the queue goes on at the new rate."""
    wan.set_rate(2, 0, 1)
    sending, receiving = connection(wan, 0, 1)
    receiver = threading.Thread(target=lambda: drain(receiving, 1 << 20))
    receiver.start()
    sending.sendall(bytes(1 << 18))  # more than a second at the old rate
    started = time.monotonic()
    wan.set_rate(0, 0, 1)
    sending.sendall(bytes((1 << 20) - (1 << 18)))
    receiver.join()
    figure("seconds for the rest at the new rate", time.monotonic() - started, "s")
    sending.close()
    receiving.close()


def drain(receiving, size):
    while size > 0:
        part = receiving.recv(1 << 18)
        check(part, "the connection has ended")
        size -= len(part)


def round_trip_ms(wan, v6=False):
    """The shortest of several."""
    one, other = connection(wan, 0, 1, v6=v6)
    shortest = 1e9
    for _ in range(6):
        started = time.monotonic()
        one.sendall(b"x")
        drain(other, 1)
        other.sendall(b"x")
        drain(one, 1)
        shortest = min(shortest, 1e3 * (time.monotonic() - started))
    one.close()
    other.close()
    return shortest


def test_delay(wan):
    for there, back, v6 in ((5, 5, False), (20, 20, True), (30, 5, False)):
        wan.set_delay(there, 0, 1)
        wan.set_delay(back, 1, 0)
        took = round_trip_ms(wan, v6)
        check(took >= there + back - 0.2, f"{there} + {back} ms took {took:.2f} ms")
        figure("ms beyond the delay there and back", took - there - back, "ms")
    wan.set_delay(5)


def datagrams(wan, first, second):
    """A datagram socket at each of the hosts."""
    both = []
    for host in (first, second):
        with inside(wan.name(host)):
            both.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        both[-1].bind((wan.address(host), 0))
        both[-1].settimeout(DEADLINE)
    return both


def arrives(sender, receiver):
    sender.sendto(b"there?", receiver.getsockname())
    return receiver.recv(100) == b"there?"


def count_of(wan, what):
    """At the port of host 2, which has no other connections: nothing but what these tests send is
    counted."""
    return wan.stats()[2][what]


def test_cut(wan):
    """One way only, other pairs stay, and a connection goes on when the cut is healed."""
    one, other = datagrams(wan, 2, 1)
    third, fourth = datagrams(wan, 0, 1)
    sending, receiving = connection(wan, 2, 1)
    check(arrives(one, other) and arrives(other, one), "nothing is cut yet")
    wan.drop(2, 1)
    one.sendto(b"never", other.getsockname())
    poll(lambda: count_of(wan, "cut_off") > 0, "the datagram to be cut off")
    check(arrives(other, one), "the other direction is not cut")
    check(arrives(third, fourth) and arrives(fourth, third), "another pair is not cut")
    sending.sendall(b"late")
    poll(lambda: count_of(wan, "cut_off") > 1, "what was sent to be cut off")
    wan.heal(2, 1)
    check(arrives(one, other), "another datagram arrives than that after the healing")
    drain(receiving, 4)
    for each in (one, other, third, fourth, sending, receiving):
        each.close()


def set_offload(wan, host, command):
    """Switches one feature of a host's interface off."""
    with inside(wan.name(host)):
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _switch_off(control, "eth0", command)


def _switch_off(control, interface, command):
    value = array.array("B", struct.pack("II", command, 0))
    fcntl.ioctl(control, SIOCETHTOOL, struct.pack("16sP16x", interface.encode(), value.buffer_info()[0]))
    control.close()


def test_loss(wan):
    """GSO frames that lose segments are split; whoever receives them checks every checksum."""
    set_offload(wan, 1, ETHTOOL_SRXCSUM)
    with inside(wan.switch):
        control = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    _switch_off(control, "port1", ETHTOOL_STXCSUM)
    wan.set_delay(1)
    wan.set_loss(1)
    for v6 in (False, True):
        before = wan.stats()
        transfer(wan, 3 << 20, v6=v6)
        lost = wan.stats()[0]["lost"] - before[0]["lost"]
        segments = (3 << 20) / 1440
        check(lost > 0, f"nothing is lost over {'IPv6' if v6 else 'IPv4'}")
        figure("share of the segments that are lost", lost / segments, "share")
    wan.set_loss(0)
    wan.set_delay(5)
    wrong = checksum_errors(wan)
    equal(wrong, 0, "segments with a wrong checksum")


def checksum_errors(wan):
    """Of TCP at host 1, as its kernel counts them."""
    with inside(wan.name(1)), open("/proc/thread-self/net/snmp", encoding="ascii") as file:
        lines = [line.split() for line in file if line.startswith("Tcp:")]
    return int(dict(zip(*lines))["InCsumErrors"])


BURST = 300  # datagrams


def burst(wan, sender, receiver):
    """Numbers of the datagrams in the order of arrival. They wait before a stopped path until all are
    there: so none arrives before the next one is sent."""
    receiver.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 4 << 20)
    wan.set_rate(STANDSTILL_MBIT, 2, 1)
    came = count_of(wan, "in")
    for number in range(BURST):
        sender.sendto(struct.pack("I", number), receiver.getsockname())
    poll(lambda: count_of(wan, "in") - came >= BURST, "all datagrams to come to the emulator")
    wan.set_rate(0, 2, 1)
    numbers = []
    while not numbers or max(numbers) < BURST - 1 or len(set(numbers)) < BURST:
        numbers.append(struct.unpack("I", receiver.recv(100))[0])
    return numbers


def test_duplicates(wan):
    """The share that is set arrives twice, the copy behind its original; other datagrams arrive once."""
    one, other = datagrams(wan, 2, 1)
    wan.set_duplicates(100, 2, 1)
    before = count_of(wan, "duplicated")
    numbers = burst(wan, one, other)
    check(numbers == [number // 2 for number in range(2 * BURST - 1)], f"{len(numbers)} arrivals of {BURST} twice")
    equal(other.recv(100), struct.pack("I", BURST - 1), "the last copy")
    wan.set_duplicates(20, 2, 1)
    copies = count_of(wan, "duplicated")
    equal(copies - before, BURST, "copies of all datagrams")
    numbers = burst(wan, one, other)
    copies = count_of(wan, "duplicated") - copies
    within(copies, BURST * 0.1, BURST * 0.3, "copies where 20 percent are set")
    one.sendto(b"end", other.getsockname())  # with a copy, or without
    while (last := other.recv(100)) != b"end":
        numbers.append(struct.unpack("I", last)[0])
    check(numbers == sorted(numbers), "the order of datagrams has changed")
    equal(len(numbers) - BURST, copies, "second arrivals")
    wan.set_duplicates(0, 2, 1)
    for each in (one, other):
        each.close()


def test_reorder(wan):
    """The share that is set arrives behind all others of a burst, by no less than the time that is set."""
    one, other = datagrams(wan, 2, 1)
    wan.set_reorder(20, 30, 2, 1)
    before = count_of(wan, "held_back")
    numbers = burst(wan, one, other)
    held = count_of(wan, "held_back") - before
    within(held, BURST * 0.1, BURST * 0.3, "held back where 20 percent are set")
    check(sorted(numbers) == list(range(BURST)), f"{len(numbers)} arrivals of {BURST} once")
    for part in (numbers[:-held], numbers[-held:]):
        check(part == sorted(part), f"the order of {len(part)} datagrams has changed")
    check(numbers[-held] < numbers[-held - 1], "no datagram is passed")
    wan.set_reorder(100, 30, 2, 1)
    started = time.monotonic()
    check(arrives(one, other), "a late datagram")
    check(time.monotonic() - started >= 0.0345, "a datagram is not late")
    wan.set_reorder(0, 0, 2, 1)
    for each in (one, other):
        each.close()


def test_streams_in_disorder(wan):
    """Connections get their bytes, in order and once, with duplicates and reordering both ways; frames of
    many segments are split, with right checksums, which test_loss has switched on at host 1."""
    wan.set_delay(1)
    wan.set_duplicates(5)
    wan.set_reorder(5, 2)
    wrong = checksum_errors(wan)
    for v6 in (False, True):
        before = wan.stats()[0]
        transfer(wan, 1 << 20, v6=v6)
        after = wan.stats()[0]
        for what in ("duplicated", "held_back"):
            count, segments = after[what] - before[what], (1 << 20) / 1440
            check(count > segments * 0.05 / 3, f"{count} of {segments:.0f} segments are {what} ({v6=})")
    wan.set_duplicates(0)
    wan.set_reorder(0, 0)
    wan.set_delay(5)
    equal(checksum_errors(wan), wrong, "segments with a wrong checksum")


def test_queue(wan):
    """What does not fit is dropped, and the rest arrives, once it is let through."""
    one, other = datagrams(wan, 2, 1)
    wan.set_rate(0)  # of the ports: what has come waits for nothing before the path between the two
    wan.set_rate(0.0001, 2, 1)
    wan.tell("queue 10")
    came, full = count_of(wan, "in"), count_of(wan, "queue_full")
    for _ in range(40):
        one.sendto(bytes(1000), other.getsockname())
    poll(lambda: count_of(wan, "in") - came >= 40, "all datagrams to come to the emulator")
    wan.tell("queue 4096")
    wan.set_rate(0, 2, 1)
    one.sendto(b"the last one", other.getsockname())
    arrived = 0
    while other.recv(2000) != b"the last one":
        arrived += 1
    within(arrived, 9, 12, "datagrams of a thousand bytes in the queue")
    equal(count_of(wan, "queue_full") - full, 40 - arrived, "dropped datagrams")
    wan.set_rate(100)
    one.close()
    other.close()


def nothing_has_come(receiver):
    """Checks that nothing has arrived. Call after the arrival of a later datagram with the same delay."""
    receiver.setblocking(False)
    try:
        raise AssertionError(f"{receiver.recv(100)} has arrived over a stopped line")
    except BlockingIOError:
        pass
    receiver.settimeout(DEADLINE)


def test_one_way_rates(wan):
    """A port has separate rates for sent and for received data."""
    one, other = datagrams(wan, 0, 1)
    wan.set_one_way(100, STANDSTILL_MBIT, 1)
    one.sendto(b"later", other.getsockname())
    check(arrives(other, one), "the data that the port sends is not delayed")
    nothing_has_come(other)
    wan.set_one_way(STANDSTILL_MBIT, 100, 1)
    equal(other.recv(100), b"later", "data after the port receives again")
    other.sendto(b"later", one.getsockname())
    check(arrives(one, other), "the data that the port receives is not delayed")
    nothing_has_come(one)
    wan.set_one_way(100, 100, 1)
    equal(one.recv(100), b"later", "data after the port sends again")
    for each in (one, other):
        each.close()


def test_sites(wan):
    """The ports of a site share its uplink and its downlink; frames within the site pass neither."""
    first, second = datagrams(wan, 0, 2)
    outside, unused = datagrams(wan, 1, 0)
    wan.set_site(1, STANDSTILL_MBIT, 0, (0, 2))
    for sender in (first, second):
        sender.sendto(b"later", outside.getsockname())
    check(arrives(first, second) and arrives(second, first), "data within the site is not delayed")
    check(arrives(outside, first), "data to the site is not delayed")
    nothing_has_come(outside)
    wan.set_site(1, 0, STANDSTILL_MBIT, (0, 2))
    equal([outside.recv(100), outside.recv(100)], 2 * [b"later"], "data after the site's uplink opens")
    outside.sendto(b"later", second.getsockname())
    check(arrives(first, outside), "data from the site is not delayed")
    nothing_has_come(second)
    wan.set_site(1, 20, 40, (0, 2))
    equal(second.recv(100), b"later", "data after the site's downlink opens")
    for each in (first, second, outside, unused):
        each.close()
    for there, mbit in (((0, 1), (2, 1)), 20), (((1, 0), (1, 2)), 40):
        shares_of_a_line(wan, there, mbit)
    wan.set_site(1, 0, 0, (0, 2))
    for port in (0, 2):
        wan.tell(f"site {port} 0")


def test_full_site(wan):
    """Packets that do not fit into the queue of a site's line are counted: at the sender, or at the receiver."""
    one, other = datagrams(wan, 2, 1)
    wan.set_rate(0)
    wan.tell("queue 10")
    for site, up, down, port, what in ((1, STANDSTILL_MBIT, 0, 2, "queue_full"),
                                       (1, 0, STANDSTILL_MBIT, 1, "queue_full_in")):
        wan.set_site(site, up, down, (port,))
        before = wan.stats()
        for number in range(1, 41):  # one by one, so that none fills the queue of the port
            one.sendto(bytes(1000), other.getsockname())
            poll(lambda was=before, to=number: count_of(wan, "in") - was[2]["in"] >= to, "a datagram at the emulator")
        poll(lambda was=before, at=port, of=what: wan.stats()[at][of] - was[at][of] >= 28, "dropped datagrams")
        within(wan.stats()[port][what] - before[port][what], 28, 31, "dropped datagrams")
        wan.tell("queue 4096")
        wan.set_site(site, 0, 0, (port,))
        one.sendto(b"the last one", other.getsockname())
        while other.recv(2000) != b"the last one":
            pass
        wan.tell("queue 10")
        wan.tell(f"site {port} 0")
    wan.tell("queue 4096")
    wan.set_rate(100)
    one.close()
    other.close()


def test_networks(_):
    """The narrow lines of networks of unequal peers hold. The rates stand here again, as they were meant."""
    lines = {
        "equal": ((((0, 1), (0, 2)), 100), (((1, 0), (2, 0)), 100)),
        "two sites": ((((0, 4), (1, 5)), 25), (((4, 0), (5, 1)), 25)),
        "three sites": ((((0, 3), (1, 6)), 20), (((3, 0), (6, 1)), 40)),
        "a tenth": ((((4, 0), (4, 1)), 10), (((0, 4), (1, 4)), 10)),
        "a half": ((((4, 0), (4, 1)), 50), (((0, 4), (1, 4)), 50)),
        "homes": ((((0, 1), (0, 2)), 10), (((6, 0), (7, 0)), 40)),
        "bad pair": ((((0, 1), (0, 1)), 2), (((1, 0), (1, 0)), 2)),
    }
    with Wan(8, rate_mbit=0, delay_ms=0) as wan:
        for name, network in NETWORKS.items():
            network.lay_out(wan, range(8))
            for ways, mbit in lines[name]:
                say(f"{name}: {ways} share {mbit} Mbit/s")
                shares_of_a_line(wan, ways, mbit)
    bounds = {"equal": 2.35, "two sites": 5.37, "three sites": 6.71, "a tenth": 13.42, "a half": 2.68, "homes": 13.42}
    for name, seconds in bounds.items():
        within(NETWORKS[name].bound_s(16 << 20), seconds - 0.005, seconds + 0.005, f"the bound of '{name}'")


def shares_of_a_line(wan, ways, mbit):
    """Two transfers at once: together no faster than the line, each with about half of it."""
    size = int(mbit * MEGABIT / 4)
    sockets = [connection(wan, *way) for way in ways]
    seconds = [0.0, 0.0]

    def receive(number, receiving, started):
        drain(receiving, size)
        seconds[number] = time.monotonic() - started

    started = time.monotonic()
    threads = [threading.Thread(target=sending.sendall, args=(bytes(size),)) for sending, _ in sockets]
    threads += [threading.Thread(target=receive, args=(i, pair[1], started)) for i, pair in enumerate(sockets)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for pair in sockets:
        for each in pair:
            each.close()
    most = mbit * MEGABIT * 1448 / 1538
    check(2 * size / max(seconds) < most * 1.02, f"two links together are faster than {mbit} Mbit/s: {seconds}")
    figure("share of a site's line that two links have", 2 * size / max(seconds) / most, "share")
    figure("seconds of the faster one, of the slower one's", min(seconds) / max(seconds), "share")


def test_bad_commands(wan):
    """Words instead of an end; nothing is changed."""
    for command in ("", "rat 1", "rate", "rate x", "rate -1", "rate 9 1", "rate 0 0 1", "delay 1 2", "cut 0", "cut 0 0",
                    "loss 101", "duplicate", "duplicate 101", "duplicate 1 2", "duplicate 0 0 1", "reorder 1",
                    "reorder 101 1", "reorder 0 1 5", "reorder 0 9 5 1", "reorder 0 1 5 1 2", "queue 1 2", "up 1",
                    "up 9 1", "down 0 1 2", "site 0 9", "site 3 1", "siteup 0 1", "sitedown 9 1", "siteup 1",
                    "rate 1 2 3 4", "rate 1e99", "rate nan", "cut 0 0.5"):
        try:
            raise AssertionError(f"'{command}' was answered {wan.tell(command)}")
        except Failure as failure:
            check("error: " in str(failure), f"words: {failure}")
    equal(wan.tell("delay 0 1 5"), "ok", "an answer")


def test_cleaned_up(_):
    """What is left of a test that was killed goes with the next one; two at once do not meet."""
    with Wan(2, rate_mbit=0, delay_ms=0) as one, Wan(2, rate_mbit=0, delay_ms=0, mtu=9000) as two:
        for wan in (one, two):
            figure("ms there and back without a delay", round_trip_ms(wan), "ms")
        names = [one.name(0), two.switch]
        pid = one.process.pid
    poll(lambda: not any(os.path.exists(f"/run/netns/{name}") for name in names), "the namespaces to go")
    check(not os.path.exists(f"/proc/{pid}"), "the emulator is still there")


def main():
    need_root()
    tests = {name: value for name, value in globals().items() if name.startswith("test_")}
    failed = False
    with Wan(3, rate_mbit=100, delay_ms=5) as wan:
        for name in sys.argv[1:] or tests:
            started = time.monotonic()
            try:
                tests[name](wan)
                say(f"ok {name} ({time.monotonic() - started:.1f} s)")
            except Exception as error:  # pylint: disable=broad-except
                failed = True
                say(f"FAILED {name} ({time.monotonic() - started:.1f} s): {type(error).__name__} {error}")
                say(f"   {wan.stats()}")
    sys.exit(failed)


main()
