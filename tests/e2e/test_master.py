"""The master is killed, and restarted or not."""

import os

import harness
from harness import INVALID_USAGE, LOST, MASTER_FAILED, SUCCESS, UPDATE_FAILED
from harness import check, equal, figure, now_us, say, wait_ms
from loops import all_right, in_both_sizes, more_steps, start_loops
from phases import PATIENT, RESTARTED, knew, restart, until_at_rest


def start(run, count=3, **peers):
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**RESTARTED)
    return run.join(count, dial_max_ms=50, **peers)


def agree(calls, *codes):
    results = [call.wait() for call in calls]
    equal(len({result["rc"] for result in results}), 1, f"different results {[(c, c.result) for c in calls]}")
    check(results[0]["rc"] in codes, f"result {results[0]}, want {codes}")
    check(all(result.get("intact", True) for result in results), "input changed")
    if results[0]["rc"] == SUCCESS:
        equal(len({result.get("digest") for result in results}), 1, "different bits")
    return results


def go_on(run, peers):
    calls = [peer.start("multi", 4, 2, 900, 8, "i64", "sum", "ramp:1:1") for peer in peers]
    for result in agree(calls, SUCCESS):
        equal(result["peers"], len(peers), "peers")
    agree([peer.start("update") for peer in peers], SUCCESS)
    newcomer = run.join(1, peers)
    agree([peer.start("reduce", 7, 8, "i64", "sum", "const:1") for peer in peers + [newcomer]], SUCCESS)


@in_both_sizes
def gone_for_good(run, count):
    """Every call ends with a reason after master_lost_ms; afterward the communicators are unconnected."""
    lost_ms = 3000
    peers = start(run, 4, master_lost_ms=lost_ms, alone_ms=lost_ms - 1)
    calls = [
        peers[0].start("update"),
        peers[1].start("pending"),
        peers[2].start("reduce", 1, count, "f32", "sum", "rand:1", "inplace"),
        peers[3].start("multi", 3, 2, 1, count, "f32", "sum", "rand:1"),
    ]
    for peer in peers:
        peer.until_waiting()
    since_us = run.master.kill()
    for call, code in zip(calls, (UPDATE_FAILED, INVALID_USAGE, LOST, LOST)):
        result = call.wait(rc=code)
        check("master" in result["words"], f"words: {result['words']}")
        check(result.get("intact", True), "input changed")
        check(result["at"] - since_us >= lost_ms * 1000, f"{call!r} ended too early")
        knew([result], since_us, "it gave up")
    for peer in peers:
        for verb in ("update", "pending", "attr"):
            peer.do(verb, rc=INVALID_USAGE)
        peer.do("reduce", 1, 4, "i32", "sum", "const:1", rc=INVALID_USAGE)
        peer.do("connect", rc=MASTER_FAILED)


def test_full_output(run):
    """The master is suspended until its connections take no more: no thread of a member spins, and then all succeed."""
    run.start_master(**PATIENT)
    peers = run.join(2)
    run.master.stop()
    calls = [peer.start("multi", 2000, 2000, 10, 2048, "f32", "sum", "const:1") for peer in peers]
    for call in calls:
        call.begun()
    until_at_rest(peers)
    run.master.resume()
    agree(calls, SUCCESS)


def test_restart_idle(run):
    """The master is killed while no call is in progress, and restarted: no peer notices."""
    peers = start(run)
    run.master.kill()
    restart(run)
    go_on(run, peers)


def restart_in(run, prepare, finish):
    peers = start(run)
    calls = prepare(peers)
    for call in calls:
        call.peer.until_waiting()
    run.master.kill()
    start_us = now_us()
    restart(run)
    knew(finish(peers, calls), start_us, "it was over under the new master")
    go_on(run, peers)


@in_both_sizes
def restart_in_a_reduction(run, count):
    """Two have launched; the third one launches after the restart, and all succeed."""

    def launch(peers):
        return [peer.start("reduce", 5, count, "f64", "sum", "rand:5", "inplace") for peer in peers]

    restart_in(run, lambda peers: launch(peers[:2]), lambda peers, calls: agree(calls + launch(peers[2:]), SUCCESS))


@in_both_sizes
def restart_in_a_list(run, count):
    def run_list(peers):
        return [peer.start("multi", 6, 2, 10, count, "i64", "sum", "ramp:0:2") for peer in peers]

    restart_in(run, lambda peers: run_list(peers[:2]), lambda peers, calls: agree(calls + run_list(peers[2:]), SUCCESS))


def test_restart_in_a_vote(run):
    def vote(peers):
        return [peer.start("update") for peer in peers]

    restart_in(run, lambda peers: vote(peers[:2]), lambda peers, calls: agree(calls + vote(peers[2:]), SUCCESS))


def test_restart_in_a_query(run):
    def ask(peers):
        return [peer.start("pending") for peer in peers]

    restart_in(run, lambda peers: ask(peers[1:]), lambda peers, calls: agree(calls + ask(peers[:1]), SUCCESS))


