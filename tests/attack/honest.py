"""Honest members with a master, as the target of attacks."""

import harness
from harness import SLOW, check, within
from loops import SMALL, all_right, more_steps, start_loop
from phases import PATIENT
from roles import Member

GROWTH_KIB = 64 << 10


class Run:
    """Honest members with a master, and checks after an attack."""

    def __init__(self, run, count=3, elements=SMALL, loop=True, **master):
        self.run, self.elements, self.loops = run, elements, []
        run.environment.update(PCCL_LOG_LEVEL="WARN", PCCL_WHERE_MS="100")
        if not run.master:
            run.start_master(**{**PATIENT, **master})  # an attacker computes for seconds on a busy machine
        self.peers, self.before = [], []
        self.grow(count)
        if loop:
            self.go_on(newcomer=False)

    def grow(self, count=1, address=None):
        """Adds honest members, which connect to the master at this address."""
        for _ in range(count):
            peer = self.run.peer()
            peer.create(address or self.run.address)
            self.run.admit(peer, self.peers)
            self.peers.append(peer)
        (self.port,) = self.peers[0].listening_ports()
        self.before = [(process, process.rss_kib()) for process in [self.run.master, *self.peers]]

    def start(self):
        self.loops = [start_loop(peer, bit, count=self.elements) for bit, peer in enumerate(self.peers)]

    def members(self, count=1, **hello):
        """Returns malicious members, which the honest ones admit."""
        liars = []
        for _ in range(count):
            liar = Member(self.run, **hello)
            admits = [] if self.loops else [peer.start("admit") for peer in self.peers]
            check(liar.told("welcome"), f"the liar is not let in: {liar.out}")
            for admit in admits:
                admit.wait(rc=harness.SUCCESS)
            liars.append(liar)
        if not self.loops:  # an earlier one may not have read yet that the last one was admitted
            harness.poll(lambda: all(liar.votes[0] == liars[-1].votes[0] for liar in liars), "the last update at all")
        return liars

    def launch(self):
        """Starts the members' loops, and waits until each has made a step or waits for a member that does not take
        part."""
        self.start()
        harness.poll(lambda: all(loop.steps or loop.result or self._waits(loop) for loop in self.loops), "the launches")

    def _over(self):
        return [loop.result for loop in self.loops if loop.result]

    def _waits(self, loop):
        return loop.peer.do("waits", rc=None).get("text")

    def newcomer(self):
        """An honest peer joins and leaves. Returns the seconds until it had joined."""
        peer = self.run.peer()
        peer.create(self.run.address)
        joined = peer.do("connect")
        peer.quit()
        more_steps(self.loops, world=len(self.peers))
        return joined["us"] / 1e6

    def go_on(self, newcomer=True):
        if not self.loops:
            self.start()
        harness.wait_until(lambda: self._over() or all(loop.steps for loop in self.loops), "steps of all")
        check(not self._over(), f"loops have ended: {self._over()}")
        more_steps(self.loops, world=len(self.peers))
        all_right(self.loops)
        if newcomer:
            self.newcomer()
        for process, rss_kib in self.before:
            if SLOW == 1:  # sanitizers keep freed memory
                within(process.rss_kib() - rss_kib, -1 << 30, GROWTH_KIB, f"KiB that {process.name} has grown by")


class AddedShare:
    """Share of a core that the master spends from now on, without the cost of the members' own steps, which the
    constructor measures for a second."""

    def __init__(self, run, honest):
        self.run, self.honest, self.began_us = run, honest, harness.now_us()
        self.began = self._spent()
        cpu_s, steps = self._since(1)
        self.began, self.step_s, self.began_us = self._spent(), cpu_s / steps, harness.now_us()

    def _spent(self):
        return self.run.master.cpu_s(), len(self.honest.loops[0].steps)

    def length_s(self):
        return (harness.now_us() - self.began_us) / 1e6

    def _since(self, at_least_s):
        harness.poll(lambda: self.length_s() > at_least_s, f"{at_least_s} seconds to pass")
        return [now - before for now, before in zip(self._spent(), self.began)]

    def share(self, at_least_s):
        cpu_s, steps = self._since(at_least_s)
        return (cpu_s - steps * self.step_s) / self.length_s()
