"""Contradictory calls, deadlines, waits, and forked children."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import harness
import ports
from harness import INVALID_ARGUMENT, INVALID_USAGE, LOST, MASTER_FAILED, NOT_INITIALIZED, SUCCESS, UPDATE_FAILED
from harness import LARGE, check, equal, figure, now_us, say, wait_ms
from loops import BULK, in_both_sizes
from phases import agree, knew, reduce_marked
from proxy import PROXIED, join_behind_proxies

ALL = 3
OPERATIONS_MAX = 4096  # launched at the same time
DEADLINE_MS = 5000  # enough for calls of all peers, each of which a busy machine may stop for a second


def not_early(results, name):
    """Checks that the first of several waiting peers does not end before its deadline; the delay beyond it is a figure.
    """
    waited_ms = max(result["us"] for result in results) / 1000
    check(waited_ms >= DEADLINE_MS, f"ended {DEADLINE_MS - waited_ms} ms before the deadline")
    figure(name, waited_ms - DEADLINE_MS, "ms")


def start(run, count=ALL, **peers):
    run.start_master()
    return run.join(count, **peers)


def named(run, count=ALL, **peers):
    """Starts members with names."""
    run.start_master()
    members = []
    for i in range(count):
        peer = run.peer(f"member{i}", **peers)
        peer.create(run.address, name=peer.name)
        run.admit(peer, members)
        members.append(peer)
    return members


def test_mismatch_code(run):
    """With extended results the codes are exact."""
    run.start_master()
    run.environment["PCCL_EXTENDED_RESULTS"] = "1"
    peers = run.join(2)
    calls = [peer.start("reduce", 1, 4 + i, "u8", "sum", "const:1") for i, peer in enumerate(peers)]
    for call in calls:
        call.wait(rc=harness.MISMATCH)
    late = run.peer(call_timeout_ms=100)
    late.create(run.address)
    late.do("connect", rc=harness.TIMEOUT)


@in_both_sizes
def operation_deadline(run, count):
    """op_timeout_ms: waiting peers get an error, not too early, and agree; the late peer, which has no deadline, fails
    with them. Afterwards the next operation succeeds, and the tag can be reused."""
    peers = start(run, 2, op_timeout_ms=DEADLINE_MS)
    peers.append(run.join(1, peers))
    calls = [peer.start("reduce", 1, count, "f32", "sum", "rand:1", "inplace") for peer in peers[:2]]
    for call in calls:
        result = call.wait(rc=LOST)
        check(result["intact"], "input changed")
        check("deadline" in result["words"], f"words: {result['words']}")
    not_early([call.result for call in calls], "ms until the deadline")
    result = peers[2].do("reduce", 1, count, "f32", "sum", "rand:1", "inplace", rc=LOST)
    check(result["intact"], "input changed")
    figure("ms the latecomer waited", result["us"] / 1000, "ms")
    calls = [peer.start("reduce", 1, count, "f32", "sum", "rand:1") for peer in peers]
    for call in calls:
        call.wait(rc=SUCCESS)


def test_call_deadline(run):
    """call_timeout_ms of connect, pending and update: an error with a reason; the peer remains a member, and the next
    call works."""
    a, b = start(run, 2, call_timeout_ms=DEADLINE_MS)
    for verb, code in (("update", UPDATE_FAILED), ("pending", INVALID_USAGE)):
        late = a.do(verb, rc=code)
        check("deadline" in late["words"], f"words: {late['words']}")
        not_early([late], "ms until the deadline")
        calls = [peer.start(verb) for peer in (a, b)]
        for call in calls:
            call.wait(rc=SUCCESS)
    newcomer = run.peer(call_timeout_ms=DEADLINE_MS)
    newcomer.create(run.address)
    for _ in range(2):
        late = newcomer.do("connect", rc=MASTER_FAILED)
        check("pcclUpdateTopology" in late["words"], f"words: {late['words']}")
        not_early([late], "ms until the deadline")
    run.admit(newcomer, [a, b])


def test_calls_that_cannot_meet(run):
    """Peers that wait for each other in different calls are named, in a log line and by pcclDescribeWaits."""
    peers = named(run, 2, where_ms=30)
    a, b = peers
    waiting = [a.start("update"), b.start("reduce", 7, 4, "i32", "sum", "const:1")]
    for peer, other, part in ((a, b, "all-reduce tag 7"), (b, a, "update topology")):
        line = peer.wait_log(part)
        check(run.id_of(other) in line, f"who is named: {line}")
        check("can never meet" in peer.until_waiting(part="can never meet"), "words")
    check(all(call.result is None for call in waiting), "a call has ended")
    a.do("reduce", 7, 4, "i32", "sum", "const:1", rc=INVALID_USAGE)  # its vote is pending: b has to complete it
    update = b.start("update", slot=0)
    equal(update.wait()["rc"], harness.PENDING_OPS, "update with a reduction under way")
    b.kill()
    waiting[0].wait(rc=SUCCESS)
    equal(a.do("waits")["text"], "", "nobody waits any more")


def test_stuck_calls_end(run):
    """stuck_ms turns such waits into an error for the peer that has set it; then the others can continue."""
    run.start_master()
    patient = run.join(where_ms=30)
    stuck = run.join(1, [patient], where_ms=30, stuck_ms=200)
    update, reduction = ["update"], ["reduce", 7, 4, "i32", "sum", "const:1", "inplace"]
    for own, code, others in ((update, UPDATE_FAILED, reduction), (reduction, LOST, update)):
        waiting = patient.start(*others)
        result = stuck.do(*own, rc=code)
        check("stuck_ms" in result["words"], f"words: {result['words']}")
        check(result["us"] >= 200 * 1000, "it ended early")
        check(result.get("intact", True), "input changed")
        figure("ms until it ended", result["us"] / 1000, "ms")
        stuck.do(*others)
        waiting.wait(rc=SUCCESS)
    for verb in (update, reduction):
        calls = [peer.start(*verb) for peer in (stuck, patient)]
        for call in calls:
            call.wait(rc=SUCCESS)

def count_in(peer, wanted, codes):
    """The program `connect; while (n < wanted) { update; attribute }`, followed by the call of all members. Records the
    codes of its updates, and ignores them."""
    peer.create(peer.address, name=peer.name)
    peer.do("connect")
    size = 0
    while size < wanted:
        codes.append((result := peer.start("update").wait())["rc"])
        if result["rc"] != SUCCESS:
            peer.words = result["words"]
        size = peer.do("attr")["world"]
    return peer.do("reduce", 7, 4, "i32", "sum", "const:1", rc=SUCCESS)


def test_newcomer_updates_first(run):
    """The first call of a newcomer is an update, while the members, which have already counted it, reduce: its update
    ends with an explanation; the members, which are the majority, only wait, and all continue."""
    run.start_master()
    peers = [run.peer(f"member{i}", where_ms=30) for i in range(ALL - 1)]
    peers.append(run.peer("newcomer", where_ms=30, stuck_ms=300))
    codes = [[] for _ in peers]
    with ThreadPoolExecutor(ALL) as programs:
        ends = []
        for i, peer in enumerate(peers):
            peer.address = run.address
            ends.append(programs.submit(count_in, peer, ALL, codes[i]))
            harness.poll(lambda: codes[i] or ends[i].done(), f"{peer.name} to be in the run") if i < ALL - 1 else None
        results = [end.result(harness.DEADLINE) for end in ends]
    equal([code for code in codes[0] + codes[1] if code != SUCCESS], [], "codes of the members' updates")
    equal(codes[2], [UPDATE_FAILED], "codes of the newcomer's updates")
    for part in ("stuck_ms", "all-reduce tag 7", "can never meet", "pcclUpdateTopology", "newcomer"):
        check(part in peers[2].words, f"'{part}' in the words: {peers[2].words}")
    equal(len({result["digest"] for result in results}), 1, "different results")


@in_both_sizes
def fork(run, count):
    """A forked child keeps no connection open: the end of its parent is noticed at once. Calls in the child are
    refused."""
    victim, *others = start(run, where_ms=20)
    child = victim.do("fork")["pid"]
    try:
        line = harness.wait_until(lambda: next((line for line in victim.others if "child" in line), None), "the child")
        results = line["results"]
        check(all(result in (INVALID_USAGE, NOT_INITIALIZED) for result in results), f"calls in the child: {results}")
        check("fork" in line["words"], f"words in the child: {line['words']}")
        calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:2", "inplace") for peer in [victim] + others]
        for call in calls:
            call.wait(rc=SUCCESS)
        calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:2", "inplace") for peer in others]
        for peer in others:
            peer.until_waiting()
        since_us = victim.kill()
        knew([call.wait(rc=LOST) for call in calls], since_us)
        os.kill(child, 0)  # it still exists
    finally:
        os.kill(child, signal.SIGKILL)
    calls = [peer.start("reduce", 6, count, "f32", "sum", "rand:2") for peer in others]
    for call in calls:
        call.wait(rc=SUCCESS)


@in_both_sizes
def destroy_with_operations_open(run, count):
    """A peer destroys its communicator with launched operations: the others get the error at once and agree."""
    leaver, *others = start(run, where_ms=20)
    for tag in range(5):
        leaver.do("launch", tag, count, "i32", "sum", "rand:1")
    calls = [peer.start("reduce", 8, count, "i32", "sum", "rand:1", "inplace") for peer in others]
    for peer in others:
        peer.until_waiting()
    start_us = now_us()
    figure("ms to destroy", leaver.do("destroy")["us"] / 1000, "ms")
    results = [call.wait() for call in calls]
    equal({result["rc"] for result in results}, {LOST}, "results")
    check(all(result["intact"] for result in results), "input changed")
    knew(results, start_us, "the others knew")
    calls = [peer.start("multi", 2, 2, 20, count, "i32", "sum", "rand:1") for peer in others]
    for call in calls:
        call.wait(rc=SUCCESS)


def test_fork_in_mid_transfer(run):
    """A child is forked during a bulk operation: the parent's operation completes, the child's calls are refused."""
    run.start_master(**PROXIED)
    (slow,), (proxy,) = join_behind_proxies(run, 1, where_ms=20)
    victim, other = run.join(2, [slow], where_ms=20)
    peers, others = [slow, victim, other], [slow, other]
    proxy.room = 1 << 20  # then no peer can continue
    calls = reduce_marked(peers, 5, LARGE)
    harness.poll(proxy.is_held, "the middle of the transfer")
    child = victim.do("fork")["pid"]
    try:
        check(all(call.result is None for call in calls), "the operation was over before the fork")
        proxy.hold(False)
        line = harness.wait_until(lambda: next((line for line in victim.others if "child" in line), None), "the child")
        check(all(result in (INVALID_USAGE, NOT_INITIALIZED) for result in line["results"]), f"in the child: {line}")
        check("fork" in line["words"], f"words in the child: {line['words']}")
        equal(len(os.listdir(run.local)), len(peers) - 1, "files of local sockets after the child's calls")
        for call in calls + reduce_marked(peers, 6, BULK):
            result = call.wait(rc=SUCCESS)
            check(result["right"] and result["mask"] == 7, f"{result}")
        os.kill(child, 0)
        since_us = victim.kill()
        knew(agree(reduce_marked(others, 7, BULK), LOST, SUCCESS), since_us)  # success if it was known before
    finally:
        os.kill(child, signal.SIGKILL)


def test_destroy_in_mid_transfer(run):
    """A peer destroys its communicator during bulk operations: the others fail alike with intact inputs, or succeed
    alike if all data was complete; they continue. The first time it is certainly in the middle."""
    run.start_master(**PROXIED)
    others, proxies = join_behind_proxies(run, 2, where_ms=20)
    codes = []
    for delay_ms in (None, 0, 10):
        leaver = run.join(1, others, where_ms=20)
        for proxy in proxies if delay_ms is None else []:
            proxy.room = 1 << 20
        for tag in range(3):
            leaver.do("launch", tag, LARGE, "f32", "sum", "mark:0", "inplace")
        calls = [
            peer.start("reduce", tag, LARGE, "f32", "sum", f"mark:{1 + bit}", "inplace", "launched")
            for tag in range(3)
            for bit, peer in enumerate(others)
        ]
        for call in calls:
            call.begun()
        if delay_ms is None:
            harness.poll(lambda: all(proxy.is_held() for proxy in proxies), "the middle of the transfer")
        else:
            wait_ms(delay_ms)
        figure("ms to destroy", leaver.do("destroy")["us"] / 1000, "ms")
        for tag in range(3):
            results = agree(calls[2 * tag : 2 * tag + 2], LOST, SUCCESS)
            check(results[0]["rc"] == LOST or all(result["mask"] == 7 for result in results), f"{results}")
            check(results[0]["rc"] == LOST or delay_ms is not None, "it has succeeded")
            codes.append(results[0]["rc"])
        for proxy in proxies:
            proxy.hold(False)
        for call in [peer.start("update") for peer in others]:
            call.wait(rc=SUCCESS)
        for result in agree(reduce_marked(others, 7, BULK), SUCCESS):
            check(result["right"] and result["mask"] == 3, f"{result}")
    say(f"{codes.count(LOST)} of {len(codes)} failed")


def test_too_many_operations(run):
    """The operation beyond the limit of 4096 is refused with a reason; the others succeed, and later ones, too."""
    peers = start(run, 2)
    first, second = peers
    flood = first.start("flood", 5000, 1100)
    flooded = harness.wait_until(lambda: next((step for step in flood.steps), None), "the refusal")
    equal(flooded["launched"], OPERATIONS_MAX, "launched")
    equal(flooded["rc"], INVALID_USAGE, "the code beyond")
    check("too many" in flooded["words"], f"words: {flooded['words']}")
    for call in (second.start("flood", OPERATIONS_MAX, 1100), flood):
        result = call.wait(rc=SUCCESS)
        equal((result["right"], result["launched"]), (OPERATIONS_MAX, OPERATIONS_MAX), "right sums")
    for count in (100, BULK):
        for call in reduce_marked(peers, 8, count):
            check(call.wait(rc=SUCCESS)["right"], f"{call.result}")


def test_words(run):
    """Every refused call has a reason, and unconnected communicators are not used."""
    peer = run.peer()
    run.port = ports.free_port()
    bad = peer.do("create", "no_address:x", rc=INVALID_ARGUMENT)
    check("no_address:x" in bad["words"], f"words: {bad['words']}")
    peer.do("create", run.address, "silence=1", rc=INVALID_ARGUMENT)
    peer.do("create", run.address, "where_ms=fast", rc=INVALID_ARGUMENT)
    unfit = peer.do("create", run.address, "master_lost_ms=1000", rc=INVALID_ARGUMENT)
    check("alone_ms" in unfit["words"], f"words: {unfit['words']}")
    peer.create(run.address)
    for verb, code in (("update", INVALID_USAGE), ("pending", INVALID_USAGE), ("attr", INVALID_USAGE)):
        check(peer.do(verb, rc=code)["words"], f"words of {verb}")
    for words in ("0 u8 sum", "1 99 sum", "1 u8 9", "1 u8 sum quant=7:u8", "1 u8 sum quant=1:99"):
        count, dtype, op, *extra = words.split()
        refused = peer.do("reduce", 1, count, dtype, op, "const:1", *extra, rc=INVALID_ARGUMENT)
        check(refused["words"], f"words for {words}")


harness.main()
