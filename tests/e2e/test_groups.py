"""Groups of some of the peers: any number concurrently, overlapping, and besides operations of all peers. When a group
loses a member, it ends for all of its members with a reason; the others continue unaffected."""

import harness
import phases
from harness import CHANGED, INVALID_ARGUMENT, INVALID_USAGE, LARGE, LOST, MISMATCH, PENDING_OPS, SUCCESS, TOO_FEW
from harness import check, equal
from phases import PATIENT, STRICT, agree, restart

KINDS = (
    "broadcast", "gather", "scatter", "root_sum", "root_gather", "root_scatter", "all_to_all", "exclusive_scan",
    "barrier", "reduce",
)
SMALL, BULK = 50, 100000  # elements of 4 bytes for each member
FIRST, SECOND, THIRD = 1, 2, 3  # slots


def ids(peers):
    told = [peer.do("members") for peer in peers]
    return [one["members"][one["rank"]] for one in told]


def founding(peers, slot, *options):
    return [peer.start("group", slot, ",".join(ids(peers)), *options) for peer in peers]


def found(peers, slot):
    for call in founding(peers, slot):
        call.wait(rc=SUCCESS)


def collect(peers, slot, kind, tag, count, *options):
    calls = [peer.start("collect", kind, tag, count, "root=1", "launched", *options, slot=slot) for peer in peers]
    for call in calls:
        call.begun()
    return calls


def right(calls):
    for result in agree(calls, SUCCESS):
        check(result["right"] and result["peers"] == len(calls), f"{result}")


def works(peers, slot):
    for count in (SMALL, BULK):
        for number, kind in enumerate(KINDS):
            right(collect(peers, slot, kind, number, count))


def test_two_overlap(run):
    """Three and four of five peers, and all five, concurrently, with the same tags: every kind, through the master,
    directly, and along the ring."""
    peers = phases.start(run, 5)
    first, second = peers[:3], peers[1:]
    found(first, FIRST)
    found(second, SECOND)
    for count in (1, SMALL, BULK, LARGE // 16):
        for kind in KINDS:
            calls = [collect(*one, kind, 7, count) for one in ((first, FIRST), (peers, 0), (second, SECOND))]
            for some in calls:
                right(some)
    for rank, peer in enumerate(second):
        told = peer.do("members", slot=SECOND)
        equal((told["rank"], told["members"]), (rank, ids(second)), "the members of a group")
        equal(peer.do("attr", slot=SECOND)["group"], 4, "its size")
    first[0].do("destroy", slot=FIRST)
    works(second, SECOND)


def lose(run, count, end, **master):
    """A member of a group is lost while the others wait for it: this group ends, another one continues, and the
    remaining members form a new one."""
    peers = phases.start(run, 5, **master)
    victim, first, second = peers[0], peers[:3], peers[2:]
    lost = ids([victim])[0][:8]
    found(first, FIRST)
    found(second, SECOND)
    calls = collect(first[1:], FIRST, "gather", 5, count, "inplace")
    calls += collect(first[1:], FIRST, "root_gather", 6, count, "inplace")
    others = collect(second[:-1], SECOND, "scatter", 5, count)
    first[1].until_waiting()
    end(victim)
    agree(calls, LOST)
    for peer in first[1:]:
        words = peer.do("collect", "barrier", 7, 1, slot=FIRST, rc=LOST)["words"]
        check("the group has ended" in words and lost in words, words)
    right(others + collect(second[-1:], SECOND, "scatter", 5, count))
    works(second, SECOND)
    for peer in first[1:]:
        peer.do("destroy", slot=FIRST)
    for call in [peer.start("update") for peer in peers[1:]]:
        call.wait(rc=SUCCESS)
    found(peers[1:4], FIRST)
    works(peers[1:4], FIRST)
    return victim, peers[1:]


def test_kill_one(run):
    lose(run, BULK, lambda peer: peer.kill())


def test_kill_one_tiny(run):
    lose(run, SMALL, lambda peer: peer.kill())


def test_slow_stop_one(run):
    """The stopped peer rejoins as a newcomer, and can be in a later group."""
    victim, peers = lose(run, BULK, lambda peer: peer.stop(), **STRICT)
    victim.resume()
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] != SUCCESS, "the victim to know that it is out")
    run.admit(victim, peers)
    words = victim.do("collect", "barrier", 6, 1, slot=FIRST, rc=INVALID_USAGE)["words"]
    check("its communicator reconnected" in words, words)
    victim.do("destroy", slot=FIRST)
    mixed = [victim, *peers[2:]]
    for peer in mixed[1:]:
        peer.do("destroy", slot=SECOND)
    found(mixed, SECOND)
    works(sorted(mixed, key=lambda peer: peer.do("members")["rank"]), SECOND)