def test_restart_with_a_newcomer(run):
    """A newcomer waits for its admission when the master is killed. The next master admits it together with the others;
    or, if it arrived first, it started a run, and must leave it when the old run returns."""
    peers = start(run)
    newcomer = run.peer(dial_max_ms=50)
    newcomer.create(run.address)
    connect = newcomer.start("connect")

    def pending():
        return all([call.wait(rc=SUCCESS)["pending"] for call in [peer.start("pending") for peer in peers]])

    harness.poll(pending, "the newcomer to be pending")
    run.master.kill()
    restart(run)
    run.let_in(connect, peers)

    def known():
        result = newcomer.do("attr", rc=None)
        return result if result["rc"] != SUCCESS or result["world"] == 4 else None

    result = harness.poll(known, "the newcomer to know where it is")
    if result["rc"] != SUCCESS:
        check("older run" in result["words"], f"words: {result['words']}")
        run.admit(newcomer, peers)
    go_on(run, peers + [newcomer])


def newcomer_first(run, **master):
    """The newcomer dials the restarted master before any member does: it waits, with a reason, and the returning run
    admits it."""
    members = run.join(3)
    run.master.kill()
    for peer in members:
        peer.stop()
    run.start_master(run.port, **master)
    newcomer = run.peer()
    newcomer.create(run.address)
    connect = newcomer.start("connect")
    said = "begins no run for"
    harness.wait_until(lambda: connect.result or any(said in text for _, text in newcomer.logs), "words or a run")
    check(connect.result is None, f"it has founded a run: {connect.result}")
    run.master.wait_line("newcomers wait for")
    for peer in members:
        peer.resume()
    run.let_in(connect, members)
    everybody = [*members, newcomer]
    equal({peer.do("attr")["world"] for peer in everybody}, {4}, "world")
    go_on(run, everybody)


def test_newcomer_first_at_a_noted_run(run):
    """The master's state directory notes an existing run; newcomers wait for it up to recover_ms. The note is removed
    at the end of the run."""
    if not run.state:
        run.secure()
    note = os.path.join(run.state, "run")
    run.start_master(**PATIENT)
    check(not os.path.exists(note), "a run is noted before it is founded")
    newcomer_first(run, **PATIENT, recover_ms=60000)
    check(os.path.exists(note), "no run is noted")
    for process in run.processes:
        if isinstance(process, harness.Peer):
            process.do("destroy")
    harness.wait_until(lambda: not os.path.exists(note), "the note to be removed")


def test_newcomer_first_at_an_unnoted_run(run):
    """Without a note, the master starts no new run for a while."""
    run.environment.pop("PCCL_MASTER_STATE", None)
    run.start_master(**PATIENT)
    newcomer_first(run, **PATIENT, found_after_ms=60000)


def figure_rival_runs(run):
    """The number of newcomers that started a run, of twenty restarts with default settings: the master is absent for 1
    s or 3 s, and a newcomer dials at once."""
    run.environment.pop("PCCL_FOUND_AFTER_MS")
    run.start_master(**RESTARTED)
    members, rivals = run.join(2), 0
    for trial in range(20):
        run.master.kill()
        wait_ms(1000 if trial % 2 else 3000)
        restart(run)
        newcomer = run.peer()
        newcomer.create(run.address)
        connect = newcomer.start("connect")
        run.let_in(connect, members)
        rivals += newcomer.do("attr", rc=None).get("world") != 3
        newcomer.do("destroy")
    figure("rival runs in 20 restarts", rivals, "runs")


@in_both_sizes
def restart_while_a_peer_is_stopped(run, count):
    """One member is stopped while the master is replaced: the others continue without it after the time limit."""
    victim, *others = start(run)
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:2", "inplace") for peer in others]
    for peer in others:
        peer.until_waiting()
    victim.stop()
    run.master.kill()
    restart(run)
    agree(calls, LOST)
    go_on(run, others)
    victim.resume()
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")


@in_both_sizes
def restart_and_a_death(run, count):
    """The master and a member are killed together."""
    victim, *others = start(run)
    calls = [peer.start("reduce", 5, count, "f32", "sum", "rand:2", "inplace") for peer in others]
    for peer in others:
        peer.until_waiting()
    run.master.kill()  # first, so that it does not detect the other loss
    victim.kill()
    start_us = now_us()
    restart(run)
    knew(agree(calls, LOST), start_us)
    go_on(run, others)


def pause_ms(loops, since_us):
    """Returns the longest pause between two steps, the second of which ended after this time."""
    pauses = []
    for loop in loops:
        times = [step["at"] for step in loop.steps]
        pauses += [(b - a) / 1000 for a, b in zip(times, times[1:]) if b > since_us]
    return max(pauses)


@in_both_sizes
def restarts_under_loops(run, count):
    """Loops continue with four masters: no step fails."""
    run.start_master(**RESTARTED)
    run.environment.update(PCCL_DIAL_MAX_MS="50", PCCL_LOG_LEVEL="WARN")
    peers = run.join(3)
    loops = start_loops(peers, tags=6, in_flight=0, count=count)  # 0: failures would be reported
    for _ in range(3):
        more_steps(loops)
        since_us = run.master.kill()
        restart(run)
        down_ms = (now_us() - since_us) / 1000
        harness.wait_until(
            lambda since_us=since_us, down_ms=down_ms: all(
                loop.steps[-1]["at"] > since_us + 1000 * down_ms + 100000 for loop in loops
            ),
            "steps under the new master",
        )
        figure("ms of pause beyond those without a master", pause_ms(loops, since_us) - down_ms, "ms")
    all_right(loops)
    for loop in loops:
        check(not loop.failures and loop.result is None, f"{loop!r} failed: {loop.failures}")
    say(f"{len(loops[0].steps)} steps over four masters")


harness.main()
