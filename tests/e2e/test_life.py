"""Peers join, reduce, leave and return, without faults. Numbers in brackets: scenarios of TESTING.md."""

import array
import contextlib
import socket

import harness
import ports
from harness import INVALID_USAGE, MASTER_FAILED, PENDING_OPS, SUCCESS, TOO_FEW
from harness import check, equal, figure, now_us, say, within
from phases import wait_at_rest


def sum_all(peers, tag, count=100):
    """Reduces one sum on all peers, to which each contributes a different bit."""
    calls = [peer.start("reduce", tag, count, "i32", "sum", f"const:{1 << i}", "dump") for i, peer in enumerate(peers)]
    for peer, call in zip(peers, calls):
        result = call.wait(rc=SUCCESS)
        equal(numbers("i", result), [(1 << len(peers)) - 1] * count, f"sum over {len(peers)} on {peer.name}")
        equal(result["peers"], len(peers), f"world size on {peer.name}")
        check(result["intact"], f"input of {peer.name} was changed")


def numbers(letter, result):
    return array.array(letter, bytes.fromhex(result["result"])).tolist()


def attributes(peer):
    result = peer.do("attr")
    return result["world"], result["group"], result["groups"], result["largest"]


def join_two(run, **parameters):
    run.start_master(**parameters)
    return run.join(2)