def test_master_restart(run):
    """The master is killed while a member of a group has not launched, and all but one are forming another group."""
    peers = phases.start(run, 4)
    first, second = peers[:3], peers[1:]
    found(first, FIRST)
    shapes = [(kind, 10 * number + size, count) for number, kind in enumerate(KINDS)
              for size, count in enumerate((SMALL, BULK))]
    calls = [collect(first[:2], FIRST, *shape) for shape in shapes]
    foundings = [peer.start("group", SECOND, ",".join(ids(second))) for peer in second[:2]]
    first[0].until_waiting()
    run.master.kill()
    foundings.append(second[2].start("group", SECOND, ",".join(ids(second))))
    restart(run)
    for some, shape in zip(calls, shapes):
        right(some + collect(first[2:], FIRST, *shape))
    for call in foundings:
        call.wait(rc=SUCCESS)
    works(second, SECOND)
    works(first, FIRST)


def test_close_by_one(run):
    """A peer that closes a group with pending operations gets its buffers back; the others get the error."""
    peers = phases.start(run, 3)
    found(peers, FIRST)
    calls = collect(peers[1:], FIRST, "gather", 5, BULK, "inplace")
    peers[1].until_waiting()
    peers[0].do("destroy", slot=FIRST)
    for result in agree(calls, LOST):
        check("closed" in result["words"] and ids(peers[:1])[0][:8] in result["words"], result["words"])
    for peer in peers[1:]:
        peer.do("destroy", slot=FIRST)
    found(peers, FIRST)
    works(peers, FIRST)
    works(peers, 0)


def close_alone(run, count, away, back):
    """A peer that closes a group does not wait for an absent master. The others get the error after its restart;
    operations outside the group continue."""
    run.environment["PCCL_MASTER_LOST_MS"] = "600000"
    peers = phases.start(run, 3, **STRICT)
    closer, others = peers[0], peers[1:]
    found(peers, FIRST)
    what = (5, count, "i32", "sum", "rand:1", "inplace")
    closer.do("launch", *what, slot=FIRST)
    calls = [others[0].start("reduce", *what, slot=FIRST)]
    beside = collect(others, 0, "scatter", 5, count)
    others[0].until_waiting()
    away(run.master)
    closer.do("destroy", slot=FIRST)
    back()
    agree(calls, LOST)
    right(beside + collect([closer], 0, "scatter", 5, count))
    for peer in others:
        peer.do("destroy", slot=FIRST)
    found(peers, FIRST)
    works(peers, FIRST)


def test_close_while_master_is_dead(run):
    close_alone(run, BULK, lambda master: master.kill(), lambda: restart(run))


def test_close_while_master_is_stopped(run):
    close_alone(run, SMALL, lambda master: master.stop(), lambda: run.master.resume())


def test_founding_fails(run):
    """Calls with different ids never match, and the error names the limit that ended them. Calls with different labels
    match and fail; the loss of a member ends such calls."""
    peers = phases.start(run, 4)
    lists = [ids(peers[:3]), ids([*peers[:2], peers[3]])]
    calls = [peer.start("group", FIRST, ",".join(given), "timeout=300") for peer, given in zip(peers, lists)]
    for call in calls:
        words = call.wait(rc=LOST)["words"]
        check("its timeout or op_timeout_ms" in words and "creation of a group waited for" in words, words)
    calls = [peer.start("group", FIRST, ",".join(ids(peers[:2])), f"label={peer.name}") for peer in peers[:2]]
    for call in calls:
        call.wait(rc=INVALID_USAGE)
    gone = ids(peers[2:3])[0]
    calls = [peer.start("group", FIRST, ",".join(ids(peers))) for peer in peers[:2]]
    peers[0].until_waiting()
    peers[2].kill()
    for call in calls:
        words = call.wait(rc=CHANGED)["words"]
        check(gone[:8] in words, words)
    found(peers[:2], FIRST)
    works(peers[:2], FIRST)


