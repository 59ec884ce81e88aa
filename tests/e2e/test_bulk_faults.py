"""Lost peers, stops and cut cables during bulk reductions from peer to peer."""

import harness
import phases
from harness import INVALID_USAGE, LARGE, LOST, SUCCESS, TOO_FEW
from harness import check, now_us, say, wait_ms
from loops import all_right, longest_pause_ms, more_steps, start_loops
from namespaces import Network, need_root
from phases import PATIENT, RESTARTED, STRICT, agree, go_on, knew, members, named, until_at_rest, wait_at_rest
from proxy import PROXIED, Proxy, join_behind_proxies

MIB = 1 << 20
phases.COUNT = 300000  # so that the phases use bulk operations


def phase_named(kind, phase):
    return lambda run: kind(run, phase)


for _phase in ("launched_first", "launched_last", "done", "many", "list"):
    globals()[f"test_kill_{_phase}"] = phase_named(phases.kill_in, _phase)
    globals()[f"test_stop_{_phase}"] = phase_named(phases.stop_in, _phase)


def reduce(peers, tag, count, *options, first_bit=0):
    return [
        peer.start("reduce", tag, count, "f32", "sum", f"mark:{first_bit + bit}", "launched", *options)
        for bit, peer in enumerate(peers)
    ]


def right(calls, mask):
    for result in agree(calls, SUCCESS):
        check(result["right"] and result["mask"] == mask, f"{result}")


def updated(peers):
    """Updates, so that all know the lost peers."""
    agree([peer.start("update") for peer in peers], SUCCESS)


def in_mid_transfer(peers, proxies):
    """Starts a large operation in which all wait for data that the proxies hold."""
    for proxy in proxies:
        proxy.room = MIB
    calls = reduce(peers, 1, LARGE, "inplace")
    for call in calls:
        call.begun()
    harness.poll(lambda: all(proxy.is_held() for proxy in proxies), "the middle of the transfer")
    return calls


# ---- kill -9


def test_kill_in_mid_transfer(run):
    """A few milliseconds after the start of a large operation, a little later each time: all agree, and inputs are
    intact."""
    run.start_master(**PATIENT)
    peers = run.join(4)
    codes = []
    for turn in range(6):
        before = members(peers[0])
        calls = reduce(peers, 1, LARGE, "inplace")
        for call in calls:
            call.begun()
        wait_ms(5 + 25 * turn)
        victim, *survivors = peers
        since_us = victim.kill()
        results = agree(calls[1:], LOST, SUCCESS)
        if results[0]["rc"] == SUCCESS:
            check(all(result["right"] for result in results), f"{results}")
        else:
            knew(results, since_us)
            named(results, before - members(survivors[0]))
        codes.append(results[0]["rc"])
        updated(survivors)
        right(reduce(survivors, 1, 100000, "inplace"), 7)
        peers = survivors + [run.join(1, survivors)]
    say(f"{codes.count(LOST)} of {len(codes)} failed")


def test_kill_while_another_cannot_finish(run):
    """One peer is suspended during the operation, so that no peer can finish; another one is killed: all fail alike,
    including the suspended one."""
    run.start_master(**PROXIED)
    (still,), proxies = join_behind_proxies(run, 1)
    victim, *others = run.join(3, [still])
    before = members(still)
    calls = in_mid_transfer([still, victim] + others, proxies)
    still.stop()
    since_us = victim.kill()
    knew([call.wait(rc=LOST) for call in calls[2:]], since_us, "those who run knew")
    still.resume()
    proxies[0].hold(False)
    named(agree([calls[0]] + calls[2:], LOST), before - members(still))
    right(reduce([still] + others, 2, 100000), 7)
    go_on(run, [still] + others)


