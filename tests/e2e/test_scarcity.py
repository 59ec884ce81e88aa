"""Scarce resources: descriptors, disk, time, buffers. The group survives, with correct results."""

import socket

import harness
import ports
from harness import INTERNAL, INVALID_USAGE, MASTER_FAILED, OPTIMIZE_FAILED, SUCCESS
from harness import check, equal, say, wait_ms
from loops import all_right, in_both_sizes, more_steps, start_loop, start_loops
from phases import PATIENT, SILENCE_MS, STRICT, wait_at_rest
from proxy import join_over_proxies
from shortages import NoMoreDescriptors, descriptors


def told(newcomer):
    """Checks that the stranger gets the reason: no descriptor is left. One that says hello after more than 0.2 s is
    dropped without an answer."""

    def words():
        return "no free file descriptor" in newcomer.do("connect", rc=MASTER_FAILED)["words"]

    harness.poll(words, f"{newcomer.name} to be told so")


@in_both_sizes
def descriptors_of_the_master(run, count):
    """The master has no descriptor left: the group continues, lost peers are detected, it does not spin; newcomers get
    this reason, also behind a queue of strangers, and join when descriptors are free again."""
    run.start_master(**PATIENT)
    alone = len(descriptors(run.master))
    peers = run.join(4)
    full = NoMoreDescriptors(run.master, alone + len(peers))
    newcomers = [run.peer(dial_max_ms=100) for _ in range(3)]
    for newcomer in newcomers:
        newcomer.create(run.address)
        told(newcomer)
    for connect in [newcomer.start("connect") for newcomer in newcomers]:
        check(connect.wait(rc=MASTER_FAILED)["words"], "words")
    newcomer = newcomers[0]
    strangers = [socket.create_connection(("127.0.0.1", run.port)) for _ in range(8)]
    connect = newcomer.start("connect").begun()
    wait_at_rest([run.master], 1000)
    loops = start_loops(peers, count=count)
    more_steps(loops, 50, world=4)
    check(connect.wait(rc=MASTER_FAILED)["words"], "words")
    told(newcomer)
    for stranger in strangers:
        stranger.close()
    # The descriptor of a killed peer serves the next newcomer, and only one.
    peers[0].kill()
    rest = loops[1:]
    more_steps(rest, 50, world=3)
    connect = newcomer.start("connect")
    late = newcomers[1].start("connect")
    harness.wait_until(lambda: connect.result or late.result, "one newcomer to be turned away or in")
    for call in (connect, late):
        result = call.wait()
        check(result["rc"] == SUCCESS or result["words"], f"{call!r}: {result}")
    codes = sorted(call.result["rc"] for call in (connect, late))
    equal(codes, [SUCCESS, MASTER_FAILED], "one is in, the other is not")
    full.over()
    for call in (connect, late):
        if call.result["rc"] == SUCCESS:
            rest.append(start_loop(call.peer, 7, count=count))
    harness.wait_until(lambda: rest[-1].steps, "the newcomer's first step")
    more_steps(rest, 20, world=4)
    newcomers[2].do("connect", rc=SUCCESS)
    rest.append(start_loop(newcomers[2], 8, count=count))
    harness.wait_until(lambda: rest[-1].steps, "the next newcomer's first step")
    more_steps(rest, 20, world=5)
    all_right(rest)


@in_both_sizes
def member_comes_back_to_a_master_without_descriptors(run, count):
    """A member's connection breaks, and the master, which has not noticed, has no descriptor for another one: the
    member is no newcomer, so it gets the last one, and no call fails."""
    run.start_master(**PATIENT)
    alone = len(descriptors(run.master))
    members, proxies = join_over_proxies(run)
    loops = start_loops(members, in_flight=0, count=count)  # 0: failures would be reported
    full = NoMoreDescriptors(run.master, alone + len(members))
    for proxy in proxies * 2:
        proxy.cut(only_inner=True)
        more_steps(loops, 5, world=3)
    check(not any(loop.failures for loop in loops), "an operation has failed")
    full.over()
    all_right(loops)


def test_descriptors_for_a_send(run):
    """The source of a large send has no descriptor left for the link: both ends get this reason."""
    run.start_master(**PATIENT)
    peers = run.join(18)
    full = NoMoreDescriptors(peers[2])
    calls = [peers[2].start("send", 11, 1, 100000, 5), peers[11].start("recv", 2, 1, 100000)]
    for call in calls:
        words = call.wait(rc=harness.LOST)["words"]
        check("no link to peer" in words and full.words in words, words)
    for call in (peers[2].start("send", 11, 1, 50, 5), peers[11].start("recv", 2, 1, 50)):
        check(call.wait(rc=SUCCESS)["right"], f"{call!r} has got something else")
    full.over()
    for call in (peers[2].start("send", 11, 1, 100000, 6), peers[11].start("recv", 2, 1, 100000)):
        check(call.wait(rc=SUCCESS)["right"], f"{call!r} has got something else")


@in_both_sizes
def descriptors_of_a_peer(run, count):
    """A member has no descriptor left: the group continues; a newcomer that needs a link to it is refused with a
    reason, and joins when descriptors are free again; strangers at its port do not keep it busy."""
    run.start_master(warm_up_ms=4000, **PATIENT)
    peers = run.join(3)
    loops = start_loops(peers, count=count)
    starved = peers[2]
    full = NoMoreDescriptors(starved)
    port = starved.listening_ports()[0]
    strangers = [socket.create_connection(("127.0.0.1", port)) for _ in range(10)]
    more_steps(loops, 20, world=3)
    newcomer = run.peer(connect_timeout_ms=1000, dial_max_ms=100)
    newcomer.create(run.address)
    words = newcomer.do("connect", rc=MASTER_FAILED)["words"]
    check("neighbor" in words and names_sick(run, words, [full]), f"words: {words}")
    run.master.wait_line(full.words)
    more_steps(loops, 20, world=3)
    full.over()
    for stranger in strangers:
        stranger.close()
    newcomer.do("connect", rc=SUCCESS)
    loops += [start_loop(newcomer, 7, count=count)]
    harness.wait_until(lambda: loops[-1].steps, "the newcomer's first step")
    more_steps(loops, 20, world=4)
    all_right(loops)


