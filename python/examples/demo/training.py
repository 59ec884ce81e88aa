"""The three runs: their peers, their events and their checks."""

import statistics
import time

import display
import numpy as np
from processes import Crew, Failed, Master, Peer, end_all

FOUNDERS = ("anna", "ben", "carla", "dan")
VICTIM, NEWCOMER = "ben", "eva"
QUIET_S = 60.0  # time without messages from any peer after which the run is considered hung
TICK_S = 0.1


class Run:
    title = ""

    def __init__(self, given, screen):
        self.given, self.screen = given, screen
        self.crew, self.master = Crew(), None
        self.rounds = {}  # {number of a round: {name of a peer: its report at the end of the round}}
        self.arrived = {}  # {number of a round: {name of a peer: time at which it arrived}}
        self.length_s = 0.0

    @property
    def peers(self):
        return self.crew.peers

    @property
    def size(self):
        return self.peers[0].last["parameters"]

    def carry_out(self):
        self.begun = time.monotonic()
        try:
            self.start()
            self._listen()
            self.length_s = time.monotonic() - self.begun
            if self.master is not None:
                self.master.end()
        finally:
            end_all([process for process in (*self.peers, self.master) if process is not None])
            self.crew.close()
        self.check()

    def start(self):
        """Starts the processes."""

    def check(self):
        """Checks the state at the end, in addition to the checks during the run."""
        if sorted(self.rounds) != list(range(1, self.given.rounds + 1)):
            raise Failed(f"rounds {sorted(self.rounds)} were told, not 1 to {self.given.rounds}")

    def add(self, name, number, *more):
        arguments = ["--rounds", self.given.rounds, "--inner-steps", self.given.inner_steps]
        arguments += ["--save", self._file(name, "npy"), *more]
        self._file(name, "npy").unlink(missing_ok=True)
        self.crew.add(Peer(name, number, self._file(name, "log"), arguments))

    def parameters(self):
        """Returns the final parameters. Raises Failed unless all surviving peers have saved the same ones."""
        saved = {peer.name: np.load(self._file(peer.name, "npy")) for peer in self.peers if not peer.killed}
        first = next(iter(saved.values()))
        if any(other.tobytes() != first.tobytes() for other in saved.values()):
            raise Failed(f"{', '.join(saved)} ended with different parameters")
        return first

    def curve(self):
        """Returns pairs (round, validation loss)."""
        return [(number, next(iter(told.values()))["validation"]) for number, told in sorted(self.rounds.items())]

    def participants(self):
        """Returns the number of participants in each round."""
        return {number: next(iter(told.values()))["participants"] for number, told in self.rounds.items()}

    def _file(self, name, suffix):
        return self.given.out / f"{type(self).__name__.lower()}-{name}.{suffix}"

    def _listen(self):
        last = time.monotonic()
        while self.crew.open:
            for peer, message in self.crew.listen(TICK_S):
                last = time.monotonic()
                getattr(self, "on_" + message["event"])(peer, message)
            if self.master is not None:
                self.master.check()
            if time.monotonic() - last > QUIET_S:
                states = ", ".join(f"{peer.name} {peer.state}" for peer in self.peers)
                raise Failed(f"nobody told anything for {QUIET_S:.0f} s: {states}")
            self.screen.table(self._table())

    def on_ready(self, peer, message):
        peer.state = "connects"

    def on_in(self, peer, message):
        peer.state = "trains"

    def on_step(self, peer, message):
        peer.state = "trains"

    def on_arrived(self, peer, message):
        peer.state = "meets"
        self.arrived.setdefault(message["round"], {})[peer.name] = message["at"]

    def on_round(self, peer, message):
        peer.state = "trains"
        told = self.rounds.setdefault(message["round"], {})
        for name, other in told.items():
            for what in ("digest", "participants"):
                if other.get(what) != message.get(what):
                    both = f"{other.get(what)} and {message.get(what)}"
                    raise Failed(f"after round {message['round']} {name} and {peer.name} differ in {what}: {both}")
        told[peer.name] = message
        if len(told) == message["participants"]:
            self.screen.round(message["round"], self.given.rounds, self._line(told.get(self.peers[0].name, message)))

    def on_done(self, peer, message):
        peer.state = "is done"

    def _line(self, message):
        who = "1 worker" if message["participants"] == 1 else f"{message['participants']} peers"
        words = f"round {message['round']:3} of {self.given.rounds}: {who}, loss {message['loss']:.3f}, "
        words += f"validation {message['validation']:.3f}"
        if "digest" in message:
            sent = display.megabytes(message["tx"])
            words += f", {sent} sent by {self.peers[0].name}, digest {message['digest'][:8]} on all"
        return words

    def _table(self):
        done = max(self.rounds, default=0)
        progress = f"round {done} of {self.given.rounds} {display.bar(done / self.given.rounds)}"
        rows = ["", f"{self.title}: {progress} {time.monotonic() - self.begun:6.1f} s"]
        rows.append("peer    state       round  steps         loss   validation  peers  sent      digest")
        for peer in self.peers:
            last, steps = peer.last, self.given.inner_steps
            inside = last.get("step", 0) % steps / steps if peer.state == "trains" else 0
            cells = [f"{peer.name:7} {peer.state:11} {last.get('round', 0):5}  {display.bar(inside, 12)}"]
            if "loss" in last:
                cells.append(f"{last['loss']:6.3f}")
            if "validation" in last:
                cells.append(f"{last['validation']:9.3f}    {last['participants']:5}")
                cells.append(f" {display.megabytes(last['tx']):9} {last.get('digest', '')[:8]}")
            rows.append(" ".join(cells))
        return rows


