"""Lost peers, stops, restarts and strangers during synchronization of shared state.

Donors that must stall during a transfer are reached through gates: proxies that pass some bytes and then hold, until
they are opened. `test_state_faults.py --soak SECONDS` runs the churn for this time.
"""

import random
import statistics
import sys
import time

import harness
import states
import wire
from harness import INVALID_USAGE, MASTER_FAILED, SLOW, SUCCESS
from harness import check, equal, figure, say, wait_ms, within
from loops import kill_all
from phases import PATIENT, RESTARTED, STRICT, knew
from proxy import PROXIED, behind_proxy
from states import MIB, all_waiting, define, ended, failed, group, held, nothing_moved, received, same, still, sync
from states import update, votes, wait_all

SIZE = 24 * MIB
BIG = 128 * MIB if SLOW == 1 else 32 * MIB
LINK_STATE = 3
SOAK_S = 0.0


class Gates:
    """Members with donors behind gates, and requesters with different content."""

    def __init__(self, run, donors, requesters, room=3 * MIB, size=SIZE, master=None):
        self.run = run
        run.environment["PCCL_WHERE_MS"] = states.WHERE_MS
        run.start_master(**{**PROXIED, **(master or {})})
        self.gates, self.peers = [], []
        for _ in range(donors):
            self.behind_gate(room)
        for _ in range(requesters):
            peer = run.peer()
            peer.create(run.address)
            run.admit(peer, self.peers)
            self.peers.append(peer)
        self.donors, self.requesters = self.peers[:donors], self.peers[donors:]
        define(self.donors, f"w,u64,{size // 8},rand:1")
        define(self.requesters, f"w,u64,{size // 8},rand:2")
        self.want = held(self.donors[0])

    def behind_gate(self, room):
        peer, gate = behind_proxy(self.run)
        self.run.admit(peer, self.peers)
        gate.room = room
        self.gates.append(gate)
        self.peers.append(peer)

    def begin(self, revisions=None, wait=True):
        """Starts the calls; returns them when every gate is shut, during the transfer."""
        default = [1] * len(self.donors) + [0] * len(self.requesters)
        calls = votes(self.peers, revisions or default)
        if wait:
            harness.poll(lambda: all(gate.is_held() for gate in self.gates), "the transfer to begin")
            still(calls, "the transfer is not complete")
        return calls

    def open(self, which=None):
        for gate in [self.gates[which]] if which is not None else self.gates:
            gate.hold(False)

    def complete(self, calls, revision=1):
        """Checks that all of these have succeeded, with the donors' content."""
        results = [call.wait(rc=SUCCESS) for call in calls]
        for result in results:
            equal((result["tensors"], result["revision"]), (self.want, revision), f"result: {result['rc']}")
        return results

    def go_on(self, peers, revision=2):
        """Checks that these can synchronize again, and admit a newcomer that receives all content."""
        update(peers)
        nothing_moved(sync(peers, revision))
        newcomer = self.run.join(1, peers)
        define(newcomer, f"w,u64,{SIZE // 8},rand:9")
        results = sync(peers + [newcomer], [revision + 1] * len(peers) + [0])
        received(results, *[0] * len(peers), SIZE)


# ---- kill -9


def test_kill_donor(run):
    """One of three donors is killed during the transfer: the others send the missing content."""
    gates = Gates(run, 3, 1)
    calls = gates.begin()
    since_us = gates.donors[0].kill()
    gates.open()
    results = gates.complete(calls[1:])
    knew(results, since_us, "it was complete")
    check(results[-1]["rx"] >= SIZE, f"received: {results[-1]}")
    gates.go_on(gates.peers[1:])


def test_kill_two_donors(run):
    gates = Gates(run, 3, 2)
    calls = gates.begin()
    gates.donors[0].kill()
    gates.donors[2].kill()
    gates.open()
    gates.complete([calls[1], *calls[3:]])
    gates.go_on([gates.donors[1]] + gates.requesters)


def test_kill_requester(run):
    """The only requester is killed during the transfer: the donors do not wait."""
    gates = Gates(run, 2, 1)
    calls = gates.begin()
    since_us = gates.requesters[0].kill()
    knew(gates.complete(calls[:2]), since_us, "the donors knew")
    gates.open()
    gates.go_on(gates.donors)


