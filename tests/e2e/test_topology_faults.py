"""Lost peers, stops and restarts during pcclOptimizeTopology: the survivors' calls end alike, and all later calls work.
"""

import harness
from harness import INVALID_USAGE, SUCCESS
from harness import check, equal, figure, now_us, poll, say, wait_ms
from phases import PATIENT, RESTARTED, STRICT, agree, knew, restart
from topologies import join, optimize, picture, random_sums, reduce, start, updated

BULK = 100000


def goes_on(run, peers, rejoin=True):
    """A reduction, an optimization, an update, a newcomer, and another optimization."""
    reduce(peers, 900)
    random_sums(peers, 901, BULK)
    optimize(peers)
    updated(peers)
    random_sums(peers, 902, BULK)
    if not rejoin:
        return
    everybody = peers + join(run, 1, peers)
    optimize(everybody)
    seen = picture(everybody[-1])
    equal(sorted(seen.names), sorted(peer.name for peer in everybody), "names")
    check(seen.ways, "nothing is known of the ways")
    random_sums(everybody, 903, BULK)


def survive(run, others, calls, since_us, rejoin=True):
    results = agree(calls, SUCCESS)
    knew(results, since_us, "the survivors' calls had ended")
    equal({result["world"] for result in results}, {len(others)}, "world")
    goes_on(run, others, rejoin)


def votes(peers):
    """Returns the calls after each vote has been counted."""
    calls = [peer.start("optimize") for peer in peers]
    for peer in peers:
        peer.until_waiting()
    return calls


# ---- kill -9


def test_kill_after_its_vote(run):
    victim, *others = start(run, 4, **PATIENT)
    votes([victim])
    since_us = victim.kill()
    survive(run, others, [peer.start("optimize") for peer in others], since_us)


def test_kill_before_its_vote(run):
    victim, *others = start(run, 4, **PATIENT)
    calls = votes(others)
    since_us = victim.kill()
    survive(run, others, calls, since_us)


def still_in_tests(run, count=4, **master):
    """All have voted, and one of them is suspended: its tests are pending, the others' tests run, and there is time."""
    victim, *others = start(run, count, **{**PATIENT, "optimize_ms": 5000, **master})
    vote = votes([victim])[0]
    victim.stop()
    calls = [peer.start("optimize") for peer in others]
    for call in calls:
        call.begun()
    poll(lambda: any(picture(peer).ways for peer in others), "a way to be tested")
    check(all(call.result is None for call in calls), "the calls are over already")
    return victim, others, vote, calls


def test_kill_in_tests_of_its_own(run):
    victim, others, _, calls = still_in_tests(run)
    survive(run, others, calls, victim.kill())


def test_kill_in_tests(run):
    """A peer that tests and is tested is killed."""
    victim, *others = start(run, 5, **PATIENT)
    for round_number, late_ms in enumerate((1, 10, 30, 60, 100)):
        calls = votes(others)
        last = victim.start("optimize").begun()
        wait_ms(late_ms)
        in_time = last.result is None
        since_us = victim.kill()
        knew(agree(calls, SUCCESS), since_us, "the survivors' calls had ended")
        say(f"killed {late_ms} ms after the last vote, {'with' if in_time else 'after'} the tests")
        updated(others)
        random_sums(others, 10 + round_number, BULK)
        victim = join(run, 1, others)[0]
    goes_on(run, others + [victim], rejoin=False)


def test_kill_of_several(run):
    """Two of five are killed during the tests: the other three complete theirs."""
    victim, others, _, calls = still_in_tests(run, 5)
    second = others.pop()
    since_us = second.kill()
    victim.kill()
    survive(run, others, [call for call in calls if call.peer is not second], since_us, False)


def test_kill_of_all_but_one(run):
    victim, others, _, calls = still_in_tests(run)
    for dead in (victim, *others[1:]):
        dead.kill()
    equal(calls[0].wait(rc=SUCCESS)["world"], 1, "world of the last one")
    check("alone" in others[0].do("optimize", rc=INVALID_USAGE)["words"], "words")
    goes_on(run, others[:1] + join(run, 1, others[:1]))


def test_kill_afterward(run):
    victim, *others = start(run, 4, **PATIENT)
    optimize([victim, *others])
    victim.kill()
    updated(others)
    goes_on(run, others)


def test_destroy_in_tests(run):
    """A peer leaves while its call is pending: the call ends with an error, the others continue."""
    victim, *others, leaver = start(run, 4, **PATIENT, optimize_ms=5000)
    vote = votes([victim])[0]
    victim.stop()
    own = leaver.start("optimize", "mute").begun()
    calls = [peer.start("optimize") for peer in others]
    poll(lambda: any(picture(peer).ways for peer in others), "a way to be tested")
    leaver.do("destroy")
    check(own.wait()["rc"] != SUCCESS, f"the call of the one that left: {own.result}")
    victim.resume()
    results = agree([vote, *calls], SUCCESS)
    equal({result["world"] for result in results}, {3}, "world")
    goes_on(run, [victim, *others])


