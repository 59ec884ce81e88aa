"""Peers that hold shared states and synchronize them."""

import harness
from harness import INVALID_USAGE, SUCCESS
from harness import check, equal

MIB = 1 << 20
UNWRITTEN = (1 << 64) - 1  # the statistics of a failed call

# Peers soon report the peers for which they wait, so that a test can wait until a vote has been counted.
WHERE_MS = "20"


def start(run, count, **master):
    run.environment["PCCL_WHERE_MS"] = WHERE_MS
    run.start_master(**master)
    joined = run.join(count)
    return joined if count > 1 else [joined]


def define(peers, *tensors):
    for peer in peers if isinstance(peers, list) else [peers]:
        peer.do("state", *tensors)


def each(value, count):
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def votes(peers, revisions, strategies="popular", order=None):
    """Returns the calls, in the order of the peers. With an order, each vote is counted before the next one starts."""
    revisions, strategies = each(revisions, len(peers)), each(strategies, len(peers))
    calls = {}
    places = order or range(len(peers))
    for turn, place in enumerate(places):
        calls[place] = peers[place].start("sync", strategies[place], revisions[place])
        if order and turn + 1 < len(peers):
            calls[place].begun()
            peers[place].until_waiting()
    return [calls[place] for place in range(len(peers))]


def sync(peers, revisions, strategies="popular", order=None):
    """All calls succeed, and leave the same state. Returns their results."""
    results = [call.wait(rc=SUCCESS) for call in votes(peers, revisions, strategies, order)]
    same(results)
    return results


def contents(result, unequal=()):
    return [tensor for tensor in result["tensors"] if tensor[0] not in unequal]


def same(results, unequal=()):
    equal(len({str(contents(result, unequal)) for result in results}), 1, f"different content: {results}")
    equal(len({result["revision"] for result in results}), 1, f"different revisions: {results}")


def moved(results):
    """Returns (sent, received) of each peer. All received bytes were sent; the sum of sent bytes may be larger, because
    near the end of a transfer a second donor is asked for the remainder of a slow one."""
    sent, taken = (sum(result[way] for result in results) for way in ("tx", "rx"))
    check(taken <= sent <= 2 * taken, f"{sent} bytes sent, {taken} received: {results}")
    return [(result["tx"], result["rx"]) for result in results]


def nothing_moved(results):
    equal(moved(results), [(0, 0)] * len(results), "payload bytes")


def received(results, *wanted):
    """Checks the exact number of bytes that each peer has received."""
    moved(results)
    equal([result["rx"] for result in results], list(wanted), f"bytes received: {results}")


def failed(result, revision):
    """Checks that the call has failed with a reason and written none of its results."""
    check(result["rc"] == INVALID_USAGE and result["words"], f"result: {result}")
    equal(result["revision"], revision, "revision after a failure")
    equal((result["tx"], result["rx"]), (UNWRITTEN, UNWRITTEN), "statistics after a failure")


def expelled(call, revision):
    """Checks that the call has failed, and that its peer was removed from the run."""
    result = call.wait()
    failed(result, revision)
    equal(call.peer.do("attr", rc=None)["rc"], INVALID_USAGE, f"{call.peer.name} is still connected")
    return result


def group(run, count, members, number):
    """Adds peers of a separate group, which the members and the earlier ones admit."""
    joined = []
    for _ in range(count):
        peer = run.peer()
        peer.create(run.address, group=number)
        run.admit(peer, members + joined)
        joined.append(peer)
    return joined


def held(peer):
    return peer.do("digests")["tensors"]


def all_waiting(peers):
    for peer in peers:
        peer.until_waiting()


def in_words(results, *parts):
    for result in results:
        check(all(part in result["words"] for part in parts), f"words: {result['words']}")


def wait_all(calls):
    return [call.wait(rc=SUCCESS) for call in calls]


def update(peers):
    wait_all([peer.start("update") for peer in peers])


def still(calls, what):
    check(all(call.result is None for call in calls), f"a call has ended although {what}: {calls}")


def ended(calls):
    harness.wait_until(lambda: all(call.result for call in calls), f"the end of {calls}")
    return [call.result for call in calls]