def test_kill_one_of_two_requesters(run):
    gates = Gates(run, 2, 2)
    calls = gates.begin()
    gates.requesters[0].kill()
    still([calls[3]], "the gates are shut")
    gates.open()
    gates.complete([*calls[:2], calls[3]])
    gates.go_on(gates.donors + gates.requesters[1:])


def test_kill_all_donors(run):
    """No donor is left: the call fails alike for all requesters, with a reason, and the old revision. A new peer with
    the content sends it to them."""
    gates = Gates(run, 2, 2)
    calls = gates.begin()
    for donor in gates.donors:
        donor.kill()
    for result in ended(calls[2:]):
        failed(result, 0)
    survivors = gates.requesters
    update(survivors)
    newcomer = run.join(1, survivors)
    define(newcomer, f"w,u64,{SIZE // 8},rand:1")
    results = sync(survivors + [newcomer], [0, 0, 1])
    equal((results[0]["tensors"], results[0]["revision"]), (gates.want, 1), "content and revision")
    nothing_moved(sync(survivors + [newcomer], 2))


def test_kill_voter(run):
    """One peer that has voted, and one that has not, are killed while the others wait: they continue without them."""
    peers = states.start(run, 5, **PATIENT)
    define(peers, "w,f32,1000,rand:1")
    for revision in range(2):
        calls = votes(peers[:-1], revision)
        all_waiting(peers[:-1])
        peers[revision].kill()
        still(calls, "one has not voted")
        if revision == 0:
            nothing_moved(wait_all(calls[1:] + votes(peers[-1:], revision)))
        else:
            peers[-1].kill()
            nothing_moved(wait_all(calls[:revision] + calls[revision + 1 :]))
        peers = [peer for peer in peers if not peer.killed]
    update(peers)
    nothing_moved(sync(peers, 2))


def test_kill_winner(run):
    """The only peer with the highest revision is killed before all have voted: the others agree without it."""
    peers = states.start(run, 3, **PATIENT)
    define(peers[:1], "w,f32,1000,rand:1")
    define(peers[1:], "w,f32,1000,rand:2")
    calls = votes(peers[:2], [9, 4])
    all_waiting(peers[:2])
    peers[0].kill()
    run.master.wait_line("departs")
    results = wait_all([calls[1], *votes(peers[2:], 4)])
    nothing_moved(results)
    equal(results[0]["revision"], 4, "revision")


def test_kill_at_random(run):
    """A donor or the requester is killed at a random moment of the call, and replaced: the others have equal content,
    and no peer waits."""
    seed = random.SystemRandom().randrange(1 << 32)
    say(f"seed {seed}")
    dice = random.Random(seed)
    peers = states.start(run, 4, **PATIENT)
    content = f"w,u64,{BIG // 8},rand:1"
    define(peers, content)
    want = held(peers[0])
    sync(peers, 0)
    took_ms, codes, revision = 500.0, [], 1
    for _ in range(6):
        define(peers[-1:], f"w,u64,{BIG // 8},rand:{revision + 7}")
        calls = votes(peers, [revision] * 3 + [0])
        for call in calls:
            call.begun()
        time.sleep(dice.uniform(0, took_ms) / 1000)  # a random moment, as part of the test
        victim = dice.choice(peers)
        victim.kill()
        survivors = [peer for peer in peers if peer is not victim]
        results = [call.wait(rc=SUCCESS) for call in calls if call.peer is not victim]
        for result in results:
            equal((result["tensors"], result["revision"]), (want, revision), "content and revision")
        took_ms = 0.5 * took_ms + 0.5 * max(result["us"] for result in results) / 1000
        codes.append(peers.index(victim))
        update(survivors)
        peers = survivors + [run.join(1, survivors)]
        revision += 1
    say(f"victims {codes}; a call took about {took_ms:.0f} ms")


# ---- SIGSTOP


def test_stop_donor(run):
    """One of three donors is stopped during the transfer: the others send the missing content long before it counts as
    lost. It resumes in time, and has succeeded too."""
    gates = Gates(run, 3, 1)
    calls = gates.begin()
    since_us = gates.donors[0].stop()
    gates.open()
    knew(gates.complete(calls[1:]), since_us, "it was complete")
    gates.donors[0].resume()
    gates.complete(calls[:1])
    gates.go_on(gates.peers)


def test_stop_only_donor(run):
    """The only donor is stopped: the requester waits; the donor resumes in time, and all succeed."""
    gates = Gates(run, 1, 1)
    calls = gates.begin()
    gates.donors[0].stop()
    gates.open()
    wait_ms(1500)  # longer than the limit for a donor that others can replace
    still(calls, "its only donor stands still")
    gates.donors[0].resume()
    gates.complete(calls)
    gates.go_on(gates.peers)