class Alone(Run):
    title = "one worker alone"

    def start(self):
        self.add("frieda", 0)


class Together(Run):
    """Peers with a master."""

    def start(self):
        self.master = Master(self.given.master, self._file("master", "log"))
        for number, name in enumerate(FOUNDERS):
            self.add(name, number, "--master", self.master.address, "--founders", len(FOUNDERS))

    def took_ms(self, number):
        """Returns the time from the arrival of the last peer until all had the result of the round."""
        told, arrived = self.rounds[number], self.arrived[number]
        return 1000 * (max(message["at"] for message in told.values()) - max(arrived[name] for name in told))


class Undisturbed(Together):
    title = "four peers, undisturbed"

    def check(self):
        super().check()
        for number, told in self.rounds.items():
            if set(told) != set(FOUNDERS):
                raise Failed(f"{', '.join(told)} told of round {number}, not all of {', '.join(FOUNDERS)}")


class Disturbed(Together):
    title = "four peers, one killed, one comes"

    def __init__(self, given, screen):
        super().__init__(given, screen)
        self.kill_round = max(2, round(0.35 * given.rounds))
        self.join_round = max(4, round(0.6 * given.rounds))
        self.kill_story, self.join_story = {}, {}
        self._asked = 0.0

    def start(self):
        super().start()
        # The newcomer is started early and waits before it connects, because on a busy machine its start takes as long
        # as several rounds.
        self.add(NEWCOMER, len(FOUNDERS), "--master", self.master.address, "--gate")

    def on_arrived(self, peer, message):
        super().on_arrived(peer, message)
        if message["round"] == self.kill_round and set(self.arrived[self.kill_round]) >= set(FOUNDERS):
            self._kill()

    def _kill(self):
        victim = next(peer for peer in self.peers if peer.name == VICTIM)
        victim.killed = True
        victim.kill()
        after_ms = 1000 * (time.monotonic() - max(self.arrived[self.kill_round].values()))
        self.kill_story = {"name": VICTIM, "after_ms": after_ms, "kill_round": self.kill_round}
        words = f"kill -9 {VICTIM} (process {victim.pid}), {after_ms:.1f} ms after all had arrived at round"
        self.screen.event(f"{words} {self.kill_round}")

    def on_ready(self, peer, message):
        super().on_ready(peer, message)
        if peer.name == NEWCOMER:
            peer.state = "is outside"

    def on_round(self, peer, message):
        super().on_round(peer, message)
        if peer.name == NEWCOMER and not self.join_story.get("took_part"):
            self.join_story["took_part"] = message["round"]
            self.screen.event(f"{NEWCOMER} has made round {message['round']}, of {message['participants']} peers")
        if self.kill_story and "round" not in self.kill_story and message["participants"] < len(FOUNDERS):
            self.kill_story.update(round=message["round"], peers=message["participants"])
            self.screen.event(f"round {message['round']}: the {message['participants']} others go on")
        self._perhaps_let_it_ask()

    def _perhaps_let_it_ask(self):
        newcomer = self.peers[-1]
        wanted = "round" in self.kill_story and max(self.rounds) >= self.join_round
        if wanted and newcomer.state == "is outside":
            newcomer.go()
            newcomer.state = "connects"
            self._asked = time.monotonic()
            self.screen.event(f"{NEWCOMER} (process {newcomer.pid}) asks to join")

    def on_in(self, peer, message):
        super().on_in(peer, message)
        if peer.name == NEWCOMER:
            wait_ms = 1000 * (message["at"] - self._asked)
            moved = message["moved"]
            self.join_story = {"name": NEWCOMER, "round": message["round"], "wait_ms": wait_ms, "moved": moved}
            got = f"and has got {display.megabytes(moved)}: what the run holds after round {message['round']}"
            self.screen.event(f"{NEWCOMER} is in, {wait_ms:.0f} ms later, {got}")

    def usual_ms(self):
        special = {self.kill_round, self.kill_story["round"], self.join_story["round"]}
        return statistics.median(self.took_ms(number) for number in self.rounds if number not in special)

    def check(self):
        super().check()
        if "round" not in self.kill_story:
            raise Failed(f"no round of three followed on the end of {VICTIM}")
        if "took_part" not in self.join_story:
            raise Failed(f"{NEWCOMER} took part in no round")
        if self.join_story["moved"] == 0:
            raise Failed(f"{NEWCOMER} was given nothing, and held something else than the others before")
        survivors = {name for name in FOUNDERS if name != VICTIM}
        for number, told in self.rounds.items():
            missing = survivors - set(told)
            if missing:
                raise Failed(f"{', '.join(missing)} did not tell of round {number}")
        together = survivors | {NEWCOMER}
        last = self.rounds[self.given.rounds]
        if set(last) != together or any(message["participants"] != len(together) for message in last.values()):
            raise Failed(f"the last round was of {', '.join(last)}, not of {', '.join(together)}")
        for story in (self.kill_story, self.join_story):
            story["took_ms"] = self.took_ms(story["round"])
