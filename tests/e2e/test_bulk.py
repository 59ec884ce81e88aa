"""Reductions from peer to peer, of more than 8 KiB: groups, newcomers, waits. Numbers in brackets: scenarios of
TESTING.md. Marks (marks.h) identify the contributors to a result, and check each element. unit/api_matrix covers the
results of collectives."""

import harness
from harness import SUCCESS
from harness import check, equal, say
from loops import all_right, more_steps, start_loops
from phases import wait_at_rest

MIB = 1 << 20


def right(calls, peers=None):
    """Checks that all calls have succeeded, with the same bits, over all peers, and that every element is correct."""
    results = [call.wait(rc=SUCCESS) for call in calls]
    everybody = (1 << len(calls)) - 1
    for call, result in zip(calls, results):
        check(result["right"], f"{call!r}: element {result.get('wrong')} is wrong (mask {result['mask']:#x})")
        equal(result["mask"], everybody, f"who is in the result of {call!r}")
        equal(result["peers"], len(calls), f"peers of {call!r}")
        check(result["intact"], f"{call!r} has changed its input")
    equal(len({result["digest"] for result in results}), 1, f"different bits: {calls}")
    return results


def reduce(peers, tag, count, dtype, op):
    return [peer.start("reduce", tag, count, dtype, op, f"mark:{bit}") for bit, peer in enumerate(peers)]


def join(run, count):
    run.start_master()
    return run.join(count)


def test_marks_find_faults(run):
    """The other tests depend on the detection of an incorrect result."""
    peers = join(run, 2)

    def marked(*patterns):
        calls = [
            peer.start("reduce", 1, 50000, "f32", "sum", pattern, "expect=3") for peer, pattern in zip(peers, patterns)
        ]
        return [call.wait(rc=SUCCESS) for call in calls][0]["right"]

    check(marked("mark:0", "mark:1"), "a right result")
    check(not marked("mark:0", "mark:2"), "somebody else is in it")
    check(not marked("mark:0", "mark:0"), "somebody is in it twice")
    check(not marked("mark:0", "pair:1"), "other numbers are in it")
    check(not marked("mark:0", "ramp:0:0"), "nothing of the other is in it")


def test_groups(run):
    """Groups reduce concurrently and independently."""
    run.start_master()
    members = []
    for i in range(6):
        peer = run.peer()
        peer.create(run.address, group=i % 2)
        run.admit(peer, members)
        members.append(peer)
    for tag in range(5):
        even = reduce(members[0::2], tag, 200000, "f32", "sum")
        odd = reduce(members[1::2], tag, 100000, "i64", "sum")
        right(even)
        right(odd)


def test_join_while_reducing(run):
    """Newcomers join while bulk operations run: every step is correct, and they have joined soon."""
    run.start_master()
    peers = run.join(2)
    loops = start_loops(peers, count=40000)
    for number in range(4):
        newcomer = run.peer()
        newcomer.create(run.address)
        newcomer.start("connect").wait(rc=SUCCESS)
        loops.append(newcomer.start("loop", 2 + number, 4, 40000, 2))
        harness.wait_until(lambda: loops[-1].steps, "the newcomer's first step")
        more_steps(loops, 5, world=len(loops))
    all_right(loops)


def test_waiting_costs_nothing(run):
    """Waiting for another peer to launch does not spin."""
    *others, late = join(run, 3)
    calls = [
        peer.start("reduce", 1, 4 * MIB, "f32", "sum", f"mark:{bit}", "launched").begun()
        for bit, peer in enumerate(others)
    ]
    wait_at_rest(others, 1000)
    right(calls + [late.start("reduce", 1, 4 * MIB, "f32", "sum", "mark:2")])


def test_slow_over_4_gib(run):
    """More than 4 GiB, almost all zero; needs 9 GiB of memory."""
    peers = join(run, 2)
    count = (4 << 30) + 12345
    calls = [peer.start("reduce", 1, count, "u8", "sum", f"sparse:{bit}") for bit, peer in enumerate(peers)]
    results = [call.wait(rc=SUCCESS) for call in calls]
    for result in results:
        check(result["right"] and result["intact"] and result["mask"] == 3, f"{result}")
    equal(len({result["digest"] for result in results}), 1, "different bits")
    say(f"{count} bytes over 2 peers in {results[0]['us'] / 1e6:.1f} s")


harness.main()