def test_stop_requester(run):
    """The requester is stopped: the donors wait for it until the silence limit; it gets the error of its removal, and
    its state is from an incomplete transfer."""
    gates = Gates(run, 2, 1, master=STRICT)
    calls = gates.begin()
    since_us = gates.requesters[0].stop()
    knew(gates.complete(calls[:2]), since_us, "the donors knew")
    gates.open()
    gates.requesters[0].resume()
    failed(calls[2].wait(), 0)
    equal(gates.requesters[0].do("attr", rc=None)["rc"], INVALID_USAGE, "it is still connected")
    run.admit(gates.requesters[0], gates.donors)
    results = sync(gates.peers, [2, 2, 0])
    equal(results[2]["tensors"], gates.want, "content")


def test_stop_voter(run):
    """One peer does not vote because it is stopped: the others wait until the silence limit."""
    peers = states.start(run, 3, **STRICT)
    define(peers, "w,f32,1000,rand:1")
    calls = votes(peers[:2], 0)
    all_waiting(peers[:2])
    since_us = peers[2].stop()
    results = wait_all(calls)
    nothing_moved(results)
    knew(results, since_us)
    peers[2].kill()
    nothing_moved(sync(peers[:2], 1))


# ---- the master


def restart(run):
    run.master.kill()
    run.start_master(run.port, **RESTARTED)


def test_master_restart_in_vote(run):
    """The master is killed while one vote is missing; the next one counts them. The revision is remembered."""
    peers = states.start(run, 3, **RESTARTED)
    define(peers[:2], "w,f32,1000,rand:1")
    define(peers[2:], "w,f32,1000,rand:2")
    received(sync(peers, 5), 0, 0, 4000)
    for revision in (6, 7):
        define(peers[2:], "w,f32,1000,rand:3")
        calls = votes(peers[:2], revision)
        all_waiting(peers[:2])
        restart(run)
        results = wait_all(calls + votes(peers[2:], revision))
        same(results)
        received(results, 0, 0, 4000)
    restart(run)
    calls = votes(peers, [8, 8, 9])
    nothing_moved(wait_all(calls[:2]))
    states.expelled(calls[2], 9)


def test_master_restart_in_transfer(run):
    """The master is killed during the transfer, once while it stalls, once while it continues: the transfer completes
    nevertheless."""
    gates = Gates(run, 2, 1, master=RESTARTED)
    calls = gates.begin()
    restart(run)
    still(calls, "the gates are shut")
    gates.open()
    gates.complete(calls)
    define(gates.requesters, f"w,u64,{SIZE // 8},rand:3")
    calls = gates.begin([2, 2, 0], wait=False)
    for call in calls:
        call.begun()
    restart(run)
    gates.complete(calls, 2)
    gates.go_on(gates.peers, 3)


def test_master_restart_and_a_death(run):
    """The master and a donor are killed together during the transfer."""
    gates = Gates(run, 3, 1, master=RESTARTED)
    calls = gates.begin()
    run.master.kill()
    gates.donors[1].kill()
    run.start_master(run.port, **RESTARTED)
    gates.open()
    gates.complete([calls[0], *calls[2:]])
    gates.go_on([gates.donors[0], *gates.donors[2:], *gates.requesters])


def test_master_gone(run):
    """The master is killed during the transfer and does not return: all calls end with a reason after master_lost_ms.
    """
    lost_ms = 4000
    run.environment.update(PCCL_MASTER_LOST_MS=str(lost_ms), PCCL_ALONE_MS=str(RESTARTED["recover_ms"]))
    gates = Gates(run, 2, 1, master=RESTARTED)
    calls = gates.begin()
    since_us = run.master.kill()
    for result, revision in zip(ended(calls), (1, 1, 0)):
        failed(result, revision)
        check(result["at"] - since_us >= lost_ms * 1000, "it gave up too early")
        knew([result], since_us, "it gave up")
    gates.open()


# ---- others


def test_groups_are_independent(run):
    """While one group stalls in a transfer, another one synchronizes; a killed peer there has no effect."""
    gates = Gates(run, 2, 1)
    others = group(run, 3, gates.peers, 7)
    define(others, "w,f32,1000,rand:1")
    calls = gates.begin()
    for revision in range(3):
        nothing_moved(sync(others, revision))
    waiting = votes(others[:2], 3)
    all_waiting(others[:2])
    others[2].kill()
    nothing_moved(wait_all(waiting))
    still(calls, "the gates are shut")
    gates.open()
    gates.complete(calls)


