"""The use of the members' time, in runs in which the truth is known: these tests measure bounds of it."""

import harness
from harness import SUCCESS, check, equal, now_us, poll, wait_ms
from phases import RESTARTED
from web import ask, get, start, status, values

SMALL = ("reduce", 1, 1024, "f32", "sum", "const:1")
LARGE = ("reduce", 2, 1 << 20, "f32", "sum", "const:1")
HELD_MS = 700
USES = ("computing", "waiting", "moving", "lost", "joint")


def hold(peers, operation):
    """Starts an operation at these peers, and lets them wait for the others. Returns the calls, and the bounds of the
    time for which each of them has waited when this function returns, in milliseconds."""
    begin_us = now_us()
    calls = [peer.start(*operation) for peer in peers]
    for peer in peers:
        peer.until_waiting()
    known_us = now_us()
    wait_ms(HELD_MS)
    return calls, lambda: (now_us() - known_us) / 1000, lambda: (now_us() - begin_us) / 1000


def reported(run, **least):
    """Waits until the run's sums have at least these values, and returns the status."""

    def found():
        now = status(run)
        whole = now["time"]["whole_ms"]
        return now if all(whole[use] >= value for use, value in least.items()) else None

    return poll(found, f"these times: {least}")


def late(run, operation):
    start(run)
    peers = run.join(3, where_ms=50)
    begin_us = now_us()
    calls, least, most = hold(peers[:2], operation)
    least_ms = least()
    peers[2].do(*operation)
    most_ms = most()
    for call in calls:
        call.wait(rc=SUCCESS)
    now = reported(run, waiting=2 * least_ms - 1, computing=least_ms - 1)
    check(now["time"]["whole_ms"]["waiting"] <= 2 * most_ms + 1, f"{now['time']}, waited at most {most_ms} ms")
    equal(now["time"]["whole_ms"]["lost"], 0, "lost")
    check(now["time"]["recent_ms"]["waiting"] > 0, f"recently: {now['time']}")
    names = [run.id_of(peer) for peer in peers]
    check(now["time"]["waited_for"][0]["peer"].startswith(names[2]), f"waited for: {now['time']}, peers {names}")
    equal(len(now["time"]["waited_for"]), 1, "members for which others waited")
    by_name = {peer["id"][:8]: peer for peer in now["peers"]}
    early, last = by_name[names[0]], by_name[names[2]]
    check(early["waits_for"].startswith(names[2]), f"the first one: {early}")
    equal(last["waits_for"], None, "the last one waits")
    for peer in now["peers"]:
        for shares in peer["shares"], peer["shares_whole"]:
            check(98 <= sum(shares) <= 102, f"shares: {peer}")
    check(early["shares"][USES.index("waiting")] >= 1, f"the first one: {early}")
    equal(last["shares"][USES.index("waiting")], 0, "waiting of the last one")
    # Three programs have existed since the first of them was admitted.
    passed_ms = (now_us() - begin_us) / 1000 + 1000 * harness.DEADLINE
    check(sum(now["time"]["whole_ms"].values()) <= 3 * passed_ms, f"{now['time']}")
    code, out, _ = ask(f"127.0.0.1:{run.http}")
    equal(code, 0, "status")
    check(f"waiting (most for peer {names[2]}" in out and "% computing" in out, out)
    found = values(get(run, "/metrics"))
    check(found['pccl_member_seconds_total{use="waiting"}'] * 1000 >= 2 * least_ms - 1, f"{found}")


def test_late_tiny(run):
    """Two members wait for a third one, which computes, in an operation through the master."""
    late(run, SMALL)


def test_late_bulk(run):
    """The same with data that moves between the members."""
    late(run, LARGE)


def test_lost(run):
    """The wait for an operation that is aborted is lost, for each member that waited. A restarted master knows the
    losses of the members before, but begins the sums of the run again."""
    start(run, **RESTARTED)
    peers = run.join(3, where_ms=50)
    calls, least, most = hold(peers[:2], LARGE)
    least_ms = least()
    peers[0].do("abort")
    for call in calls:
        call.wait()
    most_ms = most()
    now = reported(run, lost=2 * least_ms - 1)
    check(now["time"]["whole_ms"]["lost"] <= 2 * most_ms + 1, f"{now['time']}, lost at most {most_ms} ms")
    equal(now["time"]["whole_ms"]["waiting"], 0, "waiting")
    run.master.kill()
    start(run, port=run.port, **RESTARTED)
    calls = [peer.start(*SMALL) for peer in peers]
    for call in calls:
        call.wait()

    def known():
        now = status(run)
        shares = [peer["shares_whole"] for peer in now["peers"]]
        return now if len(shares) == 3 and all(shares) else None

    now = poll(known, "all members' figures")
    equal(now["time"]["whole_ms"]["lost"], 0, "lost since the restart")
    lost = sorted(peer["shares_whole"][USES.index("lost")] for peer in now["peers"])
    check(lost[0] == 0 and lost[1] >= 1, f"lost: {lost}")


harness.main()