# ---- SIGSTOP


def test_stop_after_its_vote(run):
    """No peer waits longer for a suspended peer than the tests take. Unless it exceeds the silence limit, it remains a
    member."""
    victim, others, vote, calls = still_in_tests(run)
    results = agree(calls, SUCCESS)
    equal({result["world"] for result in results}, {4}, "world")
    run.master.wait_line("did not report the result of testing its link")
    victim.resume()
    vote.wait(rc=SUCCESS)
    goes_on(run, [victim, *others])


def test_stop_for_a_while(run):
    """For less than all limits: it takes part."""
    victim, others, vote, calls = still_in_tests(run)
    wait_ms(300)
    victim.resume()
    agree([vote, *calls], SUCCESS)
    goes_on(run, [victim, *others])


def out_and_back(run, victim, others):
    victim.resume()
    for call in victim.calls.values():
        result = call.wait()
        check(result["rc"] == SUCCESS or result["words"], f"{call!r} has failed without words")
    poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    check(victim.do("optimize", rc=INVALID_USAGE)["words"], "words after the return")
    run.admit(victim, others)
    everybody = [victim, *others]
    optimize(everybody)
    random_sums(everybody, 970, BULK)


def test_stop_too_long(run):
    """For longer: it is removed during the tests, for which the master has a longer limit."""
    since_us = now_us()
    victim, others, _, calls = still_in_tests(run, **STRICT, optimize_ms=9000)
    survive(run, others, calls, since_us, rejoin=False)
    out_and_back(run, victim, others)


def test_stop_before_its_vote(run):
    victim, *others = start(run, 4, **STRICT)
    calls = votes(others)
    since_us = victim.stop()
    survive(run, others, calls, since_us, rejoin=False)
    out_and_back(run, victim, others)


# ---- the master


def test_master_restarts_in_votes(run):
    *others, last = start(run, 4, **RESTARTED)
    calls = votes(others)
    run.master.kill()
    restart(run)
    agree(calls + [last.start("optimize")], SUCCESS)
    goes_on(run, [*others, last])


def test_master_restarts_in_tests(run):
    """The new master starts the tests again."""
    victim, others, vote, calls = still_in_tests(run, **RESTARTED)
    since_us = run.master.kill()
    victim.resume()
    restart(run)
    results = agree([vote, *calls], SUCCESS)
    equal({result["world"] for result in results}, {4}, "world")
    knew(results, since_us, "the calls had ended")
    check(picture(victim).ways, "nothing is known of the ways")
    goes_on(run, [victim, *others])


def figure_master_restarts_ten_times(run):
    """During an optimization, 1 s apart."""
    peers = start(run, 4, **RESTARTED)
    since_us = now_us()
    calls = [peer.start("optimize") for peer in peers]
    for _ in range(10):
        wait_ms(1000)
        run.master.kill()
        restart(run)
    results = agree(calls, SUCCESS)
    figure("s of an optimization while the master restarts", (results[0]["at"] - since_us) / 1e6, "s")


def test_master_and_a_member_die_in_tests(run):
    victim, others, _, calls = still_in_tests(run, **RESTARTED)
    run.master.kill()
    victim.kill()
    restart(run)
    results = agree(calls, SUCCESS)
    equal({result["world"] for result in results}, {3}, "world")
    goes_on(run, others)


def test_master_restarts_afterward(run):
    """The new one has no data about the paths, keeps the ring, and measures."""
    peers = start(run, 4, **RESTARTED)
    optimize(peers)
    ring = picture(peers[0]).ring()
    run.master.kill()
    restart(run)
    reduce(peers, 1)
    after = picture(peers[0]).ring()
    at = after.index(ring[0])
    equal(after[at:] + after[:at], ring, "the ring of the new master")
    goes_on(run, peers)


def test_master_gone_for_good(run):
    run.environment.update(PCCL_MASTER_LOST_MS="4000", PCCL_ALONE_MS="3000")
    victim, others, vote, calls = still_in_tests(run, **RESTARTED)
    run.master.kill()
    victim.resume()
    for call in [vote, *calls]:
        result = call.wait()
        check(result["rc"] != SUCCESS and "master" in result["words"], f"{call!r}: {result}")
    for peer in [victim, *others]:
        for verb in ("optimize", "topology"):
            peer.do(verb, rc=INVALID_USAGE)


harness.main()
