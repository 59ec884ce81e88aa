"""Several connections to each neighbor."""

import harness
from harness import LARGE, LOST, SUCCESS
from harness import check, equal, say, wait_ms
from loops import all_right, more_steps, start_loops
from phases import PATIENT, agree, reduce_marked
from proxy import PROXIED, behind_proxy

POOL = 4
HANDSHAKE_MAX = 16384  # exceeds the bytes that a dialer sends before its data


def connections(peer, ports):
    """Returns the number of established connections of this process with one of these ports at either end."""
    inodes = peer.sockets()
    count = 0
    for name in ("tcp", "tcp6"):
        with open(f"/proc/{peer.pid}/net/{name}", encoding="ascii") as table:
            rows = [row.split() for row in table.read().splitlines()[1:]]
        for row in rows:
            ends = {int(row[i].rsplit(":", 1)[1], 16) for i in (1, 2)}
            count += row[3] == "01" and row[9] in inodes and bool(ends & set(ports))
    return count


def start(run, count, master=None, **parameters):
    """Members with POOL connections to each neighbor, each behind a proxy."""
    run.start_master(**{**PROXIED, "settle_ms": 1000, **(master or {})})  # a broken link waits for it, too
    peers, proxies = [], []
    for _ in range(count):
        peer, proxy = behind_proxy(run, connection_pool_size=POOL, dial_max_ms=50, **parameters)
        run.admit(peer, peers)
        peers.append(peer)
        proxies.append(proxy)
    return peers, proxies


def right(results, peers):
    for result in results:
        check(result["right"] and result["mask"] == (1 << len(peers)) - 1, f"{result}")


def whole(proxies):
    """Returns true if all connections are open. With few peers, all pairs have links, dialed by either side: on a busy
    machine one side may dial both directions."""
    return sum(proxy.pairs() for proxy in proxies) == POOL * len(proxies) * (len(proxies) - 1)


def reduce_over_all(peers, proxies):
    """Reduces until each connection, accepted by its proxy, has also carried data: until then its handshake may be
    under way, and the end of the others would end the link."""

    def all_have_carried():
        right(agree(reduce_marked(peers, 1, 400000), SUCCESS), peers)
        return all(proxy.least_sent() > HANDSHAKE_MAX for proxy in proxies if proxy.pairs())

    harness.poll(all_have_carried, "data on all connections")


def test_reductions(run):
    """Correct sums over four connections to each neighbor, all open, with two to four peers."""
    run.environment.update(PCCL_CONNECTION_POOL_SIZE=str(POOL), PCCL_LOCAL="tcp")  # the test counts their ports
    run.start_master(**PATIENT)
    peers = run.join(2)
    for world in (2, 3, 4):
        if world > 2:
            peers.append(run.join(1, peers))
        ports = [port for peer in peers for port in peer.listening_ports()]
        for turn in range(3):
            right(agree(reduce_marked(peers, turn, 400000), SUCCESS), peers)
        want = 2 * POOL * (world - 1)  # all pairs have links, dialed by either side
        for peer in peers:
            harness.poll(lambda peer=peer, want=want: connections(peer, ports) == want, f"{want} connections")
        lists = [peer.start("multi", 8, 3, 10, 40000, "f32", "sum", f"mark:{bit}") for bit, peer in enumerate(peers)]
        for result in agree(lists, SUCCESS):
            check(result["right"] and result["all"] == (1 << world) - 1, f"{result}")
    say(f"{connections(peers[0], ports)} connections of one of {len(peers)}")


def broken_while_reducing(run, count, reset):
    """One of the connections of a link breaks during an operation, which fails alike everywhere with its input intact,
    or succeeds; no peer is removed, the next operation works, and the connection is restored. In every other turn the
    network stalls, so that all used connections have data in flight; with two peers all are used, so it must fail."""
    peers, proxies = start(run, count)
    harness.poll(lambda: whole(proxies), "all connections")
    right(agree(reduce_marked(peers, 0, 400000), SUCCESS), peers)
    codes = []
    for turn in range(6):
        held = proxies if turn % 2 else []
        for proxy in held:
            proxy.hold(True)
        calls = reduce_marked(peers, 1, LARGE)
        wait_ms(5 + 10 * turn)
        used = [proxy for proxy in proxies if proxy.pairs()]
        used[turn % len(used)].cut_one(turn % POOL, reset)
        for proxy in held:
            proxy.hold(False)
        results = agree(calls, LOST, *([] if held and count == 2 else [SUCCESS]))
        codes.append(results[0]["rc"])
        if codes[-1] == SUCCESS:
            right(results, peers)
        right(agree(reduce_marked(peers, 1, 400000), SUCCESS), peers)
        harness.poll(lambda: whole(proxies), "all connections again")
    for peer in peers:
        equal(peer.do("attr")["world"], count, "world")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")
    say(f"{codes.count(LOST)} of {len(codes)} failed")


def test_one_is_closed(run):
    broken_while_reducing(run, 3, False)


def test_one_is_reset(run):
    broken_while_reducing(run, 3, True)


def test_one_of_two_is_closed(run):
    broken_while_reducing(run, 2, False)


def test_one_of_two_is_reset(run):
    broken_while_reducing(run, 2, True)


def gone_at_the_receiver(run):
    """Cuts each connection at its receiver only: its sender cannot see that it is gone. Yields before and after each
    cut the number of connections that the link's proxy has seen."""
    peers, proxies = start(run, 2, master={"settle_ms": 600000})
    harness.poll(lambda: whole(proxies), "all connections")
    reduce_over_all(peers, proxies)
    for slot in range(POOL):
        proxy = proxies[slot % 2]
        before = proxy.count
        proxy.cut_one(slot % POOL, only_outer=True)
        harness.poll(lambda: whole(proxies), "all connections again")
        reduce_over_all(peers, proxies)
        yield before, proxy.count
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")


def test_one_is_gone_at_its_receiver(run):
    """A connection is reported by its receiver, though the link has others, and dialed again."""
    for before, after in gone_at_the_receiver(run):
        check(after > before, "no connection was dialed")


def test_only_the_gone_one_is_dialed(run):
    """While one connection of a link is dialed again, the others remain."""
    for before, after in gone_at_the_receiver(run):
        equal(after, before + 1, "connections that were dialed")


def test_one_after_another_under_loops(run):
    """Loops with retry while single connections break repeatedly: every sum is correct, no peer is removed."""
    peers, proxies = start(run, 3)
    harness.poll(lambda: whole(proxies), "all connections")
    loops = start_loops(peers, in_flight=0, count=40000)
    for turn in range(12):
        more_steps(loops, 2, world=3)
        used = [proxy for proxy in proxies if proxy.pairs()]
        used[turn % len(used)].cut_one(0, turn % 2 == 0)
    more_steps(loops, 5, world=3)
    all_right(loops)
    harness.poll(lambda: whole(proxies), "all connections again")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")
    say(f"{sum(len(loop.failures) for loop in loops)} failures in {len(loops[0].steps)} steps")


def test_all_break(run):
    """All connections of a link break at once, during loops: it is dialed again, no peer is removed."""
    peers, proxies = start(run, 3)
    loops = start_loops(peers, in_flight=0, count=40000)
    for proxy in proxies * 2:
        more_steps(loops, 2, world=3)
        proxy.cut(reset=True)
    more_steps(loops, 5, world=3)
    all_right(loops)
    harness.poll(lambda: whole(proxies), "all connections again")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was removed")


harness.main()
