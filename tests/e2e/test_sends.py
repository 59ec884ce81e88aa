"""Send and receive: a peer that loses its partner gets the error with its name, and no other peer is affected."""

import random
import time

import harness
import phases
from harness import INVALID_USAGE, LOST, SUCCESS
from harness import check, equal, say
from phases import STRICT, restart

SMALL, BULK, MIB = 50, 100000, 1 << 18  # elements of 4 bytes
KILLS = 12


def begun(peer, verb, *arguments):
    return peer.start(verb, *arguments).begun()


def meet(send, receive):
    """Checks that both succeed, and that the received data equals the sent data."""
    sent, got = send.wait(rc=SUCCESS), receive.wait(rc=SUCCESS)
    check(got["right"] and got["first"] == sent["first"] and sent["right"], f"{sent} arrives as {got}")


def works(peers, tag):
    """Sends between all of them, in both directions."""
    calls = []
    for count in (SMALL, BULK):
        for i, source in enumerate(peers):
            for k, destination in enumerate(peers):
                if i != k:
                    calls.append((source.start("send", k, tag, count, 1000 * i + k),
                                  destination.start("recv", i, tag, count)))
                    for call in calls[-1]:
                        call.begun()
    for send, receive in calls:
        meet(send, receive)


def told(call, gone):
    """Checks that the call failed because of the loss of this peer, and names it."""
    result = call.wait(rc=LOST)
    equal([lost[: len(gone)] for lost in result["lost"]], [gone], "those lost")
    check(gone in result["words"], result["words"])


class Streams:
    """Continuous sends between other peers, which no loss elsewhere may end."""

    def __init__(self, seed, count=BULK):
        self.seed, self.count, self.calls = seed, count, {}

    def start(self, peers, *pair):
        ranks = {peer: rank for rank, peer in enumerate(peers)}
        for peer, other in (pair, pair[::-1]):
            self.calls[peer] = peer.start("stream", ranks[other], self.seed, self.count)

    def more(self, peers, turns=3):
        """Waits for further steps."""
        last = {peer: len(self.calls[peer].steps) for peer in peers}

        def done():
            ended = [self.calls[peer].result for peer in peers if self.calls[peer].result]
            check(not ended, f"streams have ended: {ended}")
            return all(len(self.calls[peer].steps) >= last[peer] + turns for peer in peers)

        harness.wait_until(done, f"{turns} more turns of all streams")

    def stop(self, peers):
        """Checks that all data arrived correctly."""
        for peer in peers[::2]:
            peer.do("stop")
        for peer in peers:
            result = self.calls[peer].wait(rc=SUCCESS)
            check(result["right"], f"{peer.name} has got something else: {result}")


def lose(run, count, end, **master):
    """In each of two pairs one end is lost: in one before the other end has called, in the other during a send. A third
    pair continues, and the two remaining peers can send to each other."""
    peers = phases.start(run, 5, **master)
    gone = run.id_of(peers[4])
    beside = Streams(1)
    beside.start(peers, *peers[2:4])
    waits = begun(peers[0], "send", 4, 1, count, 7)
    hopes = begun(peers[1], "recv", 4, 1, count)
    open_send = begun(peers[0], "send", 1, 2, count, 5)
    peers[0].until_waiting()
    beside.more(peers[2:4])
    end(peers[4])
    told(waits, gone)
    told(hopes, gone)
    beside.more(peers[2:4])
    meet(open_send, peers[1].start("recv", 0, 2, count))
    words = peers[0].do("recv", 4, 1, count, rc=harness.INVALID_ARGUMENT)["words"]
    check("the group has 4 members" in words, words)
    beside.stop(peers[2:4])
    works(peers[:4], 3)
    return peers


def test_kill_one(run):
    lose(run, BULK, lambda peer: peer.kill())


def test_kill_one_tiny(run):
    lose(run, SMALL, lambda peer: peer.kill())


def test_stop_one(run):
    peers = lose(run, BULK, lambda peer: peer.stop(), **STRICT)
    peers[4].resume()


