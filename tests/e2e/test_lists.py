"""Lists of operations of all kinds, with processes of which one is killed, a master that is restarted, and newcomers:
all remaining peers have the same operations in the end, with every element correct, or the same error and intact
inputs."""

import harness
import phases
from harness import CHANGED, LARGE, LOST, SUCCESS
from harness import check, equal, say, wait_ms
from mixed import churn
from phases import PATIENT, STRICT, agree, members, named, restart

OPS, BULK = 8, 50000  # elements of 4 bytes for each member


def run_list(peers, seed, count=BULK, most=None, options=()):
    """Starts the lists. Number in flight: 1 at the first peer, more at the next ones; or `most` at all."""
    words = [[most or 1 + 3 * at, *options] for at in range(len(peers))]
    calls = [peer.start("run", seed, OPS, count, *given) for peer, given in zip(peers, words)]
    for call in calls:
        call.begun()
    return calls


def right(calls):
    """Checks that all have succeeded, with the same participants in each operation. Returns the numbers of
    participants."""
    results = agree(calls, SUCCESS)
    for result in results:
        check(result["right"] and result["intact"], f"{result}")
    equal(len({str(result["ops"]) for result in results}), 1, f"different operations: {results}")
    return [world for _, world, _ in results[0]["ops"]]


def ended(calls, code):
    for result in agree(calls, code):
        check(result["right"], f"{result}")
        yield result


def unused(peers, values, elements=BULK):
    """Runs lists whose entries hold these values in members that their kind does not use."""
    calls = [peer.start("unused", value, elements) for peer, value in zip(peers, values)]
    for result in agree(calls, SUCCESS):
        check(result["right"] and result["done"] == 13, f"{result}")


def test_unused_members(run):
    """Members that a kind of entry does not use may have any value, through the master and from peer to peer."""
    run.start_master(**PATIENT)
    peers = run.join(3)
    for elements in (10, BULK):
        for values in ((0, 0, 0), (1, 1, 1), (1, 0, 0), (99, 99, 99), (0, 99, 0), (5, 0, 77)):
            unused(peers, values, elements)


# ---- descriptions and deadlines


def repeated(peers):
    """Starts a list at the first peer, whose entry 0 is repeated as the last two peers are killed. Returns the call."""
    (call,) = run_list(peers[:1], 12, most=1, options=["rebuild"])
    peers[0].until_waiting(part="a list of 8 operations is waiting for entry 0 (all-reduce tag 2000), first launched ")
    for attempt in (2, 3):
        peers.pop().kill()
        peers[0].until_waiting(part=f"and launched {attempt} times: the last attempt failed: ")
    return call


def test_waits(run):
    """pcclDescribeWaits shows a list, also while its entry is repeated."""
    peers = phases.start(run, 4)
    calls = [repeated(peers)]
    calls += run_list(peers[1:], 12, most=1, options=["rebuild"])
    equal(right(calls), [2] * OPS, "worlds")
    equal(peers[0].do("waits")["text"], "", "waiting calls")


def test_deadline_of_retries(run):
    """The deadline counts from the first launch of an entry, also if the entry is repeated."""
    run.environment["PCCL_OP_TIMEOUT_MS"] = "10000"  # in which a busy machine can kill both
    peers = phases.start(run, 4)
    call = repeated(peers)
    result = call.wait(rc=LOST)
    check("deadline" in result["words"] and "(launched 3 times)" in result["words"], result["words"])
    equal(result["ops"][0][1], 0, "nothing has succeeded")


# ---- a killed peer


def missing(peers, seed, rank, *options):
    """All but one have started the list; the remaining one is killed."""
    victim = peers.pop(rank)
    calls = run_list(peers, seed, options=options)
    for peer in peers:
        peer.until_waiting()
    victim.kill()
    return calls


