"""Peers that train python/examples/experts.py, and are killed at random moments. A program: it imports torch once and
forks all of them, which is quicker than starting each.

    python moe_run.py ADDRESS '{"on_death": "drop", "kills": 20, "seed": 7}'        a master runs at the address

Prints one line of JSON: seconds until the survivors' next step, and the fate of the experts. It fails if two peers ever
reported different things of the same step, if a survivor missed one, or if a death was not reported. In the end one is
alone, until another one joins.
"""

import json
import os
import random
import re
import select
import signal
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))

import experts  # noqa: E402

import pccl.torch  # noqa: E402

PEERS = 4
PATIENCE_S = 120.0
STEP = re.compile(r"step (\d+): (\d+) peers, loss (\S+), (\d+) rows dropped(?:, lost (.*), took over (\d+))?$")


class Peer:
    def __init__(self, *arguments):
        self.steps, self.other, self._rest = [], [], b""
        self.last = 0.0
        self.out, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            status = 1
            try:
                os.dup2(end, 1)
                experts.main([*arguments])
                status = 0
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        os.close(end)

    def read(self):
        """Reads the available output. Returns false at its end."""
        got = os.read(self.out, 1 << 16)
        *lines, self._rest = (self._rest + got).split(b"\n")
        for line in (one.decode() for one in lines):
            said = STEP.match(line)
            if said is None:
                self.other.append(line)
                continue
            number, peers, loss, dropped, lost, taken = said.groups()
            self.steps.append({"step": int(number), "same": (int(peers), loss), "dropped": int(dropped),
                               "lost": lost, "taken": int(taken or 0), "at": time.monotonic()})
            self.last = self.steps[-1]["at"]
        return bool(got)


class Run:
    def __init__(self, *arguments):
        self._arguments = arguments
        self.all, self.alive, self._open = [], [], []

    def start(self):
        made = Peer(*self._arguments)
        for kept in (self.all, self.alive, self._open):
            kept.append(made)

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}: {[one.steps[-1:] for one in self.all]}"
            assert self._open, f"all have ended before: {what}"
            for one in self._ready():
                if not one.read():
                    os.close(one.out)
                    self._open.remove(one)

    def _ready(self):
        ready = select.select([one.out for one in self._open], [], [], 0.05)[0]
        return [one for one in self._open if one.out in ready]

    def at_work(self):
        self.until("all at work", lambda: all(one.steps and one.steps[-1]["same"][0] == PEERS for one in self.alive))

    def kill(self, victim):
        """Kills a peer. Returns the seconds until each survivor's next step without it."""
        self.alive.remove(victim)
        begin = time.monotonic()
        os.kill(victim.pid, signal.SIGKILL)
        os.waitpid(victim.pid, 0)
        fewer = lambda one: [line for line in one.steps if line["at"] > begin and line["same"][0] < PEERS]
        self.until("the survivors' next step", lambda: all(map(fewer, self.alive)))
        first = [fewer(one)[0] for one in self.alive]
        for peer, line in zip(self.alive, first):  # the next forward reports a death in a reduction
            self.until("that the death is told", lambda peer=peer, line=line: any(
                one["lost"] for one in peer.steps if one["step"] >= line["step"]))
        return [line["at"] - begin for line in first]

    def leave_alone(self):
        """Leaves one peer alone in the middle of a step, until another one joins."""
        further = max(one.steps[-1]["step"] for one in self.alive) + 2  # until then all layers have reported the deaths
        self.until("further steps", lambda: all(one.steps[-1]["step"] >= further for one in self.alive))
        for victim in self.alive[1:]:
            os.kill(victim.pid, signal.SIGKILL)
            os.waitpid(victim.pid, 0)
        del self.alive[1:]
        self.start()
        self.until("two at work", lambda: all(one.steps and one.steps[-1]["same"][0] == 2 for one in self.alive))

    def end(self):
        os.kill(self.alive[0].pid, signal.SIGTERM)
        self.until("the end", lambda: not self._open)
        statuses = [os.waitpid(one.pid, 0)[1] for one in self.alive]
        assert statuses == [0] * len(statuses), statuses
        digests = {line for one in self.alive for line in one.other if line.startswith("digest ")}
        assert len(digests) == 1, digests

    def close(self):
        for one in self._open:
            os.kill(one.pid, signal.SIGKILL)

    def verify(self):
        """Checks that all reports of a step are equal, and that no peer missed one."""
        found = {}
        for one in self.all:
            for before, line in zip(one.steps, one.steps[1:]):
                assert line["step"] == before["step"] + 1, (before, line)
            for line in one.steps:
                assert found.setdefault(line["step"], line["same"]) == line["same"], (line, found[line["step"]])
        return found


def warm_up():
    """Imports the modules that each peer needs."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 1)).sum().backward()
    optimizer.step()
    pccl.torch.shared_state(model, optimizer)


def main(address, given):
    about = {"on_death": "take_over", "kills": 2, "seed": 0, "pause": 0.01, "replaced": True, **json.loads(given)}
    torch.set_num_threads(1)
    warm_up()
    draw = random.Random(about["seed"])
    run = Run(address, "--on-death", about["on_death"], "--pause", str(about["pause"]))
    for _ in range(PEERS):
        run.start()
    delays = []
    try:
        run.at_work()
        for _ in range(about["kills"]):
            moment = time.monotonic() + draw.uniform(0, 0.5)
            run.until("the moment", lambda moment=moment: time.monotonic() >= moment)
            delays += run.kill(draw.choice(run.alive))
            if about["replaced"]:
                run.start()
                run.at_work()
        run.leave_alone()
        run.end()
    finally:
        run.close()
    losses = [float(loss) for _, (_, loss) in sorted(run.verify().items())]
    lines = [line for one in run.all for line in one.steps]
    print(json.dumps({
        "steps": len(losses), "max_s": round(max(delays), 3), "delays": [round(one, 3) for one in delays],
        "dropped": sum(line["dropped"] for line in lines), "taken": sum(line["taken"] for line in lines),
        "losses": [sum(losses[:20]) / 20, sum(losses[-20:]) / 20],
    }), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