def test_wrong_calls(run):
    peers = phases.start(run, 3)
    own, other, third = ids(peers)
    for given in (other, f"{own},{own}", f"{own},{'x' * 32}", f"{other},{third}"):
        peers[0].do("group", FIRST, given, rc=INVALID_ARGUMENT)
    words = peers[0].do("group", FIRST, f"{own},{'0' * 31}1", rc=CHANGED)["words"]
    check("not a current member: peer 00000000" in words, words)
    found(peers[:2], FIRST)
    for verb in ("connect", "update", "optimize", "pending", "topology"):
        check("not supported on a group" in peers[0].do(verb, slot=FIRST, rc=INVALID_USAGE)["words"], verb)
    peers[0].do("group", SECOND, f"{own},{other}", slot=FIRST, rc=INVALID_USAGE)
    words = peers[0].do("collect", "gather", 1, 5, f"members={own},{third}", slot=FIRST, rc=CHANGED)["words"]
    check("whose membership is fixed" in words, words)
    peers[0].do("collect", "broadcast", 1, 5, "root=2", slot=FIRST, rc=INVALID_ARGUMENT)
    works(peers[:2], FIRST)
    # For joint calls, an operation of a group counts as one of its communicator.
    call = peers[0].start("collect", "gather", 1, 5, "launched", slot=FIRST)
    call.begun()
    peers[0].until_waiting()
    for verb in ("optimize", "update"):
        peers[0].do(verb, rc=PENDING_OPS)
    right([call, *collect(peers[1:2], FIRST, "gather", 1, 5)])
    # A group of one.
    peers[0].do("group", SECOND, own)
    peers[0].do("collect", "gather", 1, BULK, slot=SECOND, rc=TOO_FEW)
    for kind in KINDS[:-1]:  # an all-reduce needs two
        right([peers[0].start("collect", kind, 1, BULK, "alone", slot=SECOND)])
    # Its communicator is destroyed first.
    peers[0].do("destroy")
    words = peers[0].do("collect", "barrier", 1, 1, slot=SECOND, rc=INVALID_USAGE)["words"]
    check("was destroyed" in words, words)
    peers[0].do("destroy", slot=SECOND)
    peers[0].do("destroy", slot=FIRST)


def lists(peers, slot):
    """Starts lists of 40 sums with retry."""
    return [peer.start("multi", 40, 3, 900, 5000, "i64", "sum", "ramp:1:1", slot=slot) for peer in peers]


def test_newcomer(run):
    """Groups survive updates; a newcomer can be in later ones. Lists are retried in the whole communicator, but not in
    a group."""
    peers = phases.start(run, 2)
    found(peers, FIRST)
    peers.append(run.join(1, peers))
    works(peers[:2], FIRST)
    for result in agree(lists(peers[:2], FIRST), SUCCESS):
        equal(result["peers"], 2, "peers of a list")
    found(peers[1:], SECOND)
    works(peers[1:], SECOND)
    works(peers, 0)
    calls = lists(peers[:1], FIRST)
    peers[0].until_waiting()
    peers[1].kill()
    for result in agree(calls, LOST):
        check("the group has ended" in result["words"], result["words"])


def begun(peer, slot, verb, *arguments):
    return peer.start(verb, *arguments, slot=slot).begun()


def transfers(peers, slot, count):
    """Launches operations of each form. The other end of each has not launched it."""
    return [begun(peers[0], slot, "send", 1, 1, count, 7), begun(peers[1], slot, "recv", 0, 2, count),
            begun(peers[1], slot, "recv", "any", 3, count), begun(peers[2], slot, "send", 0, 4, count, 7)]


