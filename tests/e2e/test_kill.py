"""kill -9 and SIGSTOP in every phase: the survivors return from every call, agree, keep their inputs, and continue."""

import time

import harness
from harness import LOST, SLOW, SUCCESS, TOO_FEW
from harness import check, equal, figure, say
from loops import all_right, more_steps, start_loops
from phases import PATIENT, PHASES, STRICT
from phases import agree, go_on, kill_in, knew, losses, members, named, phase_launched_last, start, stop_in


def _make(kind, phase):
    function = kill_in if kind == "kill" else stop_in
    return lambda run: function(run, phase)


for _phase in PHASES:
    globals()[f"test_kill_{_phase}"] = _make("kill", _phase)
    globals()[f"test_stop_{_phase}"] = _make("stop", _phase)


def test_continue_in_time(run):
    """A peer is stopped for less than the silence limit: the others wait, and no call fails."""
    victim, *others = start(run, **PATIENT)
    calls = phase_launched_last(victim, others)
    victim.stop()
    waiting = others[0].until_waiting()
    check("waits for" in waiting, f"words: {waiting}")
    victim.resume()
    calls.append(victim.start("reduce", 5, 100, "f32", "sum", "rand:2", "inplace"))
    agree(calls, SUCCESS)


def test_stopped_and_killed(run):
    """A peer is stopped, then killed: the others detect its end, not the silence."""
    victim, *others = start(run, **PATIENT)
    calls = phase_launched_last(victim, others)
    victim.stop()
    since_us = victim.kill()
    knew(agree(calls, LOST), since_us)
    go_on(run, others)


def test_two_at_once(run):
    """Two peers are killed together: one failure for each operation, not two."""
    peers = start(run, 5)
    others = peers[2:]
    calls = phase_launched_last(peers[0], others)
    since_us = peers[0].kill()
    peers[1].kill()
    knew(agree(calls, LOST), since_us)
    calls = [peer.start("multi", 4, 2, 900, 8, "i64", "sum", "ramp:1:1") for peer in others]
    for result in agree(calls, SUCCESS):
        equal(result["peers"], 3, "peers of the retry")
    go_on(run, others)


def test_all_but_one(run):
    """The last peer gets the error that it is alone; its list ends with TooFewPeers."""
    peers = start(run, 4)
    last = peers[3]
    before = members(last)
    call = last.start("multi", 3, 2, 10, 16, "i32", "sum", "const:1", "inplace")
    last.until_waiting()
    since_us = [peer.kill() for peer in peers[:3]][0]
    result = call.wait(rc=TOO_FEW)
    knew([result], since_us, "the last one knew")
    equal(result["peers"], 1, "peers at the end")
    named([result], before - members(last))  # all of them: no attempt of the list has named a peer before
    equal(result["world"], 1, "world at the end")
    go_on(run, [last])


def test_one_in_flight(run):
    """A list with one operation in flight and a failure: every entry succeeds afterward."""
    victim, *others = start(run)
    calls = [peer.start("multi", 5, 1, 10, 64, "i64", "sum", "const:2", "dump") for peer in others]
    victim.start("multi", 2, 1, 10, 64, "i64", "sum", "const:2").wait(rc=SUCCESS)
    for peer in others:
        peer.until_waiting()
    victim.kill()
    agree(calls, SUCCESS)


def test_newcomer_pending(run):
    """A newcomer is killed while it waits for admission: the members continue without it."""
    members = start(run, 2)
    for _ in range(3):
        newcomer = run.peer()
        newcomer.create(run.address)
        newcomer.start("connect")

        def pending():
            return all([call.wait(rc=SUCCESS)["pending"] for call in [peer.start("pending") for peer in members]])

        harness.poll(pending, "the newcomer to be pending")
        newcomer.kill()
        # Whether it was admitted at the end or not: it is soon removed, alike for both.
        agree([peer.start("update") for peer in members], SUCCESS)
        agree([peer.start("multi", 3, 2, 10, 16, "i32", "sum", "const:1", "inplace") for peer in members], SUCCESS)
    go_on(run, members)