def test_leave_one(run):
    lose(run, SMALL, lambda peer: peer.do("destroy"))


def test_kill_at_random(run):
    """In one of three pairs that send continuously, one end is killed at a random moment: its partner gets the error,
    and the others continue. Then a newcomer is its partner."""
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    peers = phases.start(run, 6)
    for turn in range(KILLS):
        streams = Streams(seed % 1000 + turn, chance.choice((SMALL, BULK, 20 * BULK)))
        order = chance.sample(peers, 6)
        pairs = [order[i : i + 2] for i in (0, 2, 4)]
        for pair in pairs:
            streams.start(peers, *pair)
        streams.more(peers, 1)
        time.sleep(chance.uniform(0, 0.03))  # a random moment, as part of the test
        victim, left = chance.sample(pairs[0], 2)
        gone, others = run.id_of(victim), order[2:]
        victim.kill()
        told(streams.calls[left], gone)
        check(streams.calls[left].result["right"], f"{left.name} has got something else")
        streams.more(others)
        streams.stop(others)
        peers.remove(victim)
        peers.append(run.join(1, peers))
    works(peers, 1)


def test_master_restart(run):
    """The master is killed during many sends, some of which only one end has called."""
    peers = phases.start(run, 4)
    streams = Streams(3)
    streams.start(peers, *peers[:2])
    half = [begun(peers[2], "send", 3, 1, count, 9) for count in (SMALL, BULK)]
    lone = begun(peers[3], "recv", 2, 2, SMALL)
    streams.more(peers[:2])
    run.master.kill()
    late = begun(peers[3], "recv", 2, 1, SMALL)
    restart(run)
    meet(half[0], late)
    meet(half[1], peers[3].start("recv", 2, 1, BULK))
    meet(peers[2].start("send", 3, 2, SMALL, 4), lone)
    streams.more(peers[:2])
    streams.stop(peers[:2])
    works(peers, 5)


def test_large_group(run):
    """Some pairs have no link. The first large send opens one, and losses of other peers do not end it."""
    peers = phases.start(run, 18)
    meet(begun(peers[2], "send", 9, 1, SMALL, 5), peers[9].start("recv", 2, 1, SMALL))
    meet(begun(peers[2], "send", 9, 1, BULK, 5), peers[9].start("recv", 2, 1, BULK))
    meet(peers[5].start("send", 9, 2, BULK, 6), begun(peers[9], "recv", "any", 2, BULK))
    works(peers, 7)
    streams = Streams(4)
    streams.start(peers, peers[2], peers[9])
    for victim in peers[16:]:
        streams.more([peers[2], peers[9]])
        victim.kill()
    streams.more([peers[2], peers[9]])
    streams.stop([peers[2], peers[9]])


def test_large_group_differ(run):
    """Even without a link, both ends get the difference between their calls."""
    peers = phases.start(run, 18)
    for count, other in ((BULK, BULK + 1), (SMALL, BULK), (BULK, SMALL)):
        for first in (0, 1):
            calls = [lambda: begun(peers[3], "send", 12, 1, count, 1), lambda: begun(peers[12], "recv", 3, 1, other)]
            for result in [call.wait() for call in [calls[first](), calls[1 - first]()]]:
                check(result["rc"] in (INVALID_USAGE, harness.MISMATCH), f"{count}, {other}: {result}")
                words = result["words"]
                check(all(run.id_of(peer) in words for peer in (peers[3], peers[12])), words)


def microbatches(stages, many, first):
    """Each stage forwards micro-batches; all are launched at once. Returns the receives and the sends of each stage."""
    calls = {stage: ([], []) for stage in stages}
    for number in range(many):
        for stage, peer in enumerate(stages):
            if stage > 0:
                calls[peer][0].append(begun(peer, "recv", stage - 1, number, MIB))
            if stage + 1 < len(stages):
                calls[peer][1].append(begun(peer, "send", stage + 1, number, MIB, first + number))
    return calls


