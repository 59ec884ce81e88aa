"""Synchronization of shared state without lost peers. Numbers in brackets: scenarios of TESTING.md."""

import itertools

import harness
from harness import EXPELLED, INVALID_ARGUMENT, INVALID_USAGE, PENDING_OPS, SUCCESS
from harness import check, equal, figure
from states import MIB, all_waiting, contents, define, ended, expelled, failed, group, held, in_words, moved
from states import nothing_moved, received, same, start, still, sync, update, votes, wait_all

W = 4 * 1000  # bytes of the tensor that most tests use


def weights(seed, name="w"):
    return f"{name},f32,1000,rand:{seed}"


# ---- transferred content


def test_all_of_it(run):
    """[22] Different content at revision 0: one sends all, the other receives all."""
    peers = start(run, 2)
    for seed, peer in enumerate(peers):
        define(peer, weights(seed), weights(seed + 10, "m"))
    results = sync(peers, 0)
    equal(sorted(moved(results)), [(0, 2 * W), (2 * W, 0)], "bytes")
    equal([result["revision"] for result in results], [0, 0], "revisions")


def test_nothing(run):
    """[23] Identical content."""
    peers = start(run, 3)
    define(peers, weights(1), weights(2, "m"))
    before = held(peers[0])
    results = sync(peers, 0)
    nothing_moved(results)
    equal(results[0]["tensors"], before, "content")


def test_one_of_two(run):
    """[24] One of two tensors differs: only this one is transferred."""
    peers = start(run, 2)
    define(peers[0], weights(1), weights(2, "m"))
    define(peers[1], weights(1), "m,f32,1000,const:3")
    equal(sorted(moved(sync(peers, 0))), [(0, W), (W, 0)], "bytes")