def test_newcomer_in_every_moment(run):
    """A newcomer is killed a little later each time after the start of connect: while it dials, sends hello, warms up,
    waits for admission, or is admitted."""
    members = start(run, 2)
    for turn in range(12):
        newcomer = run.peer()
        newcomer.create(run.address)
        newcomer.start("connect").begun()
        admits = [peer.start("admit") for peer in members] if turn % 2 else []
        end = time.monotonic() + turn * 0.0004 * SLOW
        while time.monotonic() < end:
            pass
        newcomer.kill()
        other = run.peer()  # so that members that wait for a newcomer have one
        other.create(run.address)
        connect = other.start("connect")
        if not admits:
            admits = [peer.start("admit") for peer in members]
        agree(admits, SUCCESS)
        run.let_in(connect, members)  # the killed one may have been admitted first
        everybody = members + [other]
        agree([peer.start("multi", 3, 2, 10, 16, "i32", "sum", "const:1", "inplace") for peer in everybody], SUCCESS)
        other.quit()
        agree([peer.start("multi", 3, 2, 10, 16, "i32", "sum", "const:1", "inplace") for peer in members], SUCCESS)
    go_on(run, members)


def test_member_dies_while_admitting(run):
    """A member is killed while the others vote to admit a newcomer: the vote ends, the newcomer joins."""
    victim, *others = start(run)
    newcomer = run.peer()
    newcomer.create(run.address)
    connect = newcomer.start("connect")

    def pending():
        calls = [peer.start("pending") for peer in [victim] + others]
        return all([call.wait(rc=SUCCESS)["pending"] for call in calls])

    harness.poll(pending, "the newcomer to be pending")
    calls = [peer.start("update") for peer in others]
    for peer in others:
        peer.until_waiting()
    since_us = victim.kill()
    knew(agree(calls, SUCCESS), since_us, "the vote ended")
    # The killed member may have been the newcomer's neighbor: then another update is needed, after the new links are
    # up.
    run.let_in(connect, others)
    everybody = others + [newcomer]
    calls = [peer.start("multi", 3, 2, 10, 16, "i32", "sum", "const:1") for peer in everybody]
    for result in agree(calls, SUCCESS):
        equal(result["peers"], 3, "peers")


def test_last_member_dies(run):
    """All members are killed while newcomers wait: the newcomers form the run."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**PATIENT)
    member = run.join()
    newcomers = [run.peer() for _ in range(3)]
    connects = []
    for peer in newcomers:
        peer.create(run.address)
        connects.append(peer.start("connect"))
    run.master.wait_line("requests to join")
    harness.poll(lambda: member.do("pending")["pending"], "a pending newcomer")
    since_us = member.kill()
    first = harness.wait_until(lambda: next((call for call in connects if call.result), None), "a newcomer to be in")
    knew([first.wait(rc=SUCCESS)], since_us, "one is in")
    inside = [first.peer]
    while len(inside) < 3:
        calls = [peer.start("admit") for peer in inside]
        agree(calls, SUCCESS)
        world = calls[0].result["world"]
        harness.wait_until(
            lambda world=world: sum(call.result is not None for call in connects) == world, "the admitted"
        )
        inside = [call.peer for call in connects if call.result]
    go_on(run, inside)


def test_group_is_left_alone(run):
    """A killed peer in one group causes no failure in another, and a failed operation does not wait for the other
    group."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**PATIENT)
    peers = []
    for group in (0, 0, 1, 1, 1):
        peers.append(run.join(1, peers, group))
    quiet, loud = peers[:2], peers[2:]
    open_call = quiet[0].start("reduce", 5, 10, "i32", "sum", "const:4", "inplace")
    quiet[0].until_waiting()
    calls = phase_launched_last(loud[0], loud[1:])
    loud[0].kill()
    agree(calls, LOST)
    agree([peer.start("multi", 4, 2, 900, 8, "i64", "sum", "ramp:1:1") for peer in loud[1:]], SUCCESS)
    check(open_call.result is None, "the other group's operation has ended")
    agree([open_call, quiet[1].start("reduce", 5, 10, "i32", "sum", "const:4", "inplace")], SUCCESS)


def test_lost_before_the_launch(run):
    """A peer launches an operation that has already ended for others because of a loss: it fails as well and names the
    lost peer; later failures do not name it again."""
    victim, a, b = start(run)
    before = members(a)
    first = a.start("reduce", 5, 4, "i32", "sum", "const:1")
    a.until_waiting()
    victim.kill()
    agree([first], LOST)
    gone = before - members(b)  # the answer arrives after the loss and the outcome
    second = b.start("reduce", 5, 4, "i32", "sum", "const:1")
    agree([second], LOST)
    named([first.result, second.result], gone)
    equal([first.result["of"], second.result["of"]], [[5, 0], [5, 0]], "operations that failed")
    a.do("launch", 5, 4, "i32", "sum", "const:1")
    a.do("abort")
    result = a.do("await", 5, rc=LOST)
    equal((result["lost"], result["of"]), ([], [5, 1]), "what was given up")
    result = b.do("reduce", 5, 4, "i32", "sum", "const:1", rc=LOST)
    equal((result["lost"], result["of"]), ([], [5, 1]), "what another one gave up")