def test_worlds_up_to_five(run):
    """[18] Peers join one after another, see the others and are seen; then they leave."""
    run.start_master()
    peers = []
    for world in range(1, 6):
        peers.append(run.join(1, peers))
        for peer in peers:
            equal(attributes(peer), (world, world, 1, world), f"attributes of {peer.name}")
        if world == 1:
            alone = peers[0].do("reduce", 1, 4, "f32", "sum", "const:1", rc=TOO_FEW)
            check(alone["words"], "words for TooFewPeers")
            peers[0].do("multi", 2, 1, 1, 4, "f32", "sum", "const:1", rc=TOO_FEW)
            equal(peers[0].do("pending")["pending"], False, "pending")
            peers[0].do("update")
        else:
            sum_all(peers, world)
    while len(peers) > 1:
        peers.pop(len(peers) // 2).quit()
        reduce_or_retry(peers)
    peers[0].do("reduce", 1, 4, "f32", "sum", "const:1", rc=TOO_FEW)
    equal(attributes(peers[0]), (1, 1, 1, 1), "attributes of the last")


def test_counts_of_now(run):
    """A peer that makes no calls sees departures only in the current counts. While the master does not answer these
    counts remain."""
    run.start_master()
    peers = run.join(3)

    def now(peer):
        result = peer.do("attr")
        return result["world_now"], result["group_now"]

    equal(now(peers[0]), (3, 3), "counts of now")
    peers[2].kill()
    harness.poll(lambda: now(peers[0]) == (2, 2), "the count of the two that live")
    equal(attributes(peers[0]), (3, 3, 1, 3), "counts as of the last call")
    run.master.stop()
    peers[1].kill()
    equal(now(peers[0]), (2, 2), "counts while the master is away")
    run.master.resume()
    harness.poll(lambda: now(peers[0]) == (1, 1), "the count of the last one")
    peers[0].do("update")
    equal(attributes(peers[0]), (1, 1, 1, 1), "counts after the call")


def reduce_or_retry(peers):
    """After a departure, the list with retry succeeds on all alike, or fails on all because there are too few peers."""
    calls = [peer.start("multi", 3, 2, 50, 16, "i64", "sum", "const:3") for peer in peers]
    results = [call.wait() for call in calls]
    equal({result["rc"] for result in results}, {SUCCESS if len(peers) > 1 else TOO_FEW}, "result of the retry")
    equal(len({result["digest"] for result in results}), 1, "different results")
    equal({result["peers"] for result in results}, {len(peers)}, "peers at the end")


def test_groups(run):
    """[19] Groups reduce independently; joint calls include all; an operation of one group does not wait for another.
    """
    run.start_master()
    peers = []
    for group in (0, 7, 7, 0, 4294967295):
        peers.append(run.join(1, peers, group))
    for peer, size in zip(peers, (2, 2, 2, 2, 1)):
        equal(attributes(peer), (5, size, 3, 2), f"attributes of {peer.name}")
    first = [peers[0], peers[3]]
    second = [peers[1], peers[2]]
    waiting = first[0].start("reduce", 1, 4, "i32", "sum", "const:5", "dump", "launched").begun()
    sum_all(second, 1)
    check(waiting.result is None, "a reduction of one group ended by that of another")
    first[1].do("reduce", 1, 4, "i32", "sum", "const:6")
    equal(numbers("i", waiting.wait(rc=SUCCESS)), [11] * 4, "sum of the first group")
    peers[4].do("reduce", 1, 4, "i32", "sum", "const:5", rc=TOO_FEW)
    peers[4].quit()
    for group in (first, second):
        reduce_or_retry(group)
    pending = [peer.start("pending") for peer in peers[:4]]
    equal([call.wait(rc=SUCCESS)["pending"] for call in pending], [False] * 4, "pending")
    equal(attributes(peers[0]), (4, 2, 2, 2), "attributes after the third group has gone")


def test_leave_and_come_back(run):
    """A communicator that left can be created again in the same process; the others continue."""
    a, b = join_two(run)
    for _ in range(3):
        sum_all([a, b], 1)
        b.do("destroy")
        b.create(run.address)
        run.admit(b, [a])
        equal(attributes(a), (2, 2, 1, 2), "attributes")
    b.do("destroy")
    b.create(run.address, 3)
    run.admit(b, [a])
    equal(attributes(b), (2, 1, 2, 1), "attributes in another group")


def test_old_interface(run):
    """[20] Communicators of the PCCL 1.0 interface, two in one process."""
    run.start_master()
    both = run.peer()
    both.do("create10", run.port, 4)
    both.do("create10", run.port, 4, slot=1)
    both.do("connect")
    connect = both.start("connect", slot=1)
    both.do("admit")
    connect.wait(rc=SUCCESS)
    calls = [both.start("reduce", 9, 4, "f64", "avg", f"const:{slot}", "dump", slot=slot) for slot in (0, 1)]
    for call in calls:
        equal(numbers("d", call.wait(rc=SUCCESS)), [0.5] * 4, "average")
    both.do("connect", rc=INVALID_USAGE)
    both.do("destroy", slot=1)
    both.do("destroy")


def test_pending_beside_a_reduction(run):
    """The pending query runs while another thread awaits; attributes do not change in the meantime."""
    a, b = join_two(run)
    waiting = a.start("reduce", 1, 4, "i32", "sum", "const:1", "launched").begun()
    newcomer = run.peer()
    newcomer.create(run.address)
    connect = newcomer.start("connect").begun()

    def pending():
        calls = [peer.start("pending") for peer in (a, b)]
        answers = [call.wait(rc=SUCCESS)["pending"] for call in calls]
        equal(answers[0], answers[1], "answers differ")
        return answers[0]

    harness.poll(pending, "the newcomer to be pending")
    equal(attributes(a), (2, 2, 1, 2), "a pending peer does not count")
    a.do("update", rc=PENDING_OPS)
    check(waiting.result is None, "the reduction has ended")
    b.do("reduce", 1, 4, "i32", "sum", "const:1")
    waiting.wait(rc=SUCCESS)
    check(connect.result is None, "the newcomer was admitted without an update")
    calls = [peer.start("update") for peer in (a, b)]
    for call in calls:
        equal(call.wait(rc=SUCCESS)["world"], 3, "world after the update")
    connect.wait(rc=SUCCESS)
    equal(attributes(newcomer), (3, 3, 1, 3), "attributes of the newcomer")


def test_one_joint_call(run):
    """A second joint call of any kind is refused while the first waits; its error names the first."""
    run.start_master()
    a, b = run.join(2, where_ms=20)
    for verb, name in (("pending", "pcclArePeersPending"), ("update", "pcclUpdateTopology")):
        first = a.start(verb)
        a.until_waiting()
        for other in ("pending", "update", "optimize"):
            refused = a.do(other, rc=INVALID_USAGE)
            check(f"another thread's {name}" in refused["words"], f"words: {refused['words']}")
        b.do(verb)
        first.wait(rc=SUCCESS)


def test_canonical_loop(run):
    """Peers loop while others join and leave: every step has equal bits everywhere, and its participants know it."""
    run.start_master()
    peers = [run.peer() for _ in range(4)]
    loops = []
    for bit, peer in enumerate(peers):
        peer.create(run.address)
        peer.do("connect")
        loops.append(peer.start("loop", bit, 8, 50, bit + 1))
        if bit > 0:
            harness.wait_until(lambda bit=bit: loops[bit].steps, f"a step of peer {bit}")
            world = bit + 1
            harness.wait_until(
                lambda world=world: loops[0].steps and loops[0].steps[-1]["world"] == world, f"a step of {world}"
            )
    last = loops[0].steps[-1]["step"]
    harness.wait_until(lambda: all(loop.steps[-1]["step"] > last + 20 for loop in loops), "20 more steps")
    peers[2].do("stop")
    loops[2].wait()
    peers[2].do("destroy")
    harness.wait_until(lambda: loops[0].steps[-1]["world"] == 3, "a step of the three that remain")
    last = max(loop.steps[-1]["step"] for loop in loops)
    harness.wait_until(
        lambda: all(loops[i].steps[-1]["step"] > last + 20 for i in (0, 1, 3)), "20 more steps of three peers"
    )
    by_step = {}
    for loop in loops:
        for step in loop.steps:
            check(step["right"], f"step {step} of {loop!r} is wrong")
            by_step.setdefault(step["step"], set()).add(step["digest"])
    wrong = [number for number, digests in by_step.items() if len(digests) > 1]
    check(not wrong, f"different bits in steps {wrong}")
    say(f"{len(by_step)} steps")


def test_32_joins(run):
    """32 peers join one after another."""
    run.environment["PCCL_LOG_LEVEL"] = "WARN"
    run.start_master()
    host = [run.peer() for _ in range(2)]  # 16 communicators each: 32 processes would wait for the processor
    places = [(host[i % 2], i // 2) for i in range(32)]
    for peer, slot in places:
        peer.create(run.address, slot=slot)
    total = 0
    start = now_us()
    for i, (peer, slot) in enumerate(places):
        connect = peer.start("connect", slot=slot)
        admits = [other.start("admit", slot=there) for other, there in places[:i]]
        joined = connect.wait(rc=SUCCESS)
        total += joined["us"]
        for call in admits:
            call.wait(rc=SUCCESS)
    say(f"32 joins: {(now_us() - start) / 1e6:.3f} s in all with the scripts")
    figure("seconds in pcclConnect", total / 1e6, "s")
    for peer, slot in places:
        equal(peer.do("attr", slot=slot)["world"], 32, "world")


def test_32_joins_at_once(run):
    """32 peers that connect concurrently are admitted by few updates. Four processes: a mesh of 16 in two would
    approach the usual limit of 1024 descriptors. The duration of the warm-up is not part of this test."""
    run.environment["PCCL_LOG_LEVEL"] = "WARN"
    run.start_master(warm_up_ms=60000)
    host = [run.peer() for _ in range(4)]
    places = [(host[i % 4], i // 4) for i in range(32)]
    for peer, slot in places:
        peer.create(run.address, slot=slot)
    first, rest = places[0], places[1:]
    first[0].do("connect", slot=first[1])
    connects = {place: place[0].start("connect", slot=place[1]) for place in rest}
    members = [first]
    start = now_us()
    updates = 0
    while len(members) < 32:
        calls = [peer.start("admit", slot=slot) for peer, slot in members]
        worlds = {call.wait(rc=SUCCESS)["world"] for call in calls}
        equal(len(worlds), 1, "different worlds")
        world = worlds.pop()
        updates += 1
        check(world > len(members), "an update after 'pending' admitted nobody")

        def admitted(world=world):
            ended = [call.result for call in connects.values() if call.result]
            for result in ended:
                equal(result["rc"], SUCCESS, f"connect: {result}")
            return len(ended) == world - 1

        harness.wait_until(admitted, f"the admitted, {world} in all")
        members += [place for place, call in connects.items() if call.result and place not in members]
    say(f"32 joins at once: {updates} updates, {(now_us() - start) / 1e6:.3f} s")


def test_200_cycles(run):
    """After joining and leaving, no descriptor and no memory remains, in master, member and newcomer."""
    run.environment["PCCL_LOG_LEVEL"] = "WARN"
    run.start_master()
    a = run.join()
    b = run.peer()

    def cycle(count):
        for _ in range(count):
            b.create(run.address)
            run.admit(b, [a])
            reduces = [peer.start("reduce", 1, 1024, "f32", "sum", "const:1") for peer in (a, b)]
            for call in reduces:
                call.wait(rc=SUCCESS)
            b.do("destroy")

    cycle(40)
    watched = [run.master, a, b]
    before = [(process.descriptors(), process.rss_kib()) for process in watched]
    cycle(200)
    for process, (descriptors, rss_kib) in zip(watched, before):
        harness.poll(
            lambda process=process, descriptors=descriptors: process.descriptors() <= descriptors + 3,
            f"the descriptors of {process.name} to be as before",
        )
        grown = process.rss_kib() - rss_kib
        say(f"{process.name}: {process.descriptors()} descriptors, {grown} KiB more")
        if harness.SLOW == 1:  # sanitizers keep freed memory
            within(grown, -100000, 1024, f"growth of {process.name} in KiB")


def test_waiting_costs_nothing(run):
    """Waiting does not spin."""
    run.start_master()
    a, b = run.join(2, where_ms=20)
    calls = [a.start("pending"), b.start("reduce", 1, 4, "i32", "sum", "const:1")]
    c = run.peer()
    c.create(run.address)
    connect = c.start("connect")
    a.until_waiting()
    run.id_of(c)  # its request has arrived
    wait_at_rest([run.master, a, b, c], 700)
    check(connect.result is None, "admitted without an update")
    a.do("reduce", 1, 4, "i32", "sum", "const:1")
    b.do("pending")
    for call in calls:
        call.wait(rc=SUCCESS)


def _addresses():
    """Returns addresses of this machine at which a master is reachable."""
    found = ["127.0.0.1", "localhost"]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
            found.append(probe.getsockname()[0])
        except OSError:
            pass
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
        found.append("[::1]")
    except OSError:
        pass
    return found


def test_addresses_mix(run):
    """Peers that reach the master by loopback, by a routable address, by IPv6 and by name form one run."""
    places = _addresses()
    say(f"addresses: {places}")
    port = ports.free_port()
    run.start_master(port, listen=f"0.0.0.0:{port}" + (f",[::1]:{port}" if "[::1]" in places else ""))
    peers = []
    for place in places + ["127.0.0.1:1,localhost"]:  # of two addresses only the last one works
        peer = run.peer()
        peer.create(f"{place}:{run.port}")
        run.admit(peer, peers)
        peers.append(peer)
    sum_all(peers, 1)


def two_ports(stack):
    """Opens two sockets that listen at consecutive ports; returns the first."""
    while True:
        first, second = stack.enter_context(socket.socket()), stack.enter_context(socket.socket())
        first.bind(("0.0.0.0", 0))
        port = first.getsockname()[1]
        try:
            second.bind(("0.0.0.0", port + 1))
        except (OSError, OverflowError):
            continue
        first.listen()
        second.listen()
        return port


def test_ports(run):
    """Ports in use are skipped; without a free port the error of connect names the ports and the parameters."""
    run.start_master()
    with contextlib.ExitStack() as stack:
        port = two_ports(stack)
        a = run.peer(port=port, port_range=50)
        a.create(run.address)
        a.do("connect")
        ports = a.listening_ports()
        equal(len(ports), 1, f"listening ports {ports}")
        within(ports[0], port + 2, port + 49, "port")
        for count, words in ((1, f":{port}: "), (2, f"all 2 ports from {port} to {port + 1} are in use")):
            b = run.peer(port=port, port_range=count)
            b.create(run.address)
            refused = b.do("connect", rc=MASTER_FAILED)["words"]
            check(words in refused and f"raise PCCL_PORT_RANGE ({count})" in refused, f"no remedy: {refused}")


def test_no_master(run):
    """An unreachable master is an error at once, with a reason, and connect may be called again."""
    run.port = ports.free_port()
    peer = run.peer()
    peer.create(run.address)
    for _ in range(2):
        refused = peer.do("connect", rc=MASTER_FAILED)
        check(str(run.port) in refused["words"], f"the address is named: {refused['words']}")
        figure("time of the refusal", refused["us"] / 1000, "ms")
    for verb in ("update", "pending", "attr"):
        peer.do(verb, rc=INVALID_USAGE)
    peer.do("reduce", 1, 1, "u8", "sum", "const:1", rc=INVALID_USAGE)
    run.start_master(run.port)
    peer.do("connect")
    equal(attributes(peer), (1, 1, 1, 1), "attributes")


def test_master_says_good_bye(run):
    """A master that is terminated notifies its peers: they are unconnected at once, with the reason."""
    run.start_master()
    a, b = run.join(2, where_ms=20)
    waiting = a.start("update")
    a.until_waiting()
    since_us = now_us()
    run.master.signal(15)
    result = waiting.wait(rc=harness.UPDATE_FAILED)
    check("shutting down" in result["words"], f"words: {result['words']}")
    figure("time until the peers know", (result["at"] - since_us) / 1000, "ms")
    equal(run.master.end(harness.DEADLINE), 0, "exit code of the master")
    run.master.killed = True
    harness.poll(lambda: b.do("attr", rc=None)["rc"] == INVALID_USAGE, "the other peer to know")


harness.main()
