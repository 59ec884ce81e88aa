"""Peers or the master are killed during the drain of a peer: all calls end, operations fail only for killed peers, and
the drained peer leaves with the next update, unless it was killed itself."""

import harness
from harness import SUCCESS
from harness import check, equal
from phases import PATIENT, PHASES, RESTARTED
from phases import agree, finish, go_on, losses, members, named, phase_launched_last, restart


def begin(run, **master):
    """Starts three members, and one that requests its drain."""
    run.environment.update(PCCL_WHERE_MS="20", PCCL_DRAIN_MS="600000", PCCL_DIAL_MAX_MS="50")
    run.start_master(**(master or PATIENT))
    *stay, drained = run.join(4)
    drained.do("leave")
    return stay, drained


def depart(updates, drained):
    """Ends these updates of the remaining peers, and one update of the drained peer."""
    last = updates.pop(drained, None) or drained.start("update")
    for result in agree(list(updates.values()), SUCCESS):
        equal(result["world"], len(updates), "world without the drained peer")
    words = last.wait(rc=harness.UPDATE_FAILED)["words"]
    check("it requested its drain" in words, f"words: {words}")
    drained.do("update", rc=harness.INVALID_USAGE)


def ids_of(run, victim):
    return {one for one in members(victim) if one.startswith(run.id_of(victim))}


def kill_other(run, phase):
    (victim, *stay), drained = begin(run)
    lost = ids_of(run, victim)
    calls = PHASES[phase](victim, [*stay, drained])
    since_us = victim.kill()
    updates = {}
    if phase == "update_missing":
        updates = dict(zip([*stay, drained], calls))
    elif phase == "update":  # the victim has voted: it would count if the master learned of its end after the update
        harness.wait_until(lambda: any("departs" in text for _, text in run.master.lines), "the victim's departure")
    else:
        finish(phase, [*stay, drained], calls, since_us)
    depart({**{peer: peer.start("update") for peer in stay if peer not in updates}, **updates}, drained)
    go_on(run, stay)
    named(losses([*stay, drained]), lost)


def kill_drained(run, phase):
    stay, drained = begin(run)
    lost = ids_of(run, drained)
    calls = PHASES[phase](drained, stay)
    finish(phase, stay, calls, drained.kill())
    go_on(run, stay)
    named(losses(stay), lost)


def _make(function, phase):
    return lambda run: function(run, phase)


for _phase in ("update", "update_missing", "pending_missing", "launched_last", "done", "list"):
    for _function in (kill_other, kill_drained):
        globals()[f"test_{_function.__name__}_{_phase}"] = _make(_function, _phase)


def restart_master(run):
    run.master.kill()
    restart(run)


def test_kill_master(run):
    """The master is killed during an operation, and during the update: neither fails."""
    stay, drained = begin(run, **RESTARTED)
    calls = phase_launched_last(stay[0], [*stay[1:], drained])
    restart_master(run)
    calls.append(stay[0].start("reduce", 5, 100, "f32", "sum", "rand:2", "inplace"))
    agree(calls, SUCCESS)
    updates = {peer: peer.start("update") for peer in [*stay[1:], drained]}
    for peer in updates:
        peer.until_waiting()
    restart_master(run)
    depart({stay[0]: stay[0].start("update"), **updates}, drained)
    go_on(run, stay)
    equal(losses([*stay, drained]), [], "failed operations")


harness.main()