def test_strangers(run):
    """Garbage, silence, and a stranger that requests the content, at every port during a transfer: no effect, and no
    content is revealed."""
    gates = Gates(run, 2, 1)
    calls = gates.begin()
    forge = run.forge
    noise = random.Random(1)
    stranger = wire.identity()
    openings = {
        "random bytes": noise.randbytes(3000),
        "zeros": bytes(64),
        "a length of 4 GiB": b"\xff" * 4 + bytes(28),
        "another message": forge.frame(wire.VOTE, wire.vote(0, 0), 1),
        "one who wants state": forge.frame(
            wire.LINK_HELLO, wire.link_hello(wire.identity(), stranger, wire.identity(), kind=LINK_STATE)
        ),
    }
    silent = []
    for peer in gates.peers:
        for port in peer.listening_ports():
            host = "127.0.0.2" if peer in gates.donors else "127.0.0.1"
            silent.append(wire.Connection(port, host=host))
            for what, data in openings.items():
                connection = wire.Connection(port, host=host)
                connection.send(data)
                harness.poll(connection.is_closed, f"{peer.name} to close a connection that began with {what}")
                check(len(connection.buffer) < 4096, f"{peer.name} gave {len(connection.buffer)} bytes to {what}")
                connection.close()
    still(calls, "the gates are shut")
    gates.open()
    gates.complete(calls)
    for connection in silent:
        connection.close()
    gates.go_on(gates.peers)


def test_join_in_transfer(run):
    """A newcomer that connects during the transfer waits for its end."""
    gates = Gates(run, 2, 1)
    calls = gates.begin()
    newcomer = run.peer()
    newcomer.create(run.address)
    connect = newcomer.start("connect")
    run.master.wait_line("requests to join")
    still(calls + [connect], "the gates are shut")
    gates.open()
    gates.complete(calls)
    run.let_in(connect, gates.peers)
    define(newcomer, f"w,u64,{SIZE // 8},rand:1")
    nothing_moved(sync(gates.peers + [newcomer], 2))


# ---- for long


