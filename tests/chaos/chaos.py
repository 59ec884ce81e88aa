"""Black-box chaos: real processes on separate hosts, random faults of all kinds, and a checker of the results that the
peers record (history.py).

    chaos.py --minutes 60 [--seed N] [--peers 8]

A run is a sequence of episodes. Each has its own seed, and a failed one can be repeated alone: `chaos.py --episode
SEED`. An episode alternates between times with faults, which overlap, and quiet times without any: in each quiet time
all peers must become members of one run again, and operations of every kind must succeed. The seed determines the
schedule of the faults, but not the operations that they meet. Each quiet time ends with a calm one: the peers are
sound, and no call may fail unless a program aborted, closed a group or left. build/chaos/<seed>/ keeps the events,
histories and logs of a failed episode, and `history.py build/chaos/<seed>` checks it again. A run of an hour or more
fails unless each kind of call has succeeded and each kind of fault has occurred.
"""

import argparse
import collections
import glob
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import history

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "wan"))
import wan  # noqa: E402 pylint: disable=wrong-import-position
import shortages  # noqa: E402 pylint: disable=wrong-import-position

PORT = 48148
MASTER_HOSTS, PEER_HOSTS = 3, 6
RATE_MBIT = 400
KINDS = set(
    "all-reduce broadcast all-gather reduce-scatter barrier all-gather-v reduce gather scatter all-to-all gather-v"
    " scatter-v all-to-all-v coalesced send recv exclusive-scan inclusive-scan".split()
)
OTHER_CALLS = {"connect", "update", "pending", "optimize", "synchronize", "vote", "found", "close", "list", "destroy"}
SKIPPED = 77

# A longer call hangs. This is several times the duration that the parameters allow for a few faults in a row.
CALL_LIMIT_S = 100
QUIET_LIMIT_S = 100
QUIET_ROUNDS = 4
CALM_S = 3
FULL_RUN_MINUTES = 60
END_LIMIT_S = 60
LIMITS = {"peer": (400 << 10, 300), "master": (64 << 10, 100)}  # KiB and descriptors

MASTER_PARAMETERS = {
    "PCCL_SILENCE_MS": 4000, "PCCL_HEARTBEAT_MS": 800, "PCCL_RECOVER_MS": 4000, "PCCL_ALONE_MS": 8000,
    "PCCL_FOUND_AFTER_MS": 1500, "PCCL_WARM_UP_MS": 5000, "PCCL_FIRST_CALL_MS": 30000,
}  # fmt: skip
PEER_PARAMETERS = {
    "PCCL_MASTER_LOST_MS": 25000, "PCCL_ALONE_MS": 8000, "PCCL_STUCK_MS": 8000, "PCCL_LINK_SILENCE_MS": 3000,
    "PCCL_CONNECT_TIMEOUT_MS": 2000, "PCCL_PORT": 0, "PCCL_LOG_LEVEL": "INFO",
}  # fmt: skip

# name: (weight, shortest and longest duration in seconds)
FAULTS = {
    "kill": (14, 0.3, 4),
    "kill several": (4, 0.3, 4),
    "leave": (4, 0.3, 3),
    "stop": (8, 0.3, 3),
    "stop for long": (3, 5, 8),
    "cut a pair": (7, 0.5, 7),
    "cut a pair one way": (6, 0.5, 7),
    "cut from the master": (5, 0.5, 7),
    "unplug": (3, 0.5, 6),
    "loss": (6, 1, 6),
    "duplicates": (5, 1, 8),
    "reordering": (5, 1, 8),
    "slow host": (4, 1, 6),
    "master restarts": (8, 0.05, 3),
    "master moves": (5, 0.05, 3),
    "master stops": (3, 0.5, 6),
    "master ends the run": (1, 0.1, 2),
    "second master": (4, 3, 10),
    "descriptors": (4, 2, 8),
    "memory": (4, 1, 7),
}
SEPARATING = {"stop", "stop for long", "cut a pair", "cut a pair one way", "cut from the master", "unplug", "loss",
              "reordering", "slow host", "master restarts", "master moves", "master stops", "master ends the run",
              "second master", "memory", "descriptors"}  # fmt: skip
# What a process writes when it ends by a fault of its own; libuv aborts without a word.
OWN_ABORTS = ("internal error", "double free", "corruption", "ssert", "invalid pointer", "invalid size", "smashing",
              "Sanitizer", "munmap_chunk")  # fmt: skip
