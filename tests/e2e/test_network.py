"""Connections that break, stall or are very slow, while all processes live."""

import harness
from harness import INVALID_USAGE, LARGE, LOST, SUCCESS
from harness import check, equal, now_us, say, wait_ms
from loops import SMALL, all_right, in_both_sizes, longest_pause_ms, more_steps, start_loops
from phases import PATIENT, STRICT, agree, knew, reduce_marked
from proxy import PROXIED, join_behind_proxies, join_over_proxies


def start(run, limits=None):
    """Starts three members that reach their master through separate proxies."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**(limits or PATIENT))
    return join_over_proxies(run)


def unbroken(loops):
    """Checks that every step is correct and none has failed. Returns their number."""
    all_right(loops)
    for loop in loops:
        check(loop.result is None, f"{loop!r} has ended: {loop.result}")
        check(not loop.failures, f"failures of {loop!r}: {loop.failures}")
        equal({step["world"] for step in loop.steps}, {len(loops)}, "worlds of the steps")
    return len(loops[0].steps)


@in_both_sizes
def connections_break(run, count):
    """Connections to the master break repeatedly, by FIN and RST, during loops: no step fails, and no peer is removed.
    """
    members, proxies = start(run)
    loops = start_loops(members, in_flight=0, count=count)  # 0: failures would be reported
    for turn in range(15):
        for proxy in proxies[: 1 + turn % 3]:
            proxy.cut(reset=turn % 2 == 1)
        more_steps(loops, 3)
    connections = sum(proxy.count for proxy in proxies)
    say(f"{unbroken(loops)} steps over {connections} connections; longest pause {longest_pause_ms(loops):.0f} ms")


@in_both_sizes
def connection_breaks_in_each_call(run, count):
    """The connection breaks while the peer waits in a vote, a query, a reduction: the call continues."""
    members, proxies = start(run)
    for words in (["update"], ["pending"], ["reduce", 5, count, "f32", "sum", "rand:1", "inplace"]):
        for waiting in ([0], [0, 1], [2]):
            calls = [members[i].start(*words) for i in waiting]
            for i in waiting:
                members[i].until_waiting()
            before = [proxies[i].count for i in waiting]
            for i in waiting:
                proxies[i].cut(reset=True)
            for i, count in zip(waiting, before):
                harness.poll(lambda i=i, count=count: proxies[i].count > count, "the peer to come back")
            calls += [members[i].start(*words) for i in range(3) if i not in waiting]
            for call in calls:
                call.wait(rc=SUCCESS)


def test_single_bytes(run):
    """The streams to and from the master arrive one byte at a time."""
    members, proxies = start(run)
    for proxy in proxies:
        proxy.chunk = 1
    loops = start_loops(members, tags=2, count=10, in_flight=0)
    more_steps(loops, 5)
    unbroken(loops)


def test_single_bytes_bulk(run):
    """The same for streams from peer to peer, so that their handshakes take long."""
    run.start_master(**PROXIED)
    members, proxies = join_behind_proxies(run, 3, connect_timeout_ms=60000)
    for proxy in proxies:
        proxy.chunk = 1
    loops = start_loops(members, tags=2, count=2000, in_flight=0)
    more_steps(loops, 3)
    unbroken(loops)


@in_both_sizes
def silent_connection_in_time(run, count):
    """A connection stalls for less than the silence limit: all wait, and no call fails."""
    members, proxies = start(run)
    proxies[0].hold(True)
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:1", "inplace") for peer in members]
    members[1].until_waiting()
    proxies[0].hold(False)
    for call in calls:
        call.wait(rc=SUCCESS)


@in_both_sizes
def silent_connection(run, count):
    """A connection stalls for longer: the peer is removed, the others continue; it gets the reason and rejoins. Data
    that the others have directly from the peer is complete and succeeds; data through the master does not include it.
    """
    members, proxies = start(run, STRICT)
    victim, *others = members
    start_us = now_us()
    proxies[0].hold(True)
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:1", "inplace") for peer in members]
    knew(agree(calls[1:], LOST if count == SMALL else SUCCESS), start_us, "the others knew")
    for call in [peer.start("multi", 3, 2, 10, count, "f32", "sum", "rand:1") for peer in others]:
        equal(call.wait(rc=SUCCESS)["peers"], 2, "peers")
    proxies[0].hold(False)
    result = calls[0].wait(rc=LOST)
    check(result["intact"] and result["words"], f"result of the victim: {result}")
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    run.admit(victim, others)
    for call in [peer.start("reduce", 5, count, "f32", "sum", "rand:1") for peer in members]:
        call.wait(rc=SUCCESS)


@in_both_sizes
def half_open(run, count):
    """A connection ends without notice to the master; the peer dials again: the newer connection replaces the older
    one."""
    members, proxies = start(run)
    proxies[0].cut(only_inner=True)
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:1", "inplace") for peer in members]
    for call in calls:
        call.wait(rc=SUCCESS)
    equal(proxies[0].count, 2, "connections of the peer")


def break_at_receivers(proxies):
    """Breaks links at the receiver's end only, and acknowledges further bytes for that end. Waits until each
    sender dials again."""
    before = [proxy.count for proxy in proxies]
    for proxy in proxies:
        proxy.cut(only_outer=True)
    for proxy, count in zip(proxies, before):
        harness.poll(
            lambda proxy=proxy, count=count: proxy.count >= count + 2 and proxy.pairs() == 2,
            "both links to be open again",
        )


def test_half_reset_links(run):
    """The sender cannot see that the receiver's end is gone, and learns it over the master. So the next operation
    of all, and the next send, are right."""
    run.start_master(**PROXIED)
    members, proxies = join_behind_proxies(run, 3, dial_max_ms=50)
    for count in range(6):
        agree(reduce_marked(members, 1, 400000), SUCCESS)
        break_at_receivers(proxies[: 1 + count % 3])
    for source, destination in ((0, 1), (2, 1)):
        calls = [members[source].start("send", destination, 1, 100000, 5),
                 members[destination].start("recv", source, 1, 100000)]
        for call in calls:
            call.wait(rc=SUCCESS)
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")


def test_half_reset_links_in_mid_transfer(run):
    """Such links may fail the operation under way, alike for all, and not the next one."""
    run.start_master(**PROXIED)
    members, proxies = join_behind_proxies(run, 3, dial_max_ms=50)
    codes = []
    for turn in range(6):
        calls = reduce_marked(members, 1, LARGE)
        wait_ms(5 + 10 * turn)
        break_at_receivers(proxies[turn % 3 : turn % 3 + 1])
        codes.append(agree(calls, LOST, SUCCESS)[0]["rc"])
        agree(reduce_marked(members, 1, 400000), SUCCESS)
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")
    say(f"{codes.count(LOST)} of {len(codes)} failed")


def test_here(run):
    """Peers on one host connect without TCP, unless one of them requires TCP."""
    run.start_master(**PATIENT)
    peers = []
    for local in ("auto", "auto", "tcp"):
        peer = run.peer(local=local)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    calls = [peer.start("reduce", 5, 400000, "f32", "sum", "rand:1") for peer in peers]
    for call in calls:
        call.wait(rc=SUCCESS)
    equal([len(peer.local_sockets()) for peer in peers], [2, 2, 0], "sockets for peers on this host")


def test_slow_data_is_not_stuck(run):
    """Two awaits of two operations whose data stalls are not contradictory calls: they are not ended."""
    run.start_master(**PROXIED)
    peers, proxies = join_behind_proxies(run, 2, where_ms=20, stuck_ms=200)
    for proxy in proxies:
        proxy.hold(True)
    for tag in (1, 2):
        for peer in peers:
            peer.do("launch", tag, 400000, "f32", "sum", "rand:1")
    calls = [peers[0].start("await", 1), peers[1].start("await", 2)]
    wait_ms(600)
    check(not any(call.result for call in calls), "both wait")
    check(not any("can never meet" in text for peer in peers for _, text in peer.logs), "no false alarm")
    for proxy in proxies:
        proxy.hold(False)
    for call in calls:
        call.wait(rc=SUCCESS)


harness.main()
