"""Connections that break, stand still or trickle, while everybody is alive."""

import harness
from harness import INVALID_USAGE, LOST, SLOW, SUCCESS
from harness import check, equal, now_us, say, within
from proxy import Proxy

SILENCE_MS = int(1500 * SLOW)


def start(run, count=3, **peers):
    """Members that reach their master through proxies, one each."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(silence_ms=SILENCE_MS, heartbeat_ms=SILENCE_MS // 5)
    members, proxies = [], []
    for _ in range(count):
        proxy = Proxy(run.port)
        peer = run.peer(dial_max_ms=50, **peers)
        peer.create(f"127.0.0.1:{proxy.port}")
        run.admit(peer, members)
        members.append(peer)
        proxies.append(proxy)
    return members, proxies


def start_loops(members, tags, count):
    loops = [peer.start("loop", bit, tags, count, 2) for bit, peer in enumerate(members)]
    harness.wait_until(lambda: all(loop.steps for loop in loops), "the first steps")
    return loops


def more_steps(loops, steps):
    last = max(loop.steps[-1]["step"] for loop in loops)
    harness.wait_until(lambda: all(loop.steps[-1]["step"] >= last + steps for loop in loops), f"{steps} more steps")


def all_right(loops):
    seen = {}
    for loop in loops:
        check(loop.result is None, f"{loop!r} has ended: {loop.result}")
        check(not loop.failures, f"failures of {loop!r}: {loop.failures}")
        for step in loop.steps:
            check(step["right"], f"step {step} is wrong")
            equal(step["world"], len(loops), "world")
            seen.setdefault(step["step"], set()).add(step["digest"])
    check(all(len(digests) == 1 for digests in seen.values()), "different bits in a step")
    return len(seen)


def test_connections_break(run):
    """Connections to the master break, by FIN and RST, again and again under loops: nothing fails, nobody goes."""
    members, proxies = start(run)
    loops = [peer.start("loop", bit, 4, 100, 0) for bit, peer in enumerate(members)]  # 0: failures would be reported
    harness.wait_until(lambda: all(loop.steps for loop in loops), "the first steps")
    for turn in range(15):
        for proxy in proxies[: 1 + turn % 3]:
            proxy.cut(reset=turn % 2 == 1)
        more_steps(loops, 3)
    steps = all_right(loops)
    times = [step["at"] for step in loops[0].steps]
    longest = max(b - a for a, b in zip(times, times[1:])) / 1000
    say(f"{steps} steps over {sum(proxy.count for proxy in proxies)} connections; longest pause {longest:.0f} ms")


def test_connection_breaks_in_each_call(run):
    """It breaks while the peer waits in a vote, a query, a reduction: the call goes on where it was."""
    members, proxies = start(run)
    for words in (["update"], ["pending"], ["reduce", 5, 100, "f32", "sum", "rand:1", "inplace"]):
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
    """The streams arrive one byte at a time, in both directions."""
    members, proxies = start(run)
    for proxy in proxies:
        proxy.chunk = 1
    loops = start_loops(members, 2, 10)
    more_steps(loops, 5)
    all_right(loops)


def test_silent_connection_in_time(run):
    """A connection stands still for less than the silence limit: everybody waits, and nothing fails."""
    members, proxies = start(run)
    proxies[0].hold(True)
    calls = [peer.start("reduce", 5, 100, "f32", "sum", "rand:1", "inplace") for peer in members]
    members[1].until_waiting()
    proxies[0].hold(False)
    for call in calls:
        call.wait(rc=SUCCESS)


def test_silent_connection(run):
    """A connection stands still for longer: the peer is removed, the others go on; it learns why and comes back."""
    members, proxies = start(run)
    victim, *others = members
    start_us = now_us()
    proxies[0].hold(True)
    calls = [peer.start("reduce", 5, 100, "f32", "sum", "rand:1", "inplace") for peer in members]
    for call in calls[1:]:
        result = call.wait(rc=LOST)
        check(result["intact"], "input changed")
        within((result["at"] - start_us) / 1000, 0, SILENCE_MS + 2000 * SLOW, "ms until the others knew")
    for call in [peer.start("multi", 3, 2, 10, 100, "f32", "sum", "rand:1") for peer in others]:
        equal(call.wait(rc=SUCCESS)["peers"], 2, "peers")
    proxies[0].hold(False)
    result = calls[0].wait(rc=LOST)
    check(result["intact"] and result["words"], f"result of the victim: {result}")
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    run.admit(victim, others)
    for call in [peer.start("reduce", 5, 100, "f32", "sum", "rand:1") for peer in members]:
        call.wait(rc=SUCCESS)


def test_half_open(run):
    """A connection vanishes without a word to the master; the peer dials anew: the newer connection wins."""
    members, proxies = start(run)
    proxies[0].cut(only_inner=True)
    calls = [peer.start("reduce", 5, 100, "f32", "sum", "rand:1", "inplace") for peer in members]
    for call in calls:
        call.wait(rc=SUCCESS)
    equal(proxies[0].count, 2, "connections of the peer")


harness.main()