# What the program writes when it ends because it has tried for long in vain (history_give_up).
GAVE_UP = re.compile(r"^chaos_peer: .*gives up: .*(Too many open files|too many open files|memory)", re.MULTILINE)
GAVE_UP_STATUS = 3
OF_MASTER = {"master restarts", "master moves", "master stops", "master ends the run", "second master"}


END = 1 << 62  # of a time that has not ended


def now_us():
    return time.monotonic_ns() // 1000


class Violation(Exception):
    pass


class Process:
    def __init__(self, name, command, environment, log, shown=None):
        self.name, self.history, self.killed = name, None, False
        self.ended = False  # as it should
        self.stopped_since = None
        self.died = None  # when its abort was seen
        self.resumed = 0  # time of the end of the last stop
        self.short = False
        self.without_memory = []  # [from, to] of shortages of memory, us
        self.log = pathlib.Path(log)
        with open(log, "ab") as file:
            self.popen = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
                                          start_new_session=True)  # fmt: skip
        self.pid = self.popen.pid
        self.host = shown

    def alive(self):
        return self.popen.poll() is None

    def kill(self):
        if not self.alive() and not self.killed and not self.ended:
            raise Violation(f"exit: {self.name} ended by itself with {self.popen.returncode}")
        self.killed = True
        self.popen.kill()
        self.popen.wait()

    def stop(self):
        if self.alive():
            os.kill(self.pid, signal.SIGSTOP)
            self.stopped_since = now_us()

    def resume(self):
        if self.alive():
            os.kill(self.pid, signal.SIGCONT)
        self.stopped_since, self.resumed = None, now_us()

    def use(self):
        """Returns the resident KiB and the number of descriptors."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
                rss = next((int(line.split()[1]) for line in file if line.startswith("VmRSS:")), 0)
            return rss, len(os.listdir(f"/proc/{self.pid}/fd"))
        except OSError:
            return 0, 0


class Episode:
    def __init__(self, seed, seconds, peers, folder, programs):
        self.seed, self.seconds, self.folder, self.programs = seed, seconds, pathlib.Path(folder), programs
        self.dice = random.Random(seed)
        self.secure = self.dice.random() < 0.3
        self.groups = [1 if i >= peers - 2 and self.dice.random() < 0.5 else 0 for i in range(peers)]
        if sum(self.groups) == 1:
            self.groups = [0] * peers
        self.slots = [None] * peers
        self.ended, self.histories = [], []
        self.made = 0
        self.incarnations = [0] * peers
        self.master, self.second, self.main = None, None, 0
        self.context = history.Context()
        self.not_run = {}  # {fault: reason}
        self.faults = collections.Counter()
        self.undo = []  # [(when, function, what)]
        self.returning = set()  # slots that come back later
        self.master_busy = False
        self.network = None
        self.most = {"peer": [0, 0], "master": [0, 0]}
        self.violations = []

    # ---- processes

    def event(self, text):
        with open(self.folder / "events", "a", encoding="utf-8") as file:
            file.write(f"{now_us()} {text}\n")

    def environment(self, parameters, **more):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PCCL_")}
        environment.update({key: str(value) for key, value in {**parameters, **more}.items()})
        return environment

    def start_master(self, host, name="master", state="state"):
        more = {"PCCL_MASTER_STATE": self.folder / state} if self.secure else {}
        command = [*self.network.prefix(host), self.programs["master"], "--listen", f"0.0.0.0:{PORT}"]
        master = Process(name, command, self.environment(MASTER_PARAMETERS, **more), self.folder / f"{name}.log", host)
        self.event(f"{name} {master.pid} starts on host {host}")
        return master

    def host_of(self, slot):
        return MASTER_HOSTS + slot % PEER_HOSTS

    def start_peer(self, slot):
        self.returning.discard(slot)
        self.made += 1
        self.incarnations[slot] += 1
        name = f"p{slot}-{self.made}"
        host = self.host_of(slot)
        more = {"PCCL_NAME": name, "PCCL_LOCAL_DIR": self.folder / f"local{host}"}
        if self.secure:
            more["PCCL_TOKEN_FILE"] = self.folder / "state" / "run.token"
        masters = ",".join(f"{self.network.address(i)}:{PORT}" for i in range(MASTER_HOSTS))
        path = self.folder / f"{name}.history"
        command = [*self.network.prefix(host), self.programs["peer"], masters, str(path), str(self.seed),
                   str(self.groups[slot]), str(slot), str(self.incarnations[slot])]  # fmt: skip
        peer = Process(name, command, self.environment(PEER_PARAMETERS, **more), self.folder / f"{name}.log", host)
        peer.history = history.History(name, path)
        self.histories.append(peer.history)
        self.slots[slot] = peer
        self.event(f"{name} {peer.pid} starts on host {host}, group {self.groups[slot]}")

    def remove_peer(self, slot, wait):
        """Replaces a dead or leaving peer by a new process after `wait` seconds."""
        self.ended.append(self.slots[slot])
        self.slots[slot] = None
        self.returning.add(slot)
        self.later(wait, lambda: self.start_peer(slot), f"slot {slot} comes back")

    def victims(self):
        return [slot for slot, peer in enumerate(self.slots) if peer and peer.alive() and peer.stopped_since is None]

    # ---- faults

    def later(self, seconds, function, what):
        self.undo.append((time.monotonic() + seconds, function, what))

    def run_due(self, everything=False):
        due = [item for item in self.undo if everything or item[0] <= time.monotonic()]
        self.undo = [item for item in self.undo if item not in due]
        for _, function, what in sorted(due, key=lambda item: item[0]):
            self.event(what)
            function()

    def inject(self, name, seconds, dice):
        if name in OF_MASTER and self.master_busy:
            return
        function = getattr(self, "fault_" + name.replace(" ", "_"))
        self.event(f"fault: {name} for {seconds:.2f} s")
        begun = now_us()
        if function(seconds, dice) is not False:
            self.faults[name] += name != "memory"  # counted at its end
            if name in SEPARATING:
                self.context.faults.append([begun, begun + int(seconds * 1e6)])

    def fault_kill(self, seconds, dice, count=1):
        victims = self.victims()
        if len(victims) <= count:
            return False
        for slot in dice.sample(victims, count):
            self.event(f"kill {self.slots[slot].name}")
            self.slots[slot].kill()
            self.remove_peer(slot, seconds)
        return True

    def fault_kill_several(self, seconds, dice):
        return self.fault_kill(seconds, dice, dice.choice((2, 2, 3)))

    def fault_leave(self, seconds, dice):
        slot = dice.choice(self.victims() or [None])
        if slot is None:
            return False
        peer = self.slots[slot]
        self.event(f"ask {peer.name} to leave")
        self.ask_to_leave(peer)
        self.remove_peer(slot, seconds)
        return True

    def fault_stop(self, seconds, dice):
        slot = dice.choice(self.victims() or [None])
        if slot is None:
            return False
        peer = self.slots[slot]
        self.event(f"stop {peer.name}")
        peer.stop()
        self.later(seconds, peer.resume, f"continue {peer.name}")
        return True

    fault_stop_for_long = fault_stop

    def ask_to_leave(self, peer):
        self.context.asked[peer.name] = now_us()
        peer.popen.terminate()

    def fault_cut_a_pair(self, seconds, dice, both=True):
        one, other = dice.sample(range(MASTER_HOSTS, MASTER_HOSTS + PEER_HOSTS), 2)
        return self.cut(one, other, both, seconds)

    def fault_cut_a_pair_one_way(self, seconds, dice):
        return self.fault_cut_a_pair(seconds, dice, False)

    def fault_cut_from_the_master(self, seconds, dice):
        one, other = self.main, MASTER_HOSTS + dice.randrange(PEER_HOSTS)
        if dice.random() < 0.5:
            one, other = other, one
        return self.cut(one, other, dice.random() < 0.5, seconds)

    def cut(self, one, other, both, seconds):
        self.event(f"cut {one} to {other}{', both ways' if both else ''}")
        self.network.drop(one, other)
        if both:
            self.network.drop(other, one)
        self.later(seconds, lambda: self.network.heal(one, other), f"heal {one} and {other}")

    def fault_unplug(self, seconds, dice):
        host = MASTER_HOSTS + dice.randrange(PEER_HOSTS)
        self.event(f"unplug host {host}")
        for other in range(MASTER_HOSTS + PEER_HOSTS):
            if other != host:
                self.network.drop(host, other)
                self.network.drop(other, host)
        self.later(seconds, lambda: self.plug(host), f"plug host {host} in")

    def plug(self, host):
        for other in range(MASTER_HOSTS + PEER_HOSTS):
            if other != host:
                self.network.heal(host, other)

    def fault_loss(self, seconds, dice):
        percent = dice.choice((0.5, 2, 5, 10))
        self.event(f"{percent} % loss")
        self.network.set_loss(percent)
        self.later(seconds, lambda: self.network.set_loss(0), "no loss")

    def fault_duplicates(self, seconds, dice):
        self.network.set_duplicates(dice.choice((1, 5, 20)))
        self.later(seconds, lambda: self.network.set_duplicates(0), "no duplicates")

    def fault_reordering(self, seconds, dice):
        self.network.set_reorder(dice.choice((1, 5, 20)), dice.choice((2, 10, 40)))
        self.later(seconds, lambda: self.network.set_reorder(0, 0), "no reordering")

    def fault_slow_host(self, seconds, dice):
        host = MASTER_HOSTS + dice.randrange(PEER_HOSTS)
        self.network.set_rate(dice.choice((3, 10)), host)
        self.event(f"host {host} is slow")
        self.later(seconds, lambda: self.network.set_rate(RATE_MBIT, host), f"host {host} is quick")

    def busy(self, seconds, function, what):
        self.master_busy = True

        def undo():
            self.master_busy = False
            function()

        self.later(seconds, undo, what)

    def renew_master(self, host):
        self.main = host
        self.master = self.start_master(host)

    def fault_master_restarts(self, seconds, _):
        self.master.kill()
        self.busy(seconds, lambda: self.renew_master(self.main), "the master is started again")

    def fault_master_moves(self, seconds, dice):
        host = dice.choice([host for host in range(MASTER_HOSTS) if host != self.main])
        self.master.kill()
        self.busy(seconds, lambda: self.renew_master(host), f"the master moves to host {host}")

    def fault_master_stops(self, seconds, _):
        master = self.master
        master.stop()
        self.busy(seconds, master.resume, "the master goes on")

    def fault_master_ends_the_run(self, seconds, _):
        self.context.rivals.append([now_us(), END])  # the next run counts its revisions from the start
        self.master.popen.terminate()
        if self.wait_for_end(self.master, "the master") != 0:
            self.violations.append(f"exit: the master ended with {self.master.popen.returncode}")
        self.master.ended = True
        self.busy(seconds, lambda: self.renew_master(self.main), "a master for the next run")

    def fault_second_master(self, seconds, dice):
        host = dice.choice([host for host in range(MASTER_HOSTS) if host != self.main])
        self.context.rivals.append([now_us(), END])
        state = f"state-{now_us()}"
        if self.secure:
            sockets = shutil.ignore_patterns("control")
            shutil.copytree(self.folder / "state", self.folder / state, ignore=sockets)
        self.second = self.start_master(host, "second", state)
        self.busy(seconds, self.end_second, "the second master is killed")

    def end_second(self):
        self.second.kill()
        self.second = None

    def fault_descriptors(self, seconds, dice):
        return self.starve(seconds, dice, shortages.NoMoreDescriptors)

    def fault_memory(self, seconds, dice):
        """Blocks the threads of a peer that need memory, as if it were stopped."""
        kib = dice.choice((64, 512, 4096))
        try:
            return self.starve(seconds, dice, lambda peer: shortages.ScarceMemory(peer, kib), True)
        except shortages.Unavailable as unavailable:
            self.not_run["memory"] = str(unavailable)
            self.event(f"no shortage of memory: {unavailable}")
            return False

    def starve(self, seconds, dice, shortage_of, stands=False):
        slot = dice.choice(self.victims() or [None])
        if slot is None or self.slots[slot].short or not self.slots[slot].history.calls:
            return False  # a program that has made no call may still be loading
        peer = self.slots[slot]
        shortage = shortage_of(peer)
        peer.short = True
        times = [now_us(), END]
        self.context.short.setdefault(peer.name, []).append(times)
        if stands:
            peer.without_memory.append(times)
        peer.stopped_since = now_us() if stands else None
        self.event(shortage.did)

        def undo():
            if stands:
                self.faults["memory"] += shortage.hits() > 0
            self.event(shortage.over())
            times[1] = now_us()
            peer.short = False
            if not peer.killed and stands:
                peer.stopped_since, peer.resumed = None, now_us()

        self.later(seconds, undo, "the shortage ends")
        return True

    # ---- watching

    def read(self):
        for peer in self.slots:
            if peer:
                peer.history.read()

    def watch(self):
        """Raises a Violation if a process ended by itself, a call hangs, or a process uses too much."""
        self.read()
        for slot, peer in enumerate(self.slots):
            if peer is None:
                continue
            if not peer.alive():
                if not self.has_ended_in_shortage(peer):
                    raise Violation(f"exit: {peer.name} ended by itself with {peer.popen.returncode}")
                self.event(f"{peer.name} has ended in a shortage with {peer.popen.returncode}")
                self.remove_peer(slot, 1)
                continue
            if peer.stopped_since is not None:
                continue
            for call in peer.history.open.values():
                age_s = (now_us() - max(call.begun, peer.resumed)) / 1e6
                if age_s > CALL_LIMIT_S:
                    raise Violation(f"hang: a call has not ended after {age_s:.0f} s: {call}")
            self.measure("peer", peer)
        for master in (self.master, self.second):
            if master and not master.killed and not master.ended and not master.alive():
                raise Violation(f"exit: {master.name} ended by itself with {master.popen.returncode}")
        self.measure("master", self.master)

    def has_ended_in_shortage(self, peer):
        """Returns true if a shortage at the process ended it: libuv ends it when the kernel has no memory to watch a
        descriptor (RELIABILITY, Not promised), and the program when it has tried for long in vain."""
        log = peer.log.read_text(encoding="utf-8", errors="replace")
        if peer.popen.returncode == -signal.SIGABRT and not any(words in log for words in OWN_ABORTS):
            shortages_of = peer.without_memory
        elif peer.popen.returncode == GAVE_UP_STATUS and GAVE_UP.search(log):
            shortages_of = self.context.short.get(peer.name, ())
        else:
            return False
        if peer.died is None:
            peer.died = now_us()
        return any(begin <= peer.died <= end + 2_000_000 for begin, end in shortages_of)

    def measure(self, kind, process):
        rss, descriptors = process.use()
        self.most[kind] = [max(self.most[kind][0], rss), max(self.most[kind][1], descriptors)]
        if rss > LIMITS[kind][0] or descriptors > LIMITS[kind][1]:
            raise Violation(f"growth: {process.name} has {rss} KiB and {descriptors} descriptors")

    def explain(self):
        """Writes the stacks, waits and flight recorders of all processes into the folder."""
        for process in [*self.slots, self.master]:
            if not process or not process.alive():
                continue
            if process.history:
                os.kill(process.pid, signal.SIGUSR2)
            with open(self.folder / "stacks", "a", encoding="utf-8") as file:
                file.write(f"=== {process.name}\n")
                file.flush()
                words = ["gdb", "-p", str(process.pid), "-batch", "-ex", "thread apply all bt 12"]
                if shutil.which("gdb") and process.stopped_since is None:
                    subprocess.run(words, stdout=file, stderr=subprocess.DEVNULL, timeout=60, check=False)
        time.sleep(1)  # until they have written, after SIGUSR2
        self.read()

    # ---- an episode

    def play_faults(self, seconds):
        """Plays faults. Draws the whole schedule first, so that it depends on the seed only."""
        names, weights = list(FAULTS), [weight for weight, _, _ in FAULTS.values()]
        mean_s = self.dice.choice((0.7, 1.5, 3))
        schedule, at = [], self.dice.expovariate(1 / mean_s)
        while at < seconds:
            name = self.dice.choices(names, weights)[0]
            _, shortest, longest = FAULTS[name]
            schedule.append((at, name, self.dice.uniform(shortest, longest), self.dice.randrange(1 << 32)))
            at += self.dice.expovariate(1 / mean_s)
        start = time.monotonic()
        watched = 0
        while time.monotonic() < start + seconds:
            while schedule and schedule[0][0] <= time.monotonic() - start:
                _, name, length, seed = schedule.pop(0)
                self.inject(name, length, random.Random(seed))
            self.run_due()
            if time.monotonic() > watched + 1:
                self.watch()
                watched = time.monotonic()
            time.sleep(0.02)

    def is_sound(self, since):
        """Returns "" if all peers are in one run again and each kind of operation has succeeded, else the reason."""
        kinds = set()
        for slot, peer in enumerate(self.slots):
            if peer is None:
                return f"slot {slot} is empty"
            size = self.groups.count(self.groups[slot])
            rounds = [note for note in reversed(peer.history.notes) if note["e"] == "round" and note["t"] > since]
            if sum(note["world"] == size for note in rounds) < QUIET_ROUNDS:
                return f"{peer.name} has not made {QUIET_ROUNDS} rounds with all"
            for call in reversed(peer.history.calls):
                if call.begun < since:
                    break
                if call.result == history.SUCCESS and call.key:
                    kinds.add(call.name)
        missing = KINDS - kinds
        return f"no {', '.join(sorted(missing))} has succeeded" if missing else ""

    def quiet(self):
        self.event("quiet")
        self.run_due(everything=True)
        since, start, why = now_us(), time.monotonic(), "nothing"
        while time.monotonic() < start + QUIET_LIMIT_S:
            self.run_due()
            self.watch()
            why = self.is_sound(since)
            if not why:
                seconds = time.monotonic() - start
                self.event(f"sound after {seconds:.1f} s")
                self.calm()
                return seconds
            time.sleep(0.3)
        raise Violation(f"liveness: {QUIET_LIMIT_S} s after the last fault {why}")

    def calm(self):
        """The peers are sound and no fault is active, so from now on no call may fail."""
        for times in self.context.rivals:
            times[1] = min(times[1], now_us())
        times = [now_us(), END]
        self.context.calm.append(times)
        while now_us() < times[0] + CALM_S * 1e6:
            self.watch()
            time.sleep(0.3)
        times[1] = now_us()

    def wait_for_end(self, process, what):
        try:
            return process.popen.wait(END_LIMIT_S)
        except subprocess.TimeoutExpired:
            raise Violation(f"hang: {what} does not end") from None

    def leave(self):
        for peer in self.slots:
            self.ask_to_leave(peer)
        for process in [*self.slots, *self.ended]:
            code = self.wait_for_end(process, process.name)
            process.history.read()
            if process.killed or self.has_ended_in_shortage(process):
                continue
            if code != 0:
                raise Violation(f"exit: {process.name} ended with {code}")
            if process.history.open:
                call = next(iter(process.history.open.values()))
                raise Violation(f"hang: {process.name} has ended in a call: {call}")
        self.master.popen.terminate()
        if self.wait_for_end(self.master, "the master") != 0:
            raise Violation(f"exit: the master ended with {self.master.popen.returncode}")

    def play(self):
        """Plays the episode. Returns the seconds that each quiet time took; `violations` has the findings."""
        self.folder.mkdir(parents=True)
        os.chmod(self.folder, 0o755)
        quiet_s = []
        with wan.Wan(MASTER_HOSTS + PEER_HOSTS, rate_mbit=RATE_MBIT, delay_ms=0.5, queue_kib=1024,
                     emulator=self.programs["wanem"]) as self.network:  # fmt: skip
            try:
                start = time.monotonic()
                self.renew_master(0)
                if self.secure:
                    self.wait_for_token()
                for slot in range(len(self.slots)):
                    self.start_peer(slot)
                quiet_s.append(self.quiet())
                while time.monotonic() < start + self.seconds:
                    self.play_faults(self.dice.uniform(10, 35))
                    quiet_s.append(self.quiet())
                self.leave()
            except Violation as violation:
                self.violations.append(str(violation))
                self.event(str(violation))
                self.context.debugged(now_us())
                try:
                    self.explain()
                except subprocess.SubprocessError as error:
                    self.event(f"no explanation: {error}")
            finally:
                for process in [*self.slots, *self.ended, self.master, self.second]:
                    if process and process.alive():
                        process.kill()
        for process in [*self.slots, *self.ended]:
            if process:
                process.history.read()
        (self.folder / "context").write_text(json.dumps(vars(self.context)), encoding="utf-8")
        self.violations += history.check(self.histories, self.context)
        with open(self.folder / "violations", "w", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self.violations)
        return quiet_s

    def wait_for_token(self):
        end = time.monotonic() + 20
        while not (self.folder / "state" / "run.token").exists():
            if time.monotonic() > end:
                raise Violation("the master makes no token")
            time.sleep(0.01)


def find_programs(build):
    return {
        "peer": f"{build}/tests/chaos/chaos_peer",
        "master": f"{build}/tools/pccl-master",
        "wanem": f"{build}/tests/wan/wanem",
    }


def exit_on_sigterm():
    """SIGTERM ends the program as an exception does, so that processes and namespaces are removed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def missing(totals, faults):
    """Returns the kinds of calls that have never succeeded and of faults that have never occurred."""
    return sorted(name for name in KINDS | OTHER_CALLS if not totals[name][0]) + sorted(
        name for name in FAULTS if not faults[name]
    )


