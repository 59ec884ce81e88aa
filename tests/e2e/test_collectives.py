"""All collectives except all-reduce, with processes of which one is killed or stopped, a master that is restarted, and
newcomers: one outcome for all, intact inputs, every element correct, and a successful next operation. unit/api_matrix
covers the results of collectives without faults."""

import harness
import phases
from harness import CHANGED, INVALID_USAGE, LARGE, LOST, SUCCESS, TOO_FEW
from harness import check, equal, say, wait_ms
from mixed import KINDS, SCANS, churn
from phases import PATIENT, STRICT, agree, knew, members, named, restart

MOVING = ("broadcast", "gather", "scatter", "blobs")  # they move data in bulk
ROOTED = ("root_sum", "root_gather", "root_scatter", "all_to_all")  # they do, too
OF_BLOBS = ("root_blobs", "blobs_given", "blobs_for_all")  # they, too; they first exchange the lengths
SMALL, BULK = 50, 100000  # elements of 4 bytes for each member
ROOT = 1


def collect(peers, kind, tag, count, *options):
    """All peers launch the collective. Returns the calls."""
    words = [kind, tag, count, f"root={ROOT % len(peers)}", "launched", *options]
    calls = [peer.start("collect", *words) for peer in peers]
    for call in calls:
        call.begun()
    return calls


def right(calls):
    for result in agree(calls, SUCCESS):
        check(result["right"] and result["peers"] == len(calls), f"{result}")
    return calls


def all_kinds_work(peers, tag=800):
    for count in (SMALL, BULK):
        for number, kind in enumerate(KINDS):
            right(collect(peers, kind, tag + number, count))


def test_hubs(run):
    """Eighteen are too many for a full mesh: they open the links that a gather or an all-to-all would use, and use them
    directly from the next update on; after many updates without such operations the links are closed."""
    count, peers = 3000, phases.start(run, 18)
    root = peers[ROOT]

    def links(peer=root):
        found = phases.look(peer)["connections"]
        return [sum(one["direction"] == direction for one in found) for direction in ("from", "to")]

    def senders():
        neighbors = phases.look(root)["operations"][-1]["neighbors"]
        return sum(one["direction"] == "from" and one["bytes"] > 0 for one in neighbors)

    def update():
        for call in [peer.start("update") for peer in peers]:
            call.wait(rc=SUCCESS)

    right(collect(peers, "root_gather", 1, count))
    equal(senders(), 1, "who sends to the root along the ring")
    ways = 18 + 16  # around the ring, and to the root: the master needs reports of a link from both ends
    harness.poll(lambda: links() == [17, 1] and sum(links(peer)[1] for peer in peers) == ways, "links to the root")
    update()
    right(collect(peers, "root_gather", 1, count))
    right(collect(peers, "root_blobs", 2, count))
    equal(senders(), 17, "who sends to the root directly")
    right(collect(peers, "all_to_all", 3, count))
    equal(senders(), 1, "who sends to one of all along the ring")
    harness.poll(lambda: all(links(peer) == [17, 17] for peer in peers), "links between all")
    update()
    right(collect(peers, "all_to_all", 3, count))
    equal(senders(), 17, "who sends to one of all directly")
    peers.pop().kill()
    harness.poll(lambda: links() == [16, 16], "the death")
    update()
    right(collect(peers, "all_to_all", 3, count))
    equal(senders(), 16, "who sends to one of those who are left")
    for _ in range(34):
        update()
    harness.poll(lambda: links() == [1, 1], "the end of links that are not used")
    right(collect(peers, "root_gather", 1, count))
    run.master.wait_line("closing links that no recent operation has used")

def test_wrong_elements_are_found(run):
    """One incorrect element of one peer is detected by all peers that receive it, and by no others."""
    all_three, first, root = [True] * 3, [True, False, False], [False, True, False]
    run.start_master(**PATIENT)
    peers = run.join(3)
    for number, (kind, who) in enumerate((
        ("broadcast", all_three),
        ("gather", all_three),
        ("scatter", first),  # the part with the element belongs to the first one
        ("root_scatter", first),
        ("all_to_all", first),
        ("root_gather", root),
        ("root_sum", root),
    )):
        for count in (1, BULK):
            words = ["collect", kind, number, count, f"root={ROOT}"]
            calls = [peer.start(*words, *(["wrong"] if rank == ROOT else [])) for rank, peer in enumerate(peers)]
            found = [not call.wait(rc=SUCCESS)["right"] for call in calls]
            equal(found, who, f"who saw it in {kind} of {count}")
            right(collect(peers, kind, number, count))


# ---- a peer is killed or stopped


