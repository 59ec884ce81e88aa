"""Phases in which a peer is killed or stopped, and checks of the survivors. COUNT is the number of elements of their
reductions: 100 use the master, large numbers pass from peer to peer."""

import json
import os
import pathlib
import tempfile

import harness
from harness import INVALID_USAGE, LOST, SUCCESS
from harness import check, equal, figure, now_us

COUNT = 100

# For every master and peer here. The silence limit is longer than all waits of tests, so that it never detects a lost
# peer; tests of the limit use a shorter one, with which living peers are still heard on a busy machine.
PATIENT = {"silence_ms": 600000, "heartbeat_ms": 1000}
SILENCE_MS = 3000
STRICT = {"silence_ms": SILENCE_MS, "heartbeat_ms": SILENCE_MS // 5}
# A restarted master waits this long for all members; then a majority is enough.
RESTARTED = {**PATIENT, "recover_ms": 3000}


def start(run, count=3, **master):
    """Starts a run of `count` members, which soon report the peers for which they wait."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master(**(master or PATIENT))
    return run.join(count)


def look(peer):
    """Returns the current content of the peer's flight recorder."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "dump.json")
        peer.do("record", file)
        return json.loads(file.read_text(encoding="utf-8"))


def agree(calls, *allowed):
    """Checks that all calls have ended with the same code: with equal bits after a success, with intact inputs after a
    failure."""
    results = [call.wait() for call in calls]
    codes = {result["rc"] for result in results}
    equal(len(codes), 1, f"different results {[(call, call.result['rc'], call.result.get('words')) for call in calls]}")
    check(codes <= set(allowed), f"result {codes}, want one of {allowed}: {results[0].get('words')}")
    for call, result in zip(calls, results):
        check(result.get("intact", True), f"{call!r} has changed its input")
        check(result["rc"] == SUCCESS or result["words"], f"{call!r} has failed without words")
    if results[0]["rc"] == SUCCESS:
        equal(len({result.get("digest") for result in results}), 1, f"different bits in {calls}")
    return results


def members(peer):
    """Returns the ids of its group, as in the topology."""
    lines = peer.do("topology")["text"].splitlines()
    return {line.split()[2] for line in lines if line.startswith("peer ")}


def named(results, gone):
    """Checks that every peer that failed because of a loss names all lost peers, and no others."""
    for result in results:
        equal(result["failed"], result["rc"], "result of the failure")
        equal((sorted(result["lost"]), result["lost_count"]), (sorted(gone), len(gone)), "those lost")


def losses(peers):
    """Returns the results of their reductions that failed because of a loss."""
    return [call.result for peer in peers for call in peer.calls.values() if call.result and call.result["rc"] == LOST]


def late(results, since_us):
    return max(result["at"] - since_us for result in results) / 1000


def knew(results, since_us, what="the survivors knew"):
    figure(f"ms until {what}", late(results, since_us), "ms")


def _threads(processes):
    """Returns the state of each thread, and how often it has gone to sleep."""
    kept = ("State:", "voluntary_ctxt_switches:")
    found = {}
    for process in processes:
        for thread in os.listdir(f"/proc/{process.pid}/task"):
            with open(f"/proc/{process.pid}/task/{thread}/status", encoding="ascii") as status:
                found[thread] = [line.split()[1] for line in status if line.startswith(kept)]
    return found


def _have_rested(before, after, length_s):
    """Returns true if all threads sleep, and none has woken more often than for heartbeats. Under a sanitizer threads
    wake more often: the runtime has one that wakes ten times per second."""
    may_wake = 1 + 15 * length_s * harness.SLOW
    return before.keys() == after.keys() and all(
        state == "S" and int(slept) - int(before[thread][1]) <= may_wake for thread, (state, slept) in after.items()
    )


def until_at_rest(processes):
    """Waits until all of their threads sleep at one time, and have hardly run within the maximum delay of an
    acknowledgment. Fails if threads spin. They may wake for heartbeats, which on a busy machine happens in almost every
    such interval."""

    def rest():
        try:
            before, since_us = _threads(processes), now_us()
            harness.wait_ms(60)
            after, length_s = _threads(processes), (now_us() - since_us) / 1e6
            return _have_rested(before, after, length_s) and after == _threads(processes)
        except OSError:  # a thread has just ended
            return None

    harness.poll(rest, f"{[process.name for process in processes]} to be at rest")


def wait_at_rest(processes, length_ms):
    """Waits for this time, in which the processes must be at rest."""
    until_at_rest(processes)
    since_us, before = now_us(), [process.cpu_s() for process in processes]
    harness.wait_ms(length_ms)
    used_s = max(process.cpu_s() - was for process, was in zip(processes, before))
    figure("processor share while waiting", used_s * 1e6 / (now_us() - since_us), "share")


def restart(run):
    """Restarts a master that was killed, at the same port."""
    return run.start_master(run.port, **RESTARTED)


def reduce_marked(peers, tag, count):
    """Every peer launches its part of one in-place sum, with its position as its mark."""
    words = [tag, count, "f32", "sum"]
    calls = [peer.start("reduce", *words, f"mark:{bit}", "inplace", "launched") for bit, peer in enumerate(peers)]
    for call in calls:
        call.begun()
    return calls


def go_on(run, survivors, rejoin=True):
    """The survivors' retry succeeds, and a newcomer joins."""
    if len(survivors) > 1:
        calls = [peer.start("multi", 4, 2, 900, 8, "i64", "sum", "ramp:1:1") for peer in survivors]
        for result in agree(calls, SUCCESS):
            equal(result["peers"], len(survivors), "peers of the retry")
        calls = [peer.start("reduce", 950, 4, "i64", "sum", "const:1", "dump") for peer in survivors]
        for result in agree(calls, SUCCESS):
            equal(result["result"], (len(survivors).to_bytes(8, "little") * 4).hex(), "sum after the death")
    for call in [peer.start("update") for peer in survivors]:
        equal(call.wait(rc=SUCCESS)["world"], len(survivors), "world after the death")
    if rejoin:
        everybody = survivors + [run.join(1, survivors)]
        agree([peer.start("reduce", 951, 4, "i64", "sum", "const:1") for peer in everybody], SUCCESS)


# ---- the phases: each brings the victim into one, and returns the survivors' pending calls


def phase_idle(victim, others):
    return []


def phase_update(victim, others):
    """The victim waits in a vote."""
    victim.start("update")
    victim.until_waiting()
    return []


def phase_update_missing(victim, others):
    """The others wait in a vote for the victim."""
    calls = [peer.start("update") for peer in others]
    for peer in others:
        peer.until_waiting()
    return calls


def phase_pending(victim, others):
    victim.start("pending")
    victim.until_waiting()
    return []


def phase_pending_missing(victim, others):
    calls = [peer.start("pending") for peer in others]
    for peer in others:
        peer.until_waiting()
    return calls


def phase_launched_first(victim, others):
    """The victim has launched, the others have not."""
    victim.do("launch", 5, COUNT, "f32", "sum", "rand:1", "inplace")
    victim.start("await", 5)
    victim.until_waiting()
    return []


def phase_launched_last(victim, others):
    """All but the victim have launched."""
    calls = [peer.start("reduce", 5, COUNT, "f32", "sum", "rand:2", "inplace") for peer in others]
    for peer in others:
        peer.until_waiting()
    return calls


def phase_done(victim, others):
    """All but one have launched and sent DONE, including the victim; the outcome is open."""
    calls = [peer.start("reduce", 5, COUNT, "f32", "sum", "rand:3", "inplace") for peer in others[1:]]
    victim.start("reduce", 5, COUNT, "f32", "sum", "rand:3", "inplace")
    for peer in [victim] + others[1:]:
        peer.until_waiting()
    return calls


def phase_many(victim, others):
    """Several concurrent operations: some are complete at the victim, some it has not launched."""
    for peer in [victim] + others:
        for tag in range(10):
            peer.do("launch", tag, 2 * COUNT, "i32", "sum", f"rand:{tag}", "inplace")
    for peer in others:
        for tag in range(10):
            harness.poll(lambda peer=peer, tag=tag: peer.do("test", tag)["done"], f"tag {tag} at {peer.name}")
    calls = []
    for peer in others:
        for tag in range(10, 14):
            calls.append(peer.start("reduce", tag, 2 * COUNT, "i32", "max", f"rand:{tag}", "inplace", "launched"))
    for call in calls:
        call.begun()
    for peer in others:
        peer.until_waiting()
    return calls


def phase_list(victim, others):
    """In the middle of a list with retry: the victim never gets to its end."""
    calls = [peer.start("multi", 6, 2, 10, COUNT // 2, "f64", "sum", "ramp:0:0.5", "inplace") for peer in others]
    victim.start("multi", 3, 2, 10, COUNT // 2, "f64", "sum", "ramp:0:0.5", "inplace").wait(rc=SUCCESS)
    for peer in others:
        peer.until_waiting()
    return calls


PHASES = {name[len("phase_") :]: function for name, function in dict(globals()).items() if name.startswith("phase_")}


def finish(phase, others, calls, since_us):
    """Ends the pending calls of the phase; prints the time of the survivors, if they had to detect the loss."""
    results = None
    if phase in ("update_missing", "pending_missing"):
        results = agree(calls, SUCCESS)
    elif phase == "list":
        results = agree(calls, SUCCESS)
        equal({result["peers"] for result in results}, {len(others)}, "peers at the end of the list")
    elif phase in ("launched_last", "done"):
        if phase == "done":  # if the last one launches before the loss is known, all parts are there
            calls.append(others[0].start("reduce", 5, COUNT, "f32", "sum", "rand:3", "inplace"))
        results = agree(calls, LOST, *([SUCCESS] if phase == "done" else []))
    elif phase == "launched_first":
        # After the loss is known, the operation succeeds among the survivors; before, it fails. In both cases all
        # agree.
        agree([peer.start("reduce", 5, COUNT, "f32", "sum", "rand:1", "inplace") for peer in others], LOST, SUCCESS)
    elif phase == "many":
        for tag in range(10, 14):
            results = agree([call for call in calls if call.text.startswith(f"reduce {tag} ")], LOST)
        for tag in range(10):  # complete everywhere before the loss: successful, no matter when they are awaited
            agree([peer.start("await", tag) for peer in others], SUCCESS)
    elif phase in ("idle", "update", "pending"):
        verb = "update" if phase == "idle" else phase
        results = agree([peer.start(verb) for peer in others], SUCCESS)
    if results:
        knew(results, since_us)


def kill_in(run, phase):
    victim, *others = start(run)
    before = members(victim)
    calls = PHASES[phase](victim, others)
    finish(phase, others, calls, victim.kill())
    go_on(run, others)
    gone = before - members(others[0])
    equal(len(gone), 1, "peers that are gone")
    named(losses(others), gone)
    equal(*[sorted(result["of"] for result in losses([peer])) for peer in others], "failed operations of the survivors")


def stop_in(run, phase):
    victim, *others = start(run, **STRICT)
    before = members(victim)
    calls = PHASES[phase](victim, others)
    finish(phase, others, calls, victim.stop())
    go_on(run, others, rejoin=False)
    named(losses(others), before - members(others[0]))
    victim.resume()
    # Its pending calls end with an error or with the outcome; then it is removed, and rejoins as a newcomer.
    for call in victim.calls.values():
        result = call.wait()
        check(result["rc"] == SUCCESS or result["words"], f"{call!r} has failed without words")
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] == INVALID_USAGE, "the victim to know that it is out")
    words = victim.do("update", rc=INVALID_USAGE)["words"]
    check(words, "words after the return")
    run.admit(victim, others)
    agree([peer.start("reduce", 970, 4, "i64", "sum", "const:1") for peer in others + [victim]], SUCCESS)