def test_close_ends_sends(run):
    """Closing a group ends its sends and receives with a reason; sends outside the group continue."""
    peers = phases.start(run, 3)
    beside = [peers[0].start("send", 1, 1, count, 5).begun() for count in (SMALL, BULK)]
    for count in (SMALL, BULK):
        for closer in peers:
            found(peers, FIRST)
            calls = transfers(peers, FIRST, count)
            closer.do("close", slot=FIRST)
            for call in calls:
                end = call.wait(rc=None if call.peer is closer else LOST)
                if call.peer is closer:
                    check(end["rc"] in (LOST, INVALID_USAGE), f"{end}")
                else:
                    check("closed the subgroup" in end["words"], end["words"])
            for peer in peers:
                if peer is not closer:
                    words = peer.do("send", 0 if peer is not peers[0] else 1, 1, count, 7, slot=FIRST, rc=LOST)["words"]
                    check("the group has ended" in words, words)
                peer.do("destroy", slot=FIRST)
    for count, call in zip((SMALL, BULK), beside):
        equal(peers[1].do("recv", 0, 1, count)["first"], 5, "data sent outside the groups")
        call.wait(rc=SUCCESS)


def test_close_races_with_sends(run):
    """Sends that begin while the group is closed: both ends succeed, with the correct bytes, or both fail. The peer
    that closes it may launch or await later, which is refused without effect."""
    peers = phases.start(run, 3)
    for turn in range(10):
        found(peers, FIRST)
        calls = []
        for tag, count in enumerate((SMALL, BULK) * 2):
            source, destination = (0, 1) if tag < 2 else (1, 0)
            calls.append((peers[source].start("send", destination, tag, count, tag, slot=FIRST),
                          peers[destination].start("recv", source, tag, count, slot=FIRST)))
        for call in (call for both in calls for call in both if call.peer is peers[turn % 3]):
            call.begun()
        peers[turn % 3].do("close", slot=FIRST)
        for tag, (send, receive) in enumerate(calls):
            sent, got = send.wait(), receive.wait()
            ends = {send.peer: sent["rc"], receive.peer: got["rc"]}
            if ends.get(peers[turn % 3]) == INVALID_USAGE:
                del ends[peers[turn % 3]]
            check(set(ends.values()) in ({SUCCESS}, {LOST}), f"{sent}, {got}")
            check(got["rc"] != SUCCESS or (got["first"] == tag and got["right"]), f"something else has arrived: {got}")
        for peer in peers:
            peer.do("destroy", slot=FIRST)


def test_sends_keep_to_their_group(run):
    """One tag, the same two peers: in the communicator, in two groups of the two, and in one of three."""
    peers = phases.start(run, 3)
    slots = (0, FIRST, SECOND, THIRD)
    found(peers[:2], FIRST)
    found(peers[:2], SECOND)
    found(peers, THIRD)
    for count in (SMALL, BULK):
        sends = [begun(peers[0], slot, "send", 1, 5, count, 1000 * slot) for slot in slots]
        for slot, send in reversed(list(zip(slots, sends))):
            receive = begun(peers[1], slot, "recv", "any" if slot in (0, THIRD) else 0, 5, count)
            equal(receive.wait(rc=SUCCESS)["first"], 1000 * slot, f"data received in slot {slot}")
            send.wait(rc=SUCCESS)
        receives = [begun(peers[1], slot, "recv", "any" if slot == FIRST else 0, 5, count) for slot in slots]
        for slot, receive in reversed(list(zip(slots, receives))):
            peers[0].do("send", 1, 5, count, 10 + 1000 * slot, slot=slot)
            equal(receive.wait(rc=SUCCESS)["first"], 10 + 1000 * slot, f"data received in slot {slot}")


def test_sends_in_a_group_without_a_master(run):
    """The master is killed during many sends in a group and in the communicator with one tag: all match as before."""
    peers = phases.start(run, 3)
    found(peers, FIRST)
    half = [begun(peers[0], slot, "send", 1, 5, count, 100 * slot) for slot in (0, FIRST) for count in (SMALL, BULK)]
    run.master.kill()
    late = [begun(peers[1], slot, "recv", 0, 5, count) for slot in (FIRST, 0) for count in (SMALL, BULK)]
    restart(run)
    for receive, first in zip(late, (100, 100, 0, 0)):
        equal(receive.wait(rc=SUCCESS)["first"], first, "received data")
    for send in half:
        send.wait(rc=SUCCESS)
    lone = begun(peers[2], FIRST, "recv", 0, 6, SMALL)
    peers[0].kill()
    words = lone.wait(rc=LOST)["words"]
    check("a member of the subgroup left" in words, words)


harness.main()