def test_kill(run):
    """Peers in the list rebuild it for the remaining ones. The pending entry depends on members, or it is a barrier or
    an all-reduce, after which later entries depend on them."""
    peers = phases.start(run, 4)
    for seed, rank in ((0, 0), (2, 3), (4, 2), (7, 1), (9, 3)):
        calls = missing(peers, seed, rank, "rebuild")
        equal(right(calls), [3] * OPS, "worlds")
        equal([call.result["rebuilt"] for call in calls], [1] * 3, "times that it was made anew")
        peers.append(run.join(1, peers))


def test_kill_without_rebuild(run):
    peers = phases.start(run, 4)
    before = members(peers[0])
    calls = missing(peers, 0, 1)
    for result in ended(calls, CHANGED):
        equal(result["ops"][0][1], 0, "nothing has succeeded")
    named([call.result for call in calls], before - members(peers[0]))
    for call in [peer.start("update") for peer in peers]:
        call.wait(rc=SUCCESS)
    equal(right(run_list(peers, 0)), [3] * OPS, "worlds")


def test_rebuild_fails(run):
    """The rebuild fails at one peer: the list ends for all of them."""
    peers = phases.start(run, 3)
    victim = peers.pop()
    calls = run_list(peers[:1], 0, options=["rebuild=fails"]) + run_list(peers[1:], 0, most=8, options=["rebuild"])
    for peer in peers:
        peer.until_waiting()
    victim.kill()
    for result in ended(calls, LOST):
        check("could not rebuild it" in result["words"], f"{result}")
        equal((result["rebuilt"], result["ops"][0][1]), (1, 0), "what came of it")
    for call in [peer.start("update") for peer in peers]:
        call.wait(rc=SUCCESS)
    equal(right(run_list(peers, 0)), [2] * OPS, "worlds")


def in_the_middle(run, turns):
    """Some milliseconds after the start of large lists, a little later each time; the victim may be the root of a
    broadcast."""
    run.start_master(**PATIENT)
    peers = run.join(4)
    worlds = []
    for turn in range(turns):
        calls = run_list(peers, turn, LARGE // 16, options=["rebuild"])
        wait_ms(2 + 5 * turn)
        at = turn % 4
        peers.pop(at).kill()
        worlds.append(right(calls[:at] + calls[at + 1 :]))
        check(set(worlds[-1]) <= {3, 4}, f"{worlds}")
        for call in [peer.start("update") for peer in peers]:
            call.wait(rc=SUCCESS)
        peers.append(run.join(1, peers))
    say(f"participants: {worlds}")


def test_kill_in_the_middle(run):
    in_the_middle(run, 4)


def test_slow_kill_in_the_middle(run):
    in_the_middle(run, 60)


def test_stop(run):
    """A peer is stopped; it rejoins as a newcomer after the list has ended, with an error."""
    peers = phases.start(run, 3, **STRICT)
    victim = peers.pop(1)
    calls = run_list(peers, 1, options=["rebuild"])
    for peer in peers:
        peer.until_waiting()
    victim.stop()
    equal(right(calls), [2] * OPS, "worlds")
    victim.resume()
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] != SUCCESS, "the victim to know that it is out")
    run.admit(victim, peers)
    equal(right(run_list(peers + [victim], 2)), [3] * OPS, "worlds")


# ---- the master


def test_master_restart(run):
    """The master is killed while all but one have started the list; then the remaining one starts it."""
    peers = phases.start(run, 3)
    calls = run_list(peers[:2], 3)
    for peer in peers[:2]:
        peer.until_waiting()
    run.master.kill()
    calls += run_list(peers[2:], 3)
    restart(run)
    equal(right(calls), [3] * OPS, "worlds")


def test_master_restart_and_a_death(run):
    """While there is no master the last peer is killed."""
    peers = phases.start(run, 3)
    victim = peers.pop()
    calls = run_list(peers, 4, options=["rebuild"])
    for peer in peers:
        peer.until_waiting()
    run.master.kill()
    victim.kill()
    restart(run)
    equal(right(calls), [2] * OPS, "worlds")


# ---- everything at once


def test_churn(run):
    churn(run, 4, "listed")


def test_slow_churn(run):
    churn(run, 60, "listed")


harness.main()