def main():
    exit_on_sigterm()
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(HERE.parent.parent / "build" / "default"))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, help="of the whole run")
    parser.add_argument("--episode", type=int, action="append", help="only this one")
    parser.add_argument("--peers", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=120, help="of an episode, about")
    parser.add_argument("--keep", action="store_true", help="the files of good episodes, too")
    options = parser.parse_args()
    if os.geteuid() != 0:
        print("skipped: network namespaces need root")
        sys.exit(SKIPPED)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 31)
    dice = random.Random(seed)
    kept = [int(line.split()[0]) for line in (HERE / "seeds").read_text().splitlines() if line and line[0] != "#"]
    episodes = list(options.episode or ([] if options.seed is not None else kept))
    print(f"seed {seed}", flush=True)
    folder = pathlib.Path(options.build).parent / "chaos"
    totals = collections.defaultdict(lambda: [0, 0])
    faults, bad, played, longest = collections.Counter(), [], 0, None
    most = {"peer": [0, 0], "master": [0, 0]}
    not_run = collections.defaultdict(list)
    slowest_quiet = 0
    start = time.monotonic()
    while episodes or (not options.episode and time.monotonic() < start + options.minutes * 60):
        number = episodes.pop(0) if episodes else dice.randrange(1 << 31)
        where = folder / str(number)
        shutil.rmtree(where, ignore_errors=True)
        episode = Episode(number, options.seconds, options.peers, where, find_programs(options.build))
        quiet_s = episode.play()
        played += 1
        counts, call = history.count(episode.histories)
        for name, (succeeded, failed) in counts.items():
            totals[name][0] += succeeded
            totals[name][1] += failed
        if call and (longest is None or call.ended - call.begun > longest.ended - longest.begun):
            longest = call
        faults += episode.faults
        for name, reason in episode.not_run.items():
            not_run[name].append(reason)
        slowest_quiet = max([slowest_quiet, *quiet_s])
        for kind, figures in episode.most.items():
            most[kind] = [max(pair) for pair in zip(most[kind], figures)]
        calls = sum(map(sum, counts.values()))
        sound = " ".join(f"{seconds:.1f}" for seconds in quiet_s)
        print(f"episode {number}: {calls} calls, {sum(episode.faults.values())} faults, sound after {sound} s, "
              f"{len(episode.violations)} violations", flush=True)  # fmt: skip
        for violation in episode.violations[:5]:
            print(f"  {violation[:1500]}")
        if episode.violations:
            bad.append(number)
        elif not options.keep:
            shutil.rmtree(where)
    print("calls (succeeded/failed): " + ", ".join(f"{name} {a}/{b}" for name, (a, b) in sorted(totals.items())))
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(faults.items())))
    if longest:
        print(f"longest call: {(longest.ended - longest.begun) / 1e6:.1f} s: {longest.name}")
    print(f"soundness after at most {slowest_quiet:.1f} s")
    print(f"most memory (KiB) and descriptors: {most}")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"processors used: {(used.ru_utime + used.ru_stime) / (time.monotonic() - start):.2f}")
    print(f"{played} episodes in {(time.monotonic() - start) / 60:.1f} minutes, {len(bad)} with violations: {bad}")
    for name, reasons in not_run.items():
        print(f"{name}: not run: {reasons[0]} (in {len(reasons)} episodes)")
    none = missing(totals, faults)
    if none:
        print(f"never succeeded or never occurred: {', '.join(none)}")
    full = not options.episode and options.minutes >= FULL_RUN_MINUTES
    if full and none:
        print(f"FAILED: a run of {FULL_RUN_MINUTES} minutes must have each kind of call and of fault")
    sys.exit(1 if bad or (full and none) else 0)


if __name__ == "__main__":
    main()