def test_late_abort(run):
    """All data has arrived and all results are complete; then a peer is killed while the report of one survivor is
    still in flight. So the operation fails for all alike, and inputs in place are restored."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**PATIENT)
    proxy = Proxy(run.port)
    peers = []
    for i in range(4):
        peer = run.peer(dial_max_ms=50)
        peer.create(f"127.0.0.1:{proxy.port}" if i == 1 else run.address)
        run.admit(peer, peers)
        peers.append(peer)
    victim, unheard, *others = peers
    for options in (["inplace"], []):
        peers = [victim, unheard] + others
        before = members(unheard)
        proxy.hold(True)
        calls = reduce(peers, 5, 300000, *options)
        for peer in others + [victim]:
            peer.until_waiting(part="tag 5 waits")
        check(all(call.result is None for call in calls), "an operation has ended without the word of all")
        sent = victim.kill()
        results = agree(calls[2:], LOST)
        knew(results, sent)
        proxy.hold(False)
        named(agree(calls[1:], LOST), before - members(unheard))
        survivors = [unheard] + others
        right(reduce(survivors, 5, 300000, *options), 7)
        victim = run.join(1, survivors)


def test_all_complete(run):
    """All peers have all data, the master is suspended, and a peer is killed: the operation, which the survivors have
    finished, succeeds."""
    run.start_master(**PATIENT)
    victim, *others = peers = run.join(3)
    run.master.stop()
    calls = reduce(peers, 5, 300000, "inplace")
    for call in calls:
        call.begun()
    until_at_rest(peers)  # all transfers have ended
    victim.kill()
    run.master.resume()
    right(calls[1:], 7)
    go_on(run, others)


def test_list_with_one_in_flight(run):
    """A list with one operation in flight, and a killed peer: every entry succeeds afterward."""
    run.start_master(**PATIENT)
    victim, *others = peers = run.join(3)
    calls = [
        peer.start("multi", 60, 1, 10, 500000, "f32", "sum", f"mark:{bit}", "inplace") for bit, peer in enumerate(peers)
    ]
    for call in calls:
        call.begun()
    wait_ms(30)
    victim.kill()
    for result in agree(calls[1:], SUCCESS):
        check(result["right"] and result["all"] in (6, 7), f"{result}")  # 7: it had ended before the kill
    go_on(run, others)


def test_all_but_one(run):
    """The last peer gets the error that it is alone."""
    run.start_master(**PATIENT)
    *victims, last = peers = run.join(3)
    calls = reduce(peers, 1, LARGE, "inplace")
    for call in calls:
        call.begun()
    for victim in victims:
        victim.kill()
    check(calls[-1].wait()["rc"] in (LOST, SUCCESS), f"{calls[-1].result}")
    check(calls[-1].result["intact"], "input changed")
    updated([last])
    last.do("reduce", 1, LARGE, "f32", "sum", "mark:0", rc=TOO_FEW)


def test_group_is_left_alone(run):
    """A killed peer in one group does not affect a transfer of another."""
    run.start_master(**PATIENT)
    loud = run.join(3)
    quiet = []
    for _ in range(2):
        peer = run.peer()
        peer.create(run.address, group=7)
        run.admit(peer, loud + quiet)
        quiet.append(peer)
    for _ in range(2):
        calls = reduce(quiet, 5, LARGE, "inplace")
        broken = reduce(loud, 5, LARGE, "inplace")
        for call in broken:
            call.begun()
        victim, *loud = loud
        victim.kill()
        agree(broken[1:], LOST, SUCCESS)
        right(calls, 3)
        updated(loud + quiet)
        if len(loud) > 1:
            right(reduce(loud, 6, 100000), 3)


def test_churn(run):
    """Loops of lists while peers are killed and join; the numbers in flight differ."""
    run.start_master(**PATIENT)
    peers = run.join(4)
    loops = start_loops(peers, in_flight=1, count=20000)
    for turn in range(6):
        victim = loops.pop(turn % len(loops))
        victim.peer.kill()
        more_steps(loops, 5, world=3)
        newcomer = run.peer()
        newcomer.create(run.address)
        newcomer.do("connect")
        loops.append(newcomer.start("loop", 10 + turn, 4, 20000, 1 + turn % 4))
        harness.wait_until(lambda: loops[-1].steps, "the newcomer's first step")
        more_steps(loops, 5, world=4)
    all_right(loops)


# ---- SIGSTOP, cables, masters


def test_stopped(run):
    """A peer is stopped during the operation: the others get an error after the silence limit, and do not spin until
    then."""
    run.start_master(**{**PROXIED, **STRICT})
    peers, proxies = join_behind_proxies(run, 3)
    victim, *others = peers
    calls = in_mid_transfer(peers, proxies)
    since_us = victim.stop()
    wait_at_rest(others, 1000)
    knew(agree(calls[1:], LOST), since_us)
    for proxy in proxies:
        proxy.hold(False)
    right(reduce(others, 1, 300000, "inplace"), 3)
    victim.resume()
    result = calls[0].wait()
    check(result["rc"] == LOST and result["intact"], f"{result}")
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    run.admit(victim, others)
    right(reduce([victim] + others, 1, 300000), 7)


def test_stopped_in_time(run):
    """A peer is stopped for less than the silence limit: the others wait, and no call fails."""
    run.start_master(**PATIENT)
    victim, *others = peers = run.join(3)
    for _ in range(3):
        calls = reduce(peers, 1, LARGE, "inplace")
        for call in calls:
            call.begun()
        victim.stop()
        wait_ms(200)
        victim.resume()
        right(calls, 7)
    check(others, "others")


def hosts(run, count, limits, link_ms):
    """Starts members on separate hosts; the master is on the first one."""
    network = Network(count + 1)
    run.at_exit.append(network.remove)
    network.build()
    run.host = network.address(0)
    run.start_master(48148, prefix=network.prefix(0), **limits)
    peers = []
    for i in range(count):
        peer = run.peer(
            prefix=network.prefix(1 + i), link_silence_ms=link_ms, connect_timeout_ms=link_ms, dial_max_ms=100
        )
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    return network, peers


def test_unplugged(run):
    """A host is unplugged during a transfer: its peer is removed after the silence limit, the others continue; it
    rejoins."""
    need_root()
    network, peers = hosts(run, 4, STRICT, 2000)
    calls = reduce(peers, 1, LARGE, "inplace")
    for call in calls:
        call.begun()
    wait_ms(20)
    since_us = now_us()
    network.unplug(1)
    results = agree(calls[1:], LOST, SUCCESS)
    say(f"{results[0]['rc']}: {results[0].get('words', '')}")
    knew(results, since_us)
    updated(peers[1:])
    right(reduce(peers[1:], 2, 300000), 7)
    network.plug(1)
    check(calls[0].wait()["intact"], "input changed")
    harness.poll(lambda: peers[0].do("attr", rc=None)["rc"] == INVALID_USAGE, "it to know that it is out")
    admits = [peer.start("admit") for peer in peers[1:]]
    harness.poll(lambda: peers[0].do("connect", rc=None)["rc"] == SUCCESS, "the network to be whole, and it to be in")
    agree(admits, SUCCESS)
    right(reduce(peers, 2, 300000), 15)


def test_link_cut(run):
    """Two neighbors of four lose their link during bulk loops: the ring changes, and no peer is removed."""
    need_root()
    network, peers = hosts(run, 4, PATIENT, 5000)
    loops = start_loops(peers, count=20000)
    network.cut(2, 3)
    run.master.wait_line("is avoided")
    more_steps(loops, 5, world=4)
    all_right(loops)
    say(f"longest pause {longest_pause_ms(loops):.0f} ms")


def test_master_restart(run):
    """The master is killed during bulk operations, and restarted: no call fails without need, and all agree."""
    run.start_master(**RESTARTED)
    peers = run.join(3, dial_max_ms=50)
    for turn in range(3):
        calls = reduce(peers, 1, LARGE, "inplace")
        for call in calls:
            call.begun()
        wait_ms(10 + 60 * turn)
        run.master.kill()
        run.start_master(run.port, **RESTARTED)
        right(calls, 7)
    loops = start_loops(peers, count=20000)
    for _ in range(3):
        run.master.kill()
        run.start_master(run.port, **RESTARTED)
        more_steps(loops, 5, world=3)
    all_right(loops)


# ---- the examples


def hello(run, name):
    process = harness.Process(name, [harness.executable("hello"), run.address, "60"], dict(run.environment))
    return run._add(process)


def test_hello_c(run):
    """Three processes of the example, one killed, one late: every printed sum is the number of peers, and all see all
    changes."""
    run.start_master()
    processes = [hello(run, f"hello{i}") for i in range(3)]

    def sees(process, world):
        last = [text for stream, text in process.lines if stream == "out" and " peers, sum " in text]
        return last and f": {world} peers, sum {world}" in last[-1]

    def all_see(world):
        harness.wait_until(lambda: all(sees(process, world) for process in processes), f"sums of {world}")

    all_see(3)
    processes.pop(1).kill()
    all_see(2)
    processes.append(hello(run, "late"))
    all_see(3)
    for process in processes:
        sums = [text.split(": ")[1] for _, text in process.lines if " peers, sum " in text]
        check(all(text.split()[0] == text.split()[-1] for text in sums), f"sums: {sums}")
        process.kill()


harness.main()