def test_dropped_call(run):
    """After a failure one peer retries the tag, another abandons the call and makes the next one: the two never mix,
    and align again."""
    victim, a, b = start(run)
    before = members(a)
    calls = [peer.start("reduce", 5, 4, "i32", "sum", "const:1") for peer in (a, b)]
    a.until_waiting()
    b.until_waiting()
    victim.kill()
    agree(calls, LOST)
    named(losses([a, b]), before - members(a))
    # a calls tag 5 again (a retry), b abandons it and calls tag 6.
    retry = a.start("reduce", 5, 4, "i32", "sum", "const:1")
    other = b.start("reduce", 6, 4, "i32", "sum", "const:1")
    a.until_waiting(part="tag 5 waits")
    b.until_waiting(part="(in all-reduce tag 5")  # names the peer and the operation that it waits for
    agree([other, a.start("reduce", 6, 4, "i32", "sum", "const:1")], SUCCESS)
    agree([retry, b.start("reduce", 5, 4, "i32", "sum", "const:1")], SUCCESS)


def churn(run, in_flight):
    run.start_master(**PATIENT)
    loops = {}
    bits = iter(range(60))
    seen = {}

    def spawn():
        peer = run.peer()
        peer.create(run.address)
        peer.start("connect").begun()
        loops[peer] = None
        return peer

    def settle(count):
        """Waits until `count` peers have made a step together."""

        def done():
            for peer in list(loops):
                connect = next(call for call in peer.calls.values() if call.text == "connect")
                if loops[peer] is None and connect.result:
                    equal(connect.result["rc"], SUCCESS, f"connect: {connect.result.get('words')}")
                    bit = next(bits)
                    loops[peer] = peer.start("loop", bit, 6, 20, in_flight(bit))
                if loops[peer] is not None and loops[peer].result is not None:
                    raise harness.Failure(f"{loops[peer]!r} has ended: {loops[peer].result}")
            return all(loop and loop.steps and loop.steps[-1]["world"] == count for loop in loops.values())

        harness.wait_until(done, f"steps of {count} peers")

    def collect(peer):
        for step in loops[peer].steps:
            check(step["right"], f"step {step} of {peer.name} is wrong")
            seen.setdefault(step["step"], set()).add(step["digest"])

    for _ in range(3):
        spawn()
    settle(3)
    gaps = []
    for turn in range(8):
        victims = list(loops)[: 1 + turn % 2]
        since_us = 0
        for victim in victims:
            since_us = victim.kill()
        for victim in victims:
            collect(victim)
            del loops[victim]
        remaining = list(loops)
        if turn % 3 != 2:
            settle(len(loops))
            steps = (step for step in loops[remaining[0]].steps if step["world"] == len(loops))
            gaps.append(min(step["at"] for step in steps if step["at"] > since_us) - since_us)
        while len(loops) < 4:
            spawn()
        settle(len(loops))
    for peer in loops:
        peer.do("stop")
    for peer in loops:
        collect(peer)
    differing = [number for number, digests in seen.items() if len(digests) > 1]
    check(not differing, f"different bits in steps {differing}")
    say(f"{len(seen)} steps")
    figure("ms from kill to the next good step", max(gaps) / 1000, "ms")


def drive(run, **shape):
    """Callers move the data of 64 KiB themselves. One is stopped for a moment, one is killed, one is stopped until it
    is removed: the others continue each time, with right results."""
    peers = start(run, 5, **STRICT)
    loops = start_loops(peers, count=8 << 10, **shape)
    peers[0].stop()
    peers[0].resume()
    more_steps(loops, world=5)
    peers[1].kill()
    more_steps(loops[:1] + loops[2:], world=4)
    peers[2].stop()
    more_steps(loops[:1] + loops[3:], world=3)
    peers[2].kill()
    all_right(loops)


def test_drivers(run):
    """Callers in blocking calls."""
    drive(run, tags=2, blocking=True)


def test_awaits_that_drive(run):
    """Callers that launch one operation and await it."""
    drive(run, tags=1, in_flight=0)


def test_churn(run):
    """Loops while peers are killed and join: no step differs between two peers. The numbers in flight differ."""
    churn(run, lambda bit: 1 + bit % 4)


def test_churn_by_hand(run):
    """The same with the retry in the application: launch all, await all, launch the failed ones again."""
    churn(run, lambda bit: 0)


harness.main()
