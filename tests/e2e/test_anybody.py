"""Receives from any peer: when a peer is lost, before or after its message is selected, the others' messages are
received."""

import random
import time

import harness
import phases
from harness import LOST, SUCCESS
from harness import check, equal, say
from phases import STRICT, restart

SMALL, BULK = 50, 100000  # elements of 4 bytes
KILLS = 8


class Funnel:
    """One peer receives the data of all others."""

    def __init__(self, run, peers, count):
        self.receiver, self.senders = peers[0], list(peers[1:])
        self.drain = self.receiver.start("drain", count)
        self.ids = {peer: run.id_of(peer)[:8] for peer in self.senders}
        self.pours = {peer: peer.start("pour", 0, count) for peer in self.senders}

    def more(self, turns=3):
        """Waits until further data of each sender has arrived."""
        seen = len(self.drain.steps)

        def done():
            check(self.drain.result is None, f"the receiver has ended: {self.drain.result}")
            froms = [step["from"][:8] for step in self.drain.steps[seen:]]
            return all(froms.count(self.ids[peer]) >= turns for peer in self.senders)

        harness.wait_until(done, f"{turns} more of each sender")

    def forget(self, peer):
        self.senders.remove(peer)
        return self.pours.pop(peer)

    def stop(self):
        """Checks that all received data is correct."""
        for peer in self.senders:
            peer.do("stop")
        for call in self.pours.values():
            call.wait(rc=SUCCESS)
        self.receiver.do("stop")
        self.receiver.do("abort")
        result = self.drain.wait(rc=SUCCESS)
        check(result["right"], f"something else has arrived: {result}")
        return result


def told(call, gone):
    """Checks that the call failed because of the loss of this peer, and names it."""
    result = call.wait(rc=LOST)
    equal([lost[: len(gone)] for lost in result["lost"]], [gone], "those lost")


def senders_go(run, count, end, **master):
    peers = phases.start(run, 5, **master)
    funnel = Funnel(run, peers, count)
    funnel.more()
    for victim in (peers[4], peers[3]):
        funnel.forget(victim)
        end(victim)
        funnel.more()
    funnel.stop()
    return peers


def test_kill_senders(run):
    senders_go(run, SMALL, lambda peer: peer.kill())


def test_kill_senders_bulk(run):
    senders_go(run, BULK, lambda peer: peer.kill())


def test_stop_sender(run):
    peers = senders_go(run, BULK, lambda peer: peer.stop(), **STRICT)
    for peer in peers[3:]:
        peer.resume()


def test_kill_receiver(run):
    """All senders get the error; another peer receives from the remaining ones."""
    peers = phases.start(run, 5)
    funnel = Funnel(run, peers, BULK)
    funnel.more()
    gone = run.id_of(peers[0])
    peers[0].kill()
    for call in funnel.pours.values():
        told(call, gone)
    again = Funnel(run, peers[1:], SMALL)
    again.more()
    again.stop()


def test_kill_at_random(run):
    """One of the senders is killed at a random moment, and a newcomer replaces it."""
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}")
    chance = random.Random(seed)
    peers = phases.start(run, 5)
    for _ in range(KILLS):
        funnel = Funnel(run, peers, chance.choice((SMALL, BULK)))
        funnel.more(1)
        time.sleep(chance.uniform(0, 0.03))  # a random moment, as part of the test
        victim = chance.choice(peers[1:])
        funnel.forget(victim)
        victim.kill()
        funnel.more(1)
        funnel.stop()
        peers.remove(victim)
        peers.append(run.join(1, peers))


def test_master_restart(run):
    """The master is killed while receives are open and sends wait."""
    peers = phases.start(run, 4)
    idle = peers[3].start("recv", "any", 9, SMALL).begun()
    funnel = Funnel(run, peers[:3], SMALL)
    funnel.more()
    run.master.kill()
    restart(run)
    funnel.more()
    peers[1].do("send", 3, 9, SMALL, 7, rc=SUCCESS)
    result = idle.wait(rc=SUCCESS)
    check(result["right"] and result["first"] == 7, f"{result}")
    funnel.stop()


harness.main()
