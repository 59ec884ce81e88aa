"""Workers of the laboratory in a streaming run, which are killed or stopped during training, and return. A program: it
imports once and forks all of them.

    python -m lab.crowd ADDRESS '{"workers": 4, "rounds": 60, "kills": 20, "seed": 1}'

workers, rounds, seed, catch_up: of the run. pace: seconds of an inner step, of which the processor is used for a part;
0: no extra time. kills: number of kills, spread evenly over the rounds, each at a random moment. every: seconds between
disturbances, each a kill, or a stop for 2 or for 15 seconds. A new process replaces a killed one; a worker that was
stopped until the others continued without it returns as a newcomer. Prints a line of JSON: the loss, samples, seconds
that workers were alive and in the run, and more. It fails if two workers ever held different outer copies after the
same step.
"""

import contextlib
import json
import math
import mmap
import os
import random
import signal
import sys
import tempfile
import time

import pccl
import pccl.diloco

from . import launch, text
from .model import Model, Worker, named

SAMPLES = 32  # of an inner step
STREAMING = {"fragments": 3, "delay": 5, "alpha": 0.5, "codec": "e3m0", "min_peers": 2}
STOPS_S = (2, 15)
PATIENCE_S = 600.0
OUT = pccl.ConnectionError_, pccl.NotConnected


# ---- a worker


def come_in(diloco, comm, connection):
    while True:
        try:
            diloco.rejoin(comm)
            return
        except OUT:  # stopped, or kept from the processor, for too long
            comm = connection()


def live(about, number, say, progress):
    """Runs a worker. progress: the present inner step of each worker; 0: not in the run."""
    worker = Worker(number, about["workers"], about["seed"], about["rounds"] * about["inner_steps"])
    connection = lambda: pccl.Communicator(about["address"], options=about["options"])
    how = {"inner_steps": about["inner_steps"], "outer": pccl.diloco.Nesterov(0.7, 0.9), **STREAMING}
    how["catch_up"] = about["catch_up"]
    diloco = pccl.diloco.DiLoCo(
        None, named(worker.model.flat), rounds=about["rounds"], linger_s=about["linger_s"], **how
    )
    come_in(diloco, connection(), connection)
    say(joined=time.monotonic())
    while not diloco.finished:
        due = time.monotonic() + about["pace"]
        worker.train(diloco.inner_step, 1)
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            info = diloco.step(SAMPLES)
        except OUT:
            progress[number] = 0
            say(out=time.monotonic())
            come_in(diloco, connection(), connection)
            say(joined=time.monotonic())
            continue
        progress[number] = diloco.inner_step
        say(made=time.monotonic())
        if info.fragments:
            given_up = sum(cost.participants == 0 for cost in info.fragments)
            say(step=diloco.inner_step, digest=diloco.digest(), samples=diloco.samples, given_up=given_up,
                waited_s=info.waited_s)
    say(out=time.monotonic())
    with contextlib.suppress(*OUT):
        diloco.finish()
    say(end=diloco.digest(), loss=Model(worker.model.flat).validate(), samples=diloco.samples)
    diloco.close()


class Process:
    """One process of a worker."""

    def __init__(self, about, number, place, progress):
        self.number, self.gone = number, None  # time of its kill
        self._place = place
        self.stops = []  # (begin, end) of its stops
        progress[number] = 0
        open(place, "w").close()  # it may be killed before it creates it
        self.pid = os.fork()
        if self.pid == 0:
            self._live(about, number, progress)

    def _live(self, about, number, progress):
        def work():
            with open(self._place, "w", buffering=1) as out:
                live(about, number, lambda **words: print(json.dumps(words), file=out), progress)

        launch.end_fork(work)

    def lines(self):
        """Returns its lines of output, without a line cut off by its death."""
        with open(self._place) as said:
            return [json.loads(line) for line in said.read().splitlines() if line.endswith("}")]

    def lived_s(self, lines):
        """Returns the seconds in which it was in the run, and neither dead nor stopped."""
        whole, since = 0.0, None
        for line in lines:
            if "joined" in line:
                since = line["joined"]
            elif "out" in line and since is not None:
                whole, since = whole + line["out"] - since - self._stopped(since, line["out"]), None
        if since is not None:
            end = self.gone if self.gone is not None else since
            whole += end - since - self._stopped(since, end)
        return whole

    def _stopped(self, since, until):
        return sum(max(0.0, min(until, end) - max(since, begin)) for begin, end in self.stops)


# ---- all processes