def test_whole_chunks(run):
    """One byte of a tensor of 3.5 MiB has changed: only its chunk is transferred, of 1 MiB, or half of it at the end.
    """
    peers = start(run, 3)
    size = 3 * MIB + MIB // 2
    define(peers, f"w,u8,{size},rand:1", weights(1, "m"))
    sync(peers, 0)
    chunks = [(0, MIB), (MIB - 1, MIB), (MIB, MIB), (3 * MIB - 1, MIB), (3 * MIB, MIB // 2), (size - 1, MIB // 2)]
    for revision, (at, length) in enumerate(chunks, 1):
        before = held(peers[0])
        now = peers[2].do("poke", "w", at, 0)["tensors"]
        if now == before:
            peers[2].do("poke", "w", at, 1)
        results = sync(peers, revision)
        received(results, 0, 0, length)
        equal(results[2]["tensors"], before, "content")
    peers[2].do("poke", "w", 0, 77)
    peers[2].do("poke", "w", size - 1, 78)
    peers[2].do("poke", "m", 0, 79)
    received(sync(peers, len(chunks) + 1), 0, 0, MIB + MIB // 2 + W)


def test_all_types(run):
    """Every data type, unaligned, with odd lengths, some empty, and some larger than a chunk."""
    peers = start(run, 3)
    sizes = {"u8": 1, "i16": 777, "f16": 4097, "bf16": 3, "f64": 140001}
    width = dict(u8=1, i8=1, i16=2, u16=2, u32=4, i32=4, u64=8, i64=8, f16=2, bf16=2, f32=4, f64=8)
    shapes = [(dtype, sizes.get(dtype, 101)) for dtype in width]
    total = sum(count * width[dtype] for dtype, count in shapes)

    def tensors(seed):
        words = ["none,f32,0,zero,null", "empty,u8,0,zero"]
        for at, (dtype, count) in enumerate(shapes):
            words.append(f"{dtype},{dtype},{count},rand:{seed + at},offset={1 + at % 7}")
        return [*words, "last,f64,0,zero"]

    define(peers[:2], *tensors(1))
    define(peers[2], *tensors(1000))
    before = held(peers[0])
    results = sync(peers, 0)
    received(results, 0, 0, total)
    equal(results[2]["tensors"], before, "content")
    nothing_moved(sync(peers, 1))


def test_nothing_at_all(run):
    """States without a tensor, and states with only empty tensors, have revisions too."""
    peers = start(run, 2)
    define(peers)
    nothing_moved(sync(peers, [0, 5]))
    define(peers, "e,f32,0,zero,null")
    calls = votes(peers, 6)
    check({call.wait()["rc"] for call in calls} == {SUCCESS}, f"another structure for all: {calls}")
    equal([call.result["revision"] for call in calls], [6, 6], "revisions")


def test_beyond_4_gib(run):
    """A tensor of more than 4 GiB, of untouched memory: its last bytes are transferred."""
    peers = start(run, 3)
    size = (4 << 30) + 5
    define(peers, f"w,u8,{size},zero", "m,u8,1,const:1")
    for peer in peers[1:]:
        peer.do("poke", "w", size - 1, 9)
    received(sync(peers, 0), 5, 0, 0)


def test_many_tensors(run):
    """[26] Thousands of tensors, of which different ones differ at different peers."""
    peers = start(run, 3)
    define(peers, "t,u32,25,ramp:1:1,times=5000")
    before = held(peers[0])
    for peer, first in zip(peers, (0, 1700, 3400)):
        for number in range(first, first + 200, 10):
            peer.do("poke", f"t{number}", 99, 200)
    results = sync(peers, 0)
    # all three differ: a tie, which one of them wins
    equal(sorted(result["rx"] for result in results), [0, 40 * 100, 40 * 100], "bytes received")
    moved(results)
    changed = [a != b for a, b in zip(results[0]["tensors"], before)]
    equal(sum(changed), 20, "tensors that differ from what they were")


def test_without_statistics(run):
    """sync_info_out may be NULL."""
    a, b = start(run, 2)
    define(a, weights(1))
    define(b, weights(2))
    calls = [a.start("sync", "popular", 0, "null"), b.start("sync", "popular", 0)]
    same(wait_all(calls))


# ---- the winner


def test_minority(run):
    """[25, 26] Two against one: the one is overwritten, in any order of votes."""
    peers = start(run, 3)
    revision = 0
    for order in itertools.permutations(range(3)):
        define(peers[:2], weights(1), weights(2, "m"), weights(3, "v"))
        define(peers[2], weights(7), weights(2, "m"), weights(8, "v"))
        before = held(peers[0])
        results = sync(peers, revision, order=list(order))
        received(results, 0, 0, 2 * W)
        equal(results[2]["tensors"], before, f"content after the order {order}")
        revision += 1


def test_tie(run):
    """One against one: both end with the same one of the two, in either order of the votes."""
    peers = start(run, 2)
    winners = []
    for revision, order in enumerate(([0, 1], [1, 0], [0, 1])):
        for seed, peer in enumerate(peers):
            define(peer, weights(seed))
        both = [held(peer) for peer in peers]
        results = sync(peers, revision, order=order)
        winners.append(both.index(results[0]["tensors"]))
    equal(len(set(winners)), 1, f"the winners depend on the order: {winners}")


def test_tie_with_a_newcomer(run):
    """A peer that has synchronized before wins a tie against one that has not, in either order."""
    old = start(run, 1)
    define(old, weights(1))
    sync(old, 0)
    for revision, order in ((1, [0, 1]), (2, [1, 0])):
        newcomer = run.join(1, old)
        define(newcomer, weights(50 + revision))
        before = held(old[0])
        results = sync([old[0], newcomer], revision, order=order)
        equal(results[1]["tensors"], before, "content of the newcomer")
        newcomer.do("destroy")
        update(old)


def test_first_revision(run):
    """[37] The first synchronization: 13 against 0, in either order; the peer with 0 receives, and gets 13."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master()
    members = []
    for number, order in enumerate(([0, 1], [1, 0])):
        peers = group(run, 2, members, number)
        members += peers
        define(peers[0], weights(1))
        define(peers[1], weights(2))
        results = sync(peers, [13, 0], order=order)
        received(results, 0, W)
        equal(results[1]["revision"], 13, "revision")
        nothing_moved(sync(peers, 14))


def test_first_revision_beats_number(run):
    """One with revision 13 against two with 5: the group takes the highest revision, regardless of the majority."""
    peers = start(run, 3)
    define(peers[:2], weights(1))
    define(peers[2], weights(2))
    results = sync(peers, [5, 5, 13])
    received(results, W, W, 0)
    equal({result["revision"] for result in results}, {13}, "revisions")


def test_first_revision_of_a_receiver(run):
    """A RECEIVE_ONLY peer does not determine the first revision either, in any order."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master()
    members = []
    for number, order in enumerate(([0, 1, 2], [2, 1, 0], [1, 2, 0])):
        peers = group(run, 3, members, number)
        members += peers
        define(peers[:2], weights(1))
        define(peers[2], weights(2))
        results = sync(peers, [3, 3, 99], ["send", "send", "receive"], order=order)
        received(results, 0, 0, W)
        equal(results[2]["revision"], 3, "revision")


# ---- steps


def train(peers, steps, content, first=0, revisions=None):
    """Makes steps with content(place, step); returns the results of each."""
    done = []
    for step in range(first, first + steps):
        for place, peer in enumerate(peers):
            tensors = content(place, step)
            if tensors:
                define(peer, *tensors)
        done.append(sync(peers, revisions(step) if revisions else step))
        equal(done[-1][0]["revision"], step, "revision")
    return done


def test_steps(run):
    """[31] The same update everywhere, revisions count the steps: no bytes."""
    for results in train(start(run, 2), 6, lambda place, step: [weights(step)]):
        nothing_moved(results)


def test_dragged_along(run):
    """[32] The third one never increments its revision and keeps its content: it receives once, then nothing, and still
    follows."""
    peers = start(run, 3)

    def content(place, step):
        return [weights(place // 2)] if step == 0 else None

    first, *later = train(peers, 4, content, revisions=lambda step: [step, step, 0])
    received(first, 0, 0, W)
    for results in later:
        nothing_moved(results)


def advancing(place, step):
    return None if place == 2 and step > 0 else [weights(10 * step + place // 2), weights(5, "m")]


def test_left_behind(run):
    """[33] Two advance, the third does not: it receives the changes in each step."""
    for results in train(start(run, 3), 4, advancing, revisions=lambda step: [step, step, 0]):
        received(results, 0, 0, W)


def test_left_behind_in_two_groups(run):
    """[34] The same in two groups at the same time."""
    peers = start(run, 3)
    other = group(run, 3, peers, 1)
    for step in range(3):
        calls = []
        for members in (peers, other):
            for place, peer in enumerate(members):
                if advancing(place, step):
                    define(peer, *advancing(place, step))
            calls.append(votes(members, [step, step, 0]))
        for group_calls in calls:
            results = wait_all(group_calls)
            same(results)
            received(results, 0, 0, W)


def test_counts_by_one(run):
    """[36] Both increment by two: the first synchronization succeeds, at the second both are removed."""
    peers = start(run, 2)
    define(peers, weights(1))
    sync(peers, 0)
    for call in votes(peers, 2):
        in_words([expelled(call, 2)], "2")


def test_one_counts_wrong(run):
    """[36] One of three increments by two: it is removed, the others succeed, in any order; it may rejoin."""
    peers = start(run, 3)
    define(peers, weights(1))
    sync(peers, 0)
    revision = 1
    for order in ([0, 1, 2], [2, 0, 1], [1, 2, 0]):
        calls = votes(peers, [revision, revision, revision + 1], order=order)
        nothing_moved(wait_all(calls[:2]))
        expelled(calls[2], revision + 1)
        run.admit(peers[2], peers[:2])
        nothing_moved(sync(peers, revision + 1))
        revision += 2


def test_joins_between_steps(run):
    """[39] A peer joins between two steps with the content and the revision of the others: no bytes."""
    peers = start(run, 2)
    for results in train(peers, 3, lambda place, step: [weights(step)]):
        nothing_moved(results)
    peers.append(run.join(1, peers))
    for results in train(peers, 2, lambda place, step: [weights(step)], first=3):
        nothing_moved(results)


def test_joins_with_nothing(run):
    """A peer joins between two steps with revision 0 and other content: it receives all, once."""
    peers = start(run, 2)
    train(peers, 2, lambda place, step: [weights(step)])
    peers.append(run.join(1, peers))
    define(peers[:2], weights(2))
    define(peers[2], weights(99))
    received(sync(peers, [2, 2, 0]), 0, 0, W)
    nothing_moved(sync(peers, 3))


def test_alone(run):
    """With a single peer it succeeds at once, and counts; later peers follow it."""
    peer = start(run, 1)[0]
    define(peer, weights(1))
    for revision in (7, 8, 9):
        nothing_moved(sync([peer], revision))
    other = run.join(1, [peer])
    define(other, weights(2))
    received(sync([peer, other], [10, 0]), 0, W)


def test_nobody_has_the_revision(run):
    """All are outdated: it fails for all of them, with a reason, and they remain members; a peer with the correct
    revision resolves this."""
    peers = start(run, 2)
    define(peers, weights(1))
    for revision in range(3):
        sync(peers, revision)
    for call in votes(peers, [2, 1]):
        result = call.wait()
        failed(result, 2 if call.peer is peers[0] else 1)
        check("revision 3" in result["words"], f"words: {result['words']}")
    update(peers)
    define(peers[1], weights(2))
    received(sync(peers, [3, 0]), 0, W)


def test_receiver_alone(run):
    """A single peer that only receives is removed."""
    peer = start(run, 1)[0]
    define(peer, weights(1))
    for call in votes([peer], 0, "receive"):
        expelled(call, 0)
    peer.do("connect")
    nothing_moved(sync([peer], 0))


# ---- structure


STRUCTURES = {
    "another name": ["x,f32,1000,rand:1", "m,f32,100,rand:2"],
    "another type": ["w,i32,1000,rand:1", "m,f32,100,rand:2"],
    "another count": ["w,f32,1001,rand:1", "m,f32,100,rand:2"],
    "another flag": ["w,f32,1000,rand:1,unequal", "m,f32,100,rand:2"],
    "another order": ["m,f32,100,rand:2", "w,f32,1000,rand:1"],
    "one less": ["w,f32,1000,rand:1"],
    "one more": ["w,f32,1000,rand:1", "m,f32,100,rand:2", "v,f32,1,const:0"],
    "nothing": [],
}


def test_structure(run):
    """[38] One of three has other tensors: it is removed, with a reason; the others continue, in any order."""
    peers = start(run, 3)
    usual = ["w,f32,1000,rand:1", "m,f32,100,rand:2"]
    define(peers[:2], *usual)
    for revision, (what, tensors) in enumerate(STRUCTURES.items()):
        define(peers[2], *tensors)
        order = [[0, 1, 2], [2, 0, 1], [0, 2, 1]][revision % 3]
        calls = votes(peers, revision, order=order)
        nothing_moved(wait_all(calls[:2]))
        result = expelled(calls[2], revision)
        check(result["words"], f"words for {what}")
        failed(peers[2].do("sync", "popular", revision + 1, rc=INVALID_USAGE), revision + 1)
        run.admit(peers[2], peers[:2])
    define(peers[2], *usual)
    nothing_moved(sync(peers, len(STRUCTURES)))


def test_expelled_is_told_so(run):
    """With extended results its code is Expelled, and the others' code is success."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master()
    peers = []
    for _ in range(3):
        peer = run.peer(extended_results=1)
        peer.create(run.address)
        run.admit(peer, peers)
        peers.append(peer)
    define(peers[:2], weights(1))
    define(peers[2], weights(1, "other"))
    calls = votes(peers, 0)
    wait_all(calls[:2])
    check(calls[2].wait(rc=EXPELLED)["words"], "no words")


# ---- groups


def test_groups(run):
    """[27-30, 35] Two groups, with equal and with different names, sequentially, concurrently, and in any phase."""
    peers = start(run, 2)
    other = group(run, 2, peers, 1)
    define(peers, weights(1))
    define(other, weights(2))
    for revision in range(3):
        nothing_moved(sync(peers, revision))
    nothing_moved(sync(other, 50))
    define(other, weights(3, "k"), weights(4, "l"))
    for step in range(3):
        calls = votes(peers, 3 + step) + votes(other, 51 + step)
        results = wait_all(calls)
        nothing_moved(results)
        same(results[:2])
        same(results[2:])
    half = votes(peers[:1], 6)
    peers[0].until_waiting()
    nothing_moved(sync(other, 54))
    still(half, "one of its group has not voted")
    nothing_moved(wait_all(half + votes(peers[1:], 6)))


def test_same_names_in_groups(run):
    """[30] Other content under the same names in another group has no effect."""
    peers = start(run, 3)
    other = group(run, 3, peers, 1)
    define(peers[:2], weights(1))
    define(peers[2], weights(5))
    define(other[:2], weights(2))
    define(other[2], weights(6))
    calls = votes(peers, 0) + votes(other, 0)
    results = wait_all(calls)
    received(results[:3], 0, 0, W)
    received(results[3:], 0, 0, W)
    check(contents(results[0]) != contents(results[3]), "the groups hold the same")


# ---- strategies


def strategies(run, which, seeds, good, moves=None):
    """In all orders of votes: peers at the places `good` succeed with the content of the first of them, the others are
    removed. moves: bytes that the good ones receive."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master()
    members = []
    for number, order in enumerate(itertools.permutations(range(len(which)))):
        peers = group(run, len(which), members, number)
        for peer, seed in zip(peers, seeds):
            define(peer, weights(seed))
        calls = votes(peers, 0, which, order=list(order))
        results = [calls[place].wait(rc=SUCCESS) for place in good]
        if results:
            same(results)
            received(results, *(moves or [0] * len(results)))
        for place, call in enumerate(calls):
            if place not in good:
                expelled(call, 0)
                peers[place].quit()
        members += [peers[place] for place in good]


def test_senders_differ(run):
    """[40] Two SEND_ONLY with different content: one is removed, the other succeeds."""
    run.environment["PCCL_WHERE_MS"] = "20"
    run.start_master()
    members = []
    for number, order in enumerate(([0, 1], [1, 0])):
        peers = group(run, 2, members, number)
        define(peers[0], weights(1))
        define(peers[1], weights(2))
        before = [held(peer) for peer in peers]
        calls = votes(peers, 0, "send", order=order)
        results = ended(calls)
        equal(sorted(result["rc"] for result in results), [SUCCESS, INVALID_USAGE], "results")
        for place, call in enumerate(calls):
            equal(contents(results[place]), before[place], "content of a SEND_ONLY peer")
            if results[place]["rc"] == SUCCESS:
                members.append(peers[place])
            else:
                expelled(call, 0)
                peers[place].quit()


def test_senders_majority(run):
    """Two SEND_ONLY against one: the one is removed."""
    strategies(run, ["send"] * 3, [1, 1, 2], [0, 1])


def test_receivers_only(run):
    """[41] Two RECEIVE_ONLY with different content: both are removed."""
    strategies(run, ["receive"] * 2, [1, 2], [])


def test_receivers_only_equal(run):
    """[42] The same with equal content."""
    strategies(run, ["receive"] * 2, [1, 1], [])


def test_popular_and_receiver(run):
    """[43] ENFORCE_POPULAR and RECEIVE_ONLY: only the former succeeds."""
    strategies(run, ["popular", "receive"], [1, 2], [0])


def test_popular_and_sender(run):
    """[44] ENFORCE_POPULAR and SEND_ONLY."""
    strategies(run, ["popular", "send"], [1, 2], [0])


def test_popular_and_two_senders(run):
    """[45] ENFORCE_POPULAR and two SEND_ONLY, which have the majority."""
    strategies(run, ["popular", "send", "send"], [1, 2, 2], [0])


def test_all_three(run):
    """[46] ENFORCE_POPULAR, SEND_ONLY and RECEIVE_ONLY."""
    strategies(run, ["popular", "send", "receive"], [1, 2, 3], [0])


def test_sender_and_receiver(run):
    """SEND_ONLY and RECEIVE_ONLY: the receiver gets the sender's content."""
    strategies(run, ["send", "receive"], [1, 2], [0, 1], moves=[0, W])


def test_receivers_are_more(run):
    """One sender and two receivers that agree: they still get the sender's content."""
    strategies(run, ["send", "receive", "receive"], [1, 2, 2], [0, 1, 2], moves=[0, W, W])


def test_receiver_sends_nothing(run):
    """A RECEIVE_ONLY peer with the correct content is no donor: all content is from the sender."""
    peers = start(run, 3)
    define(peers[:2], f"w,u8,{20 * MIB},rand:1")
    define(peers[2], f"w,u8,{20 * MIB},rand:2")
    results = sync(peers, 0, ["send", "receive", "receive"])
    equal(moved(results), [(20 * MIB, 0), (0, 0), (0, 20 * MIB)], "bytes")


def test_strategies_in_groups(run):
    """[47] ENFORCE_POPULAR and SEND_ONLY in one group, two identical SEND_ONLY in the other."""
    peers = start(run, 2)
    other = group(run, 2, peers, 1)
    define(peers + other, weights(1))
    calls = votes(peers, 0, ["popular", "send"]) + votes(other, 0, "send")
    nothing_moved(wait_all([calls[0], *calls[2:]]))
    expelled(calls[1], 0)


def test_outdated_sender(run):
    """A SEND_ONLY peer that would have to receive, since its revision is too low, is removed; so is one with fewer
    votes."""
    peers = start(run, 3)
    define(peers, weights(1))
    sync(peers, 0)
    calls = votes(peers, [1, 1, 0], "send")
    nothing_moved(wait_all(calls[:2]))
    expelled(calls[2], 0)


# ---- tensors that need not be equal


def own(seed):
    return [weights(1), f"own,f32,1000,rand:{seed},unequal"]


def test_unequal(run):
    """They are not compared, and not transferred among peers that start together."""
    peers = start(run, 3)
    for place, peer in enumerate(peers):
        define(peer, *own(place))
    for revision in range(3):
        results = [call.wait(rc=SUCCESS) for call in votes(peers, revision)]
        nothing_moved(results)
        same(results, unequal=["own"])
        equal(len({str(result["tensors"]) for result in results}), 3, "different content")


def test_unequal_to_newcomers(run):
    """A newcomer receives them once, from one donor, no matter if its revision and content equal the others'."""
    peers = start(run, 2)
    for place, peer in enumerate(peers):
        define(peer, *own(place))
    revision = 0
    wait_all(votes(peers, revision))
    for fresh, late in ((weights(1), False), (weights(5), False), (weights(1), True), (weights(5), True)):
        revision += 1
        newcomer = run.join(1, peers)
        define(newcomer, fresh, f"own,f32,1000,rand:{100 + revision},unequal")
        results = wait_all(votes(peers + [newcomer], [revision, revision, 0 if late else revision]))
        same(results, unequal=["own"])
        received(results, 0, 0, W if fresh == weights(1) else 2 * W)
        check(results[2]["tensors"][1] in [result["tensors"][1] for result in results[:2]], f"whose is it? {results}")
        revision += 1
        newcomer.do("poke", "own", 0, 1)
        results = wait_all(votes(peers + [newcomer], revision))
        nothing_moved(results)
        newcomer.quit()
        update(peers)


def test_unequal_beside_equal(run):
    """An established peer receives the equal tensors in which it differs, and keeps its other content."""
    peers = start(run, 3)
    for place, peer in enumerate(peers):
        define(peer, *own(place))
    wait_all(votes(peers, 0))
    before = held(peers[2])
    peers[2].do("poke", "w", 5, 5)
    results = wait_all(votes(peers, 1))
    received(results, 0, 0, W)
    equal(results[2]["tensors"], before, "content")


# ---- arguments and concurrent calls


def test_arguments(run):
    """Calls with errors are refused at once, with a reason that names the mistake; the others are not affected, and the
    run continues."""
    peers = start(run, 2)
    a = peers[0]
    for tensors, part in (
        ([weights(1), weights(2)], "'w'"),
        ([",f32,1,const:1"], "name"),
        (["w,f32,4,zero,null"], "data"),
        (["w,99,4,zero"], "data type"),
        (["w,f32,4,const:1,cuda"], "CUDA"),
        (["w,f32,4,const:1,device=7"], "device"),
    ):
        define(a, *tensors)
        refused = a.do("sync", "popular", 0, rc=INVALID_ARGUMENT)
        check(part.strip("'") in refused["words"], f"words for {tensors}: {refused['words']}")
    define(a, weights(1))
    check(a.do("sync", 3, 0, rc=INVALID_ARGUMENT)["words"], "words for a strategy")
    refused = a.do("sync", "popular", (1 << 64) - 1, rc=INVALID_ARGUMENT)
    check("revision" in refused["words"], f"words: {refused['words']}")
    define(peers[1], weights(1))
    nothing_moved(sync(peers, (1 << 64) - 2))


def test_unconnected(run):
    peer = run.peer()
    run.start_master()
    peer.create(run.address)
    define(peer, weights(1))
    failed(peer.do("sync", "popular", 3, rc=INVALID_USAGE), 3)


def test_pending_operations(run):
    """[15] Refused while operations are launched and not awaited; the operation continues."""
    peers = start(run, 2)
    define(peers, weights(1))
    peers[0].do("launch", 9, 4, "i32", "sum", "const:1")
    refused = peers[0].do("sync", "popular", 0, rc=PENDING_OPS)
    check(refused["words"], "words")
    peers[1].do("launch", 9, 4, "i32", "sum", "const:2")
    for peer in peers:
        peer.do("await", 9)
    nothing_moved(sync(peers, 0))


def test_no_launch_meanwhile(run):
    """While one thread synchronizes, another one may not launch, synchronize, or query pending peers."""
    peers = start(run, 2)
    define(peers, weights(1))
    waiting = peers[0].start("sync", "popular", 0)
    peers[0].until_waiting()
    for words in (["launch", 9, 4, "i32", "sum", "const:1"], ["sync", "popular", 0], ["pending"]):
        check(peers[0].do(*words, rc=INVALID_USAGE)["words"], f"words for {words}")
    still([waiting], "one has not voted")
    nothing_moved(wait_all([waiting, peers[1].start("sync", "popular", 0)]))
    for call in [peer.start("reduce", 9, 4, "i32", "sum", "const:1") for peer in peers]:
        call.wait(rc=SUCCESS)


def test_between_reductions(run):
    """Alternating synchronizations and reductions of both kinds match correctly."""
    peers = start(run, 3)
    for step in range(6):
        define(peers, weights(step))
        sync(peers, step)
        for count in (100, 100000):
            calls = [peer.start("reduce", 4, count, "f32", "sum", f"mark:{bit}") for bit, peer in enumerate(peers)]
            check(all(result["right"] and result["mask"] == 7 for result in wait_all(calls)), f"sums of step {step}")


def test_newcomer_waits(run):
    """A peer that connects while the others synchronize is admitted afterward, and takes part in the next one."""
    peers = start(run, 2)
    define(peers, weights(1))
    waiting = votes(peers[:1], 0)
    all_waiting(peers[:1])
    newcomer = run.peer()
    newcomer.create(run.address)
    connect = newcomer.start("connect").begun()
    run.master.wait_line("requests to join")
    nothing_moved(wait_all(waiting + votes(peers[1:], 0)))
    admits = [peer.start("admit") for peer in peers]
    connect.wait(rc=SUCCESS)
    wait_all(admits)
    define(newcomer, weights(9))
    received(sync(peers + [newcomer], [1, 1, 0]), 0, 0, W)


def test_deadline(run):
    """One peer never votes: the others wait, until call_timeout_ms withdraws their votes; then all can match."""
    deadline_ms = 5000  # all vote within it at last, even if a busy machine stops each of them for a second
    run.start_master()
    peers = run.join(3, call_timeout_ms=deadline_ms)
    define(peers, weights(1))
    for _ in range(2):
        calls = votes(peers[:2], 5)
        for result in ended(calls):
            failed(result, 5)
            check("deadline" in result["words"], f"words: {result['words']}")
            check(result["us"] >= deadline_ms * 1000, f"ended after {result['us']} us")
            figure("ms until the deadline", result["us"] / 1000 - deadline_ms, "ms")
    nothing_moved(sync(peers, 5))


def test_named_while_waiting(run):
    """Reports say that a peer waits in a synchronization, and for which peers."""
    peers = start(run, 2)
    define(peers, weights(1))
    waiting = peers[0].start("sync", "popular", 0)
    text = peers[0].until_waiting(part="synchronize shared state")
    check("waits for peer" in text, f"who is waited for: {text}")
    peers[1].start("update")
    peers[0].wait_log("can never meet")
    peers[1].kill()
    nothing_moved([waiting.wait(rc=SUCCESS)])


def test_leave_during_vote(run):
    """One peer leaves in order while the others wait for its vote: they continue without it."""
    *peers, leaver = start(run, 3)
    define(peers, weights(1))
    calls = votes(peers, 0)
    all_waiting(peers)
    still(calls, "one has not voted")
    leaver.do("destroy")
    nothing_moved(wait_all(calls))


harness.main()