class Churn:
    """Eight peers that train together, of which one is never killed; others join and leave."""

    PEERS = 8
    GROWTH_KIB = 16384  # of a peer, from one third of the changes to the end; its reductions' scratch varies
    PAUSE_S = (0.3, 1.0)  # between two changes in a run of some seconds

    def __init__(self, run, changes, seconds=0):
        """seconds: length of the run, instead of a number of changes."""
        self.run, self.changes, self.timed = run, changes, seconds > 0
        if self.timed:
            self.changes = int(seconds * 2 / sum(self.PAUSE_S))
        self.seed = random.SystemRandom().randrange(1 << 32)
        self.dice = random.Random(self.seed)
        run.environment.update(PCCL_LOG_LEVEL="WARN", PCCL_DIAL_MAX_MS="50")
        run.start_master(**RESTARTED)
        self.loops, self.connects, self.dead, self.bits = {}, {}, {}, 0
        self.restarts, self.restarted_us, self.too_early = 0, 0, 0

    def spawn(self):
        peer = self.run.peer()
        peer.create(self.run.address)
        self.connects[peer] = peer.start("connect")
        self.loops[peer] = None

    def came_too_early(self, peer):
        """Returns true if the peer asked a restarted master before any member had returned, so that it started a run,
        which ended with their return (PROTOCOL 12.1). A peer that was ever in the run does not get this error."""
        loop, connected = self.loops[peer], self.connects[peer].result
        ended = loop and loop.result
        if not ended or "an older run resumed at this master" not in ended.get("words", ""):
            return False
        return self.restarts > 0 and connected["at"] > self.restarted_us

    def come_again(self, peer):
        """Rejoins, like a user's program. Its steps in that other run do not count."""
        self.too_early += 1
        peer.do("destroy")
        peer.create(self.run.address)
        self.connects[peer] = peer.start("connect")
        self.loops[peer] = None

    def follow(self):
        """Starts the loops of the members."""
        for peer, loop in self.loops.items():
            check(peer.alive(), f"{peer.name} has ended by itself")
            if self.came_too_early(peer):
                self.come_again(peer)
                continue
            check(loop is None or loop.result is None, f"{peer.name} has stopped: {loop and loop.result}")
            connected = self.connects[peer].result
            if connected and connected["rc"] == MASTER_FAILED and self.restarts:  # without a master
                self.connects[peer] = peer.start("connect")
            elif loop is None and connected:
                equal(connected["rc"], SUCCESS, f"connect: {connected}")
                self.bits = (self.bits + 1) % 64
                self.loops[peer] = peer.start("train", self.bits, self.seed % 1000, 3 * MIB + 12)

    def all_steps(self, least=2):
        """Waits until each has made at least this number of further steps."""
        seen = {loop: len(loop.steps) for loop in self.loops.values() if loop}

        def done():
            self.follow()
            return all(loop and len(loop.steps) >= seen.get(loop, 0) + least for loop in self.loops.values())

        harness.wait_until(done, "steps of all")

    def pause(self):
        """Lets some steps or some time pass. Joins, steps and restarts overlap in it, which is part of the test."""
        if self.timed:
            time.sleep(self.dice.uniform(*self.PAUSE_S))
            self.follow()
            return
        eldest = next(iter(self.loops.values()))
        wanted = len(eldest.steps) + self.dice.randint(2, 16)

        def done():
            self.follow()
            return len(eldest.steps) >= wanted

        harness.wait_until(done, "steps of the eldest")

    def change(self):
        """A peer joins or is killed."""
        ready = [peer for peer, loop in self.loops.items() if loop and loop.steps]
        if len(self.loops) < self.PEERS - 3 or (len(self.loops) < self.PEERS and self.dice.random() < 0.5):
            self.spawn()
        elif len(ready) > 4:
            victim = self.dice.choice(ready[1:])  # the first one remains
            victim.kill()
            self.dead[victim] = self.loops.pop(victim)

    def restart_master(self):
        self.restarted_us = self.run.master.kill()
        self.run.master.end(harness.DEADLINE)
        self.run.start_master(self.run.port, **RESTARTED)
        self.restarts += 1

    def start(self):
        for _ in range(self.PEERS):
            self.spawn()
        self.all_steps()
        settled, restarts_due = None, [0.2, 0.5, 0.8] if self.timed else [0.4]
        for change in range(self.changes):
            self.pause()
            self.change()
            gone = change / self.changes
            if restarts_due and gone > restarts_due[0]:
                restarts_due.pop(0)
                self.restart_master()
            if settled is None and gone > 0.33:
                settled = next(iter(self.loops)).rss_kib()
        self.all_steps()
        grown = next(iter(self.loops)).rss_kib() - settled
        say(f"seed {self.seed}: the eldest grew from {settled} KiB by {grown} KiB")
        if SLOW == 1:
            within(grown, -1 << 30, self.GROWTH_KIB, "KiB that the eldest has grown by")

    def judge(self):
        seen, failures, longest_us, fetched = {}, 0, [], 0
        for peer, loop in self.dead.items():
            if not loop:
                continue
            failures += len(loop.failures)
            longest_us += [step["longest_us"] for step in loop.steps]
            fetched += sum(step["rx"] > 0 for step in loop.steps)
            for step in loop.steps:
                seen.setdefault(step["step"], {})[peer.name] = step["digest"]
        for revision, digests in sorted(seen.items()):
            equal(len(set(digests.values())), 1, f"different content at revision {revision}: {digests}")
        compared = sum(len(digests) for digests in seen.values())
        say(
            f"{len(self.dead) - self.PEERS} more than {self.PEERS} peers, {self.restarts} restarts, {self.too_early} "
            f"came too early; {len(seen)} revisions, {compared} digests compared; {fetched} transfers, "
            f"{failures} failed calls; median of a step's longest "
            f"{statistics.median(longest_us) / 1000:.1f} ms"
        )
        check(failures == 0, f"{failures} synchronizations failed")
        figure("ms of the longest call", max(longest_us) / 1000, "ms")


def churn(run, changes, seconds=0):
    rig = Churn(run, changes, seconds)
    rig.start()
    kill_all(rig.loops, rig.dead)
    rig.judge()


def test_churn(run):
    """Kills and joins during training, and a restart of the master: at every revision all are equal."""
    churn(run, 18, SOAK_S)


def test_slow_churn(run):
    """The same for a minute, with three restarts."""
    churn(run, 0, 60)


if sys.argv[1:2] == ["--soak"]:
    SOAK_S = float(sys.argv[2])
    sys.argv[1:] = ["churn"]
harness.main()