class Crowd:
    def __init__(self, about, folder):
        self.about = about
        memory = mmap.mmap(-1, 8 * about["workers"])
        self.progress = memoryview(memory).cast("q")
        self.all, self.living = [], {}
        self.ended = 0
        self._dice = random.Random(about["seed"])
        self._folder = folder
        for number in range(about["workers"]):
            self._start(number)

    def _start(self, number):
        made = Process(self.about, number, f"{self._folder}/{len(self.all)}", self.progress)
        self.all.append(made)
        self.living[number] = made

    def look(self):
        """Returns true if a process has ended; all must end with success."""
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            number = next(number for number, one in self.living.items() if one.pid == pid)
            assert status == 0, f"worker {number} ended with {status}"
            self.ended += 1
        return self.ended > 0

    def kill(self):
        """Kills a worker that the run can spare."""
        victim = self.living[self._dice.choice(self._expendable())]
        victim.gone = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        os.waitpid(victim.pid, 0)
        self._start(victim.number)

    def stop(self, seconds):
        """Stops a worker. Returns it, and the time when it continues."""
        victim = self.living[self._dice.choice(self._expendable())]
        os.kill(victim.pid, signal.SIGSTOP)
        now = time.monotonic()
        victim.stops.append((now, math.inf))
        return victim, now + seconds

    def go_on(self, victim):
        os.kill(victim.pid, signal.SIGCONT)
        victim.stops[-1] = (victim.stops[-1][0], time.monotonic())

    def _expendable(self):
        stopped = {one.number for one in self.living.values() if one.stops and one.stops[-1][1] == math.inf}
        there = {number for number in self.living if self.progress[number] > 0} - stopped
        return [number for number in self.living if number not in stopped and len(there - {number}) >= 2]

    def disturb_by_steps(self, kills):
        """Kills this number of workers during the run's steps."""
        steps = self.about["rounds"] * self.about["inner_steps"]
        for number in range(kills):
            moment = (number + self._dice.random()) * 0.9 * steps / kills
            self.until(lambda due=moment: max(self.progress) >= due and self._expendable())
            due = time.monotonic() + self._dice.uniform(0, 0.05)
            self.until(lambda due=due: time.monotonic() >= due)
            self.kill()

    def disturb_by_time(self, every):
        """Disturbs until the run has ended. Returns the number of disturbances."""
        count, going_on = 0, []
        steps = self.about["rounds"] * self.about["inner_steps"]
        self.until(lambda: min(self.progress) > 0)
        due = time.monotonic() + every
        while max(self.progress) < steps:
            assert not self.look(), "somebody has ended before the run"
            now = time.monotonic()
            for victim, when in [one for one in going_on if one[1] <= now]:
                self.go_on(victim)
                going_on.remove((victim, when))
            if now >= due and self._expendable():
                due += every
                what = self._dice.choice([None, *STOPS_S])
                if what is None:
                    self.kill()
                else:
                    going_on.append(self.stop(what))
                count += 1
            time.sleep(0.01)
        for victim, _ in going_on:
            self.go_on(victim)
        return count

    def until(self, holds):
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end and not self.look(), "the run is over, or does not go on"
            time.sleep(0.001)

    def finish(self):
        end = time.monotonic() + PATIENCE_S
        while self.ended < len(self.living):
            self.look()
            assert time.monotonic() < end, "some do not end"
            time.sleep(0.01)

    def close(self):
        for one in self.living.values():
            try:
                os.kill(one.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def told(crowd):
    """Checks that all held the same whenever they met, and returns the report."""
    found, made, lived_s, given_up = {}, 0, 0.0, 0
    ends, begins, ends_at = [], [], []
    for one in crowd.all:
        lines = one.lines()
        made += sum("made" in line for line in lines)
        lived_s += one.lived_s(lines)
        times = [line[what] for line in lines for what in ("joined", "made") if what in line]
        begins, ends_at = begins + times[:1], ends_at + times[-1:]
        for line in lines:
            if "step" in line:
                said = line["digest"], line["samples"]
                assert found.setdefault(line["step"], said) == said, f"two differ after step {line['step']}"
                given_up = given_up + line["given_up"]
        ends += [line for line in lines if "end" in line]
    assert len(ends) == crowd.about["workers"] and all(line == ends[0] for line in ends), ends
    return {
        "loss": ends[0]["loss"], "trained": SAMPLES * made, "counted": ends[0]["samples"], "lived_s": lived_s,
        "whole_s": max(ends_at) - min(begins), "given_up": given_up, "processes": len(crowd.all),
        "cpu_s": sum(os.times()[2:4]),
    }


def main(address, given):
    about = {
        "address": address, "workers": 4, "rounds": 20, "inner_steps": 24, "seed": 0, "pace": 0.0, "kills": 0,
        "every": None, "linger_s": 5.0, "options": {}, "catch_up": None, **json.loads(given),
    }  # fmt: skip
    text.validation()  # each worker would read it
    disturbed = about["kills"]
    with tempfile.TemporaryDirectory() as folder:
        crowd = Crowd(about, folder)
        try:
            crowd.disturb_by_steps(about["kills"])
            if about["every"]:
                disturbed = crowd.disturb_by_time(about["every"])
            crowd.finish()
        finally:
            crowd.close()
        print(json.dumps({**told(crowd), "disturbed": disturbed}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