def all_right(stages, calls):
    for before, after in zip(stages, stages[1:]):
        for send, receive in zip(calls[before][1], calls[after][0]):
            meet(send, receive)


def test_pipeline(run):
    """Twenty stages forward 1 MiB, and back. One is killed during this: its neighbors get the error, the others finish,
    and the remaining ones form a pipeline."""
    stages = phases.start(run, 20)
    all_right(stages, microbatches(stages, 2, 10))
    back = stages[1::-1]
    meet(begun(back[0], "send", 0, 99, MIB, 4), back[1].start("recv", 1, 99, MIB))
    gone = run.id_of(stages[10])
    waits = begun(stages[9], "send", 10, 50, MIB, 7)
    hopes = begun(stages[11], "recv", 10, 50, MIB)
    beside = [begun(stages[17], "recv", 4, 51, MIB), begun(stages[4], "send", 17, 51, MIB, 3)]
    stages[10].kill()
    told(waits, gone)
    told(hopes, gone)
    meet(beside[1], beside[0])
    del stages[10]
    for call in [stage.start("update") for stage in stages]:
        call.wait(rc=SUCCESS)
    all_right(stages, microbatches(stages, 2, 20))


def test_slow_any_two_of_forty(run):
    """1 MiB between any two of 40, in random order: each peer has one more link for each destination."""
    peers = phases.start(run, 40)
    chance = random.Random(5)
    for turn in range(4):
        order = list(range(40))
        chance.shuffle(order)
        calls = [(peers[i].start("send", k, turn, MIB, i), peers[k].start("recv", i, turn, MIB))
                 for i, k in zip(order, order[1:] + order[:1])]
        for send, receive in calls:
            meet(send, receive)


def test_slow_ten_thousand_in_flight(run):
    """Each of four peers has 2,500 sends of 64 KiB in flight before the first receive. An operation needs memory; its
    bytes need none."""
    peers = phases.start(run, 18)
    count, many = 16384, 2500
    before = [peer.rss_kib() for peer in peers[:4]]
    sends = [begun(peer, "sends", 8 + rank, 1, count, many) for rank, peer in enumerate(peers[:4])]
    harness.wait_until(lambda: all(phases.look(peer)["operations"] for peer in peers[:1]), "sends in the recorder")
    for peer, had in zip(peers[:4], before):
        grown = peer.rss_kib() - had
        say(f"{peer.name}: {grown / many:.1f} KiB for each send")
        check(grown < many * 24, f"{peer.name} needs {grown} KiB for {many} sends of 64 KiB")
    receives = [peer.start("recvs", rank, 1, count, many) for rank, peer in enumerate(peers[8:12])]
    for call in sends + receives:
        check(call.wait(rc=SUCCESS)["right"], f"{call!r} has got something else")


def test_deadline(run):
    """A receiver does not call: its sender gets an error that names it, and the next calls match."""
    run.environment["PCCL_OP_TIMEOUT_MS"] = "700"
    peers = phases.start(run, 3)
    for tag, count in enumerate((SMALL, BULK)):
        words = peers[0].do("send", 1, tag, count, 1, rc=LOST)["words"]
        check("deadline" in words and run.id_of(peers[1]) in words, words)
        words = peers[1].do("recv", 0, tag, count, rc=LOST)["words"]
        check("deadline" in words, words)
        meet(begun(peers[0], "send", 1, tag, count, 2), peers[1].start("recv", 0, tag, count))


def test_differ(run):
    """The errors at both ends contain both counts."""
    peers = phases.start(run, 2)
    for count, other in ((SMALL, SMALL + 1), (BULK, BULK + 1), (SMALL, BULK)):
        calls = [begun(peers[0], "send", 1, 1, count, 1), begun(peers[1], "recv", 0, 1, other)]
        for call, result in zip(calls, [call.wait() for call in calls]):
            check(result["rc"] in (INVALID_USAGE, harness.MISMATCH), f"{call!r}: {result}")
            check(str(count) in result["words"] and str(other) in result["words"], result["words"])
    works(peers, 1)


harness.main()