def missing(run, kinds, count, victim_rank, end, *options, **master):
    """All but one have launched these; the remaining one is killed or stopped."""
    peers = phases.start(run, 4, **master)
    victim = peers.pop(victim_rank)
    before = members(victim)
    words = [count, f"root={ROOT}", "launched", "inplace", *options]
    calls = [peer.start("collect", kind, 5 + at, *words) for at, kind in enumerate(kinds) for peer in peers]
    for call in calls:
        call.begun()
    for peer in peers:
        peer.until_waiting()
    since_us = end(victim)
    results = agree(calls, LOST)
    knew(results, since_us)
    named(results, before - members(peers[0]))
    all_kinds_work(peers)
    return victim, peers


def registered(kind, count, size, victim_rank, who, *options, kinds=()):
    def test(run):
        missing(run, kinds or [kind], count, victim_rank, lambda peer: peer.kill(), *options)

    globals()[f"test_kill_{who}_in_{kind}{size}"] = test


for _kind in ("broadcast", "gather", "scatter"):
    registered(_kind, BULK, "", ROOT, "root" if _kind == "broadcast" else "one")
registered("broadcast", BULK, "", 3, "another")
registered("broadcast", SMALL, "_tiny", ROOT, "root")
registered("barrier", SMALL, "", 2, "one")
registered("blobs", BULK, "", 2, "one")
registered("blobs", SMALL, "_tiny", 1, "one")
for _count, _size in ((BULK, ""), (SMALL, "_tiny")):
    registered("rooted", _count, _size, ROOT, "root", kinds=ROOTED)
    registered("rooted", _count, _size, 3, "another", kinds=ROOTED)
    registered("scans", _count, _size, 2, "one", "inplace", kinds=SCANS)
    registered("of_blobs", _count, _size, ROOT, "root", kinds=OF_BLOBS)
    registered("of_blobs", _count, _size, 3, "another", kinds=OF_BLOBS)
registered("rooted", BULK, "_quantized", 2, "one", "quantized", kinds=ROOTED[1:])
for _kind in ("broadcast", "gather"):  # the others have begun to overwrite their send buffers
    registered(_kind, BULK, "_quantized", 3, "another" if _kind == "broadcast" else "one", "quantized")


def stop(run, kinds, count, rank):
    """The others get the error after the silence limit; the stopped peer rejoins as a newcomer."""
    victim, peers = missing(run, kinds, count, rank, lambda peer: peer.stop(), **STRICT)
    victim.resume()
    harness.poll(lambda: victim.do("attr", rc=None)["rc"] != SUCCESS, "the victim to know that it is out")
    run.admit(victim, peers)
    all_kinds_work(peers + [victim])


def test_stop_root(run):
    stop(run, ["broadcast", *ROOTED], BULK, ROOT)


def test_stop_another(run):
    stop(run, ["scatter", *ROOTED], BULK, 3)


def test_stop_before_blobs(run):
    stop(run, ["blobs", *OF_BLOBS], BULK, 2)