def names_sick(run, words, sick):
    """Returns true if the text names one of the starved peers, and why it cannot take part."""
    return any(f"peer {run.id_of(full.process)}" in words and full.words in words for full in sick)


def joint_calls_end(peers, verb, arguments, rc, run, sick):
    """A joint call in which some cannot take part ends for all, and the reason names one of them."""
    starved = [full.process for full in sick]
    for call in [peer.start(verb, *arguments) for peer in peers]:
        result = call.wait()
        check(result["rc"] in ((INTERNAL,) if call.peer in starved else (rc,)), f"{call!r}: {result}")
        check(names_sick(run, result["words"], sick) or call.peer in starved, f"{call!r}: {result['words']}")
        check("too many open files" in result["words"], f"{call!r}: {result['words']}")


def test_peers_without_descriptors_in_joint_calls(run):
    """One member has no descriptor left, then two: an optimization and a synchronization end for all, with a reason,
    and an update succeeds. When descriptors are free again, the next calls work."""
    run.start_master(**PATIENT)
    peers = run.join(4)
    for peer in peers:
        peer.do("state", "w,f32,1000,const:3")
    for starved in (peers[2:3], peers[1:3]):
        sick = [NoMoreDescriptors(peer) for peer in starved]
        joint_calls_end(peers, "optimize", [], OPTIMIZE_FAILED, run, sick)
        joint_calls_end(peers, "sync", ["popular", 0], INVALID_USAGE, run, sick)
        run.master.wait_line(sick[0].words)
        for call in [peer.start("update") for peer in peers]:
            call.wait(rc=SUCCESS)
        for full in sick:
            full.over()
    for verb, arguments in (("optimize", []), ("sync", ["popular", 0])):
        for call in [peer.start(verb, *arguments) for peer in peers]:
            call.wait(rc=SUCCESS)


def test_no_descriptors_for_a_newcomer(run):
    """A process without descriptors cannot create a communicator, and gets the reason."""
    run.start_master()
    peer = run.peer()
    peer.do("attr", rc=None)  # it has answered, so all libraries are loaded
    full = NoMoreDescriptors(peer)
    result = peer.do("create", run.address, rc=None)
    if result["rc"] == SUCCESS:
        result = peer.do("connect", rc=None)
    check(result["rc"] != SUCCESS and len(result["words"]) > 10, f"{result}")
    say(result["words"])
    full.over()
    peer.do("destroy", rc=None)
    peer.create(run.address)
    peer.do("connect", rc=SUCCESS)


@in_both_sizes
def full_disk(run, count):
    """The master's log is on a full disk, without effect on the run."""
    run.port = ports.free_port()
    environment = dict(run.environment, PCCL_LOG_LEVEL="TRACE")
    command = ["sh", "-c", 'exec "$@" >/dev/full 2>/dev/full', "sh", harness.executable("master")]
    run.master = run._add(harness.Process("master", command + ["--listen", run.address], environment))

    def listens():
        try:
            socket.create_connection(("127.0.0.1", run.port), 1).close()
            return True
        except OSError:
            return None

    harness.poll(listens, "the master to listen")
    peers = run.join(3)
    loops = start_loops(peers, count=count)
    more_steps(loops, 50, world=3)
    peers[0].kill()
    more_steps(loops[1:], 50, world=2)
    all_right(loops)
    for loop in loops[1:]:
        loop.peer.do("stop")
    wait_at_rest([run.master], 300)


def stand_still(run, limits, stopped_ms, count, act=lambda peers: None):
    """Starts loops, and stops the master for this time."""
    run.start_master(**limits)
    peers = run.join(4, dial_max_ms=100)
    loops = start_loops(peers, in_flight=0, count=count)  # 0: failures would be reported
    run.master.stop()
    act(peers)
    wait_ms(stopped_ms)
    run.master.resume()
    return loops


def expelled_nobody(run, loops):
    more_steps(loops, 20, world=4)
    all_right(loops)
    for loop in loops:
        check(not loop.failures, f"failures: {loop.failures}")
    check(not any("departs" in text for _, text in run.master.lines), "somebody was expelled")


@in_both_sizes
def suspended_master(run, count):
    """The master is suspended for three times the silence limit: it removes no peer, and no operation fails."""
    expelled_nobody(run, stand_still(run, STRICT, 3 * SILENCE_MS, count))


@in_both_sizes
def slow_suspended_master(run, count):
    """The same with the default limit of ten seconds."""
    expelled_nobody(run, stand_still(run, {}, 30000, count))


@in_both_sizes
def suspended_master_and_a_death(run, count):
    """A peer is killed in that time: only this peer is removed."""
    loops = stand_still(run, STRICT, 3 * SILENCE_MS, count, lambda peers: peers[1].kill())
    rest = [loop for loop in loops if not loop.peer.killed]
    more_steps(rest, 20, world=3)
    all_right(loops)
    run.master.wait_line("departs")  # the death is logged before
    equal(sum("departs" in text for _, text in run.master.lines), 1, "how many departed")


harness.main()