def test_stop_while_blobs_move(run):
    """The lengths are known, and one peer is stopped: the others get the error."""
    peers = phases.start(run, 4, **STRICT)
    calls = collect(peers, "blobs", 5, LARGE // 8)
    wait_ms(5)
    peers.pop(2).stop()
    calls.pop(2)
    if agree(calls, LOST, SUCCESS)[0]["rc"] == SUCCESS:  # the blobs had arrived before
        agree(collect(peers, "blobs", 5, LARGE // 8), LOST)
    all_kinds_work(peers)


def test_limits_of_blobs(run):
    """Too many bytes in all, or limits that differ: all get the same error, and the next one works."""
    run.start_master(**PATIENT)
    peers = run.join(3)
    for count in (SMALL, BULK):
        right(collect(peers, "blobs", 6, count))
        words = [result["words"] for result in agree(collect(peers, "blobs", 6, count, "max=1"), INVALID_USAGE)]
        check(words == words[:1] * 3 and "more than max_bytes (1)" in words[0], f"{words}")
        calls = [peer.start("collect", "blobs", 6, count, f"max={10**9 + (peer is peers[0])}") for peer in peers]
        for result in agree(calls, INVALID_USAGE):
            check("at most 1000000001 bytes" in result["words"], result["words"])
        right(collect(peers, "blobs", 6, count))


def in_the_middle(run, turns, choose, kinds=MOVING):
    """A few milliseconds after the start of a large operation of each kind, a little later each time."""
    run.start_master(**PATIENT)
    peers = run.join(4)
    codes = []
    for turn in range(turns):
        for kind in kinds:
            before = members(peers[0])
            count = LARGE // (8 if kind in ("blobs", "all_to_all", *OF_BLOBS) else 4)
            calls = collect(peers, kind, 1, count, *(["inplace"] if turn % 2 else []))
            wait_ms(3 + 12 * turn)
            victim = choose(peers)
            at = peers.index(victim)
            victim.kill()
            survivors = peers[:at] + peers[at + 1 :]
            results = agree(calls[:at] + calls[at + 1 :], LOST, SUCCESS)
            if results[0]["rc"] == SUCCESS:
                check(all(result["right"] for result in results), f"{results}")
            else:
                named(results, before - members(survivors[0]))
            codes.append(results[0]["rc"])
            for call in [peer.start("update") for peer in survivors]:
                call.wait(rc=SUCCESS)
            right(collect(survivors, kind, 1, BULK))
            peers = survivors + [run.join(1, survivors)]
    say(f"{codes.count(LOST)} of {len(codes)} failed")


def test_kill_root_in_the_middle(run):
    in_the_middle(run, 2, lambda peers: peers[ROOT])


def test_kill_another_in_the_middle(run):
    in_the_middle(run, 2, lambda peers: peers[2])


def test_kill_one_in_the_middle_of_scans(run):
    in_the_middle(run, 2, lambda peers: peers[2], SCANS)


def test_kill_root_in_the_middle_of_rooted(run):
    in_the_middle(run, 2, lambda peers: peers[ROOT], ROOTED)


def test_kill_another_in_the_middle_of_rooted(run):
    in_the_middle(run, 2, lambda peers: peers[2], ROOTED)


def test_kill_root_in_the_middle_of_blobs(run):
    in_the_middle(run, 2, lambda peers: peers[ROOT], OF_BLOBS)


def test_kill_another_in_the_middle_of_blobs(run):
    in_the_middle(run, 2, lambda peers: peers[2], OF_BLOBS)


def test_all_but_one_die(run):
    """The last peer gets the error; then its collectives succeed if they may run alone."""
    last, *others = phases.start(run, 3)
    calls = [last.start("collect", kind, tag, BULK, "launched") for tag, kind in enumerate(KINDS)]
    for call in calls:
        call.begun()
    last.until_waiting()
    for peer in others:
        peer.kill()
    agree(calls, LOST)
    harness.poll(lambda: last.do("update")["world"] == 1, "the last one to be alone")
    last.do("collect", "gather", 7, BULK, rc=TOO_FEW)
    for tag, kind in enumerate(KINDS):
        right([last.start("collect", kind, 10 + tag, BULK, "alone")])


# ---- the master


def test_master_restart(run):
    """The master is killed while all but one have launched every kind, tiny and bulk, and restarted: all agree on
    correct results."""
    peers = phases.start(run, 3)
    shapes = [(kind, 10 * number, SMALL) for number, kind in enumerate(KINDS)]
    shapes += [(kind, 10 * number + 1, BULK) for number, kind in enumerate(KINDS)]
    calls = [[peer.start("collect", *shape, "root=1", "launched") for peer in peers[:2]] for shape in shapes]
    for peer in peers[:2]:
        peer.until_waiting()
    run.master.kill()
    for number, shape in enumerate(shapes):
        calls[number].append(peers[2].start("collect", *shape, "root=1", "launched"))
    restart(run)
    for of_one in calls:
        right(of_one)
    equal([peer.do("members")["rank"] for peer in peers], [0, 1, 2], "ranks after the restart")
    peers.append(run.join(1, peers))
    equal([peer.do("members")["rank"] for peer in peers], [0, 1, 2, 3], "ranks after the next admission")
    all_kinds_work(peers)


def test_master_restart_in_the_middle(run):
    """The same a few milliseconds after the start of large operations: they continue without a master."""
    run.start_master(**PATIENT)
    peers = run.join(3)
    times = [(kind, 5) for kind in MOVING + ROOTED + OF_BLOBS]
    for kind, after_ms in times + [("blobs", 0), ("blobs_for_all", 0), ("blobs_for_all", 1), ("blobs", 2)]:
        calls = collect(peers, kind, 1, LARGE // (8 if kind in ("blobs", "all_to_all", *OF_BLOBS) else 2))
        wait_ms(after_ms)
        run.master.kill()
        restart(run)
        right(calls)
    all_kinds_work(peers)


# ---- newcomers


def test_newcomer_after_the_list(run):
    """Two have made their lists when a third is admitted: operations that depend on the old members fail for all, and
    succeed with a new list."""
    run.start_master(**PATIENT)
    peers = run.join(2)
    before = ",".join(peers[0].do("members")["members"])
    peers.append(run.join(1, peers))
    now = ",".join(peers[0].do("members")["members"])
    equal(now[: len(before)], before, "the members of before keep their ranks")
    for number, kind in enumerate(KINDS):
        for count in (SMALL, BULK):
            calls = [
                peer.start("collect", kind, number, count, f"members={before if rank < 1 else now}", "inplace")
                for rank, peer in enumerate(peers)
            ]
            for result in agree(calls, CHANGED):
                check(now[-32:][:8] in result["words"], f"the newcomer is not named: {result['words']}")
                equal(result["lost_count"], 0, "nobody is lost")
            right(collect(peers, kind, number, count, f"members={now}", "inplace"))


# ---- everything at once


def test_churn(run):
    churn(run, 6)


def test_slow_churn(run):
    churn(run, 60)


harness.main()
