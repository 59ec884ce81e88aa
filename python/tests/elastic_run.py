"""Elastic replicas of torch that are killed and replaced, and the effect on the others. A program: it imports torch
once and forks all processes, which is quicker than starting each.

    python elastic_run.py ADDRESS '{"kind": "ddp", "kills": 20, "seed": 7}'        a master runs at the address

kind: plain, ddp, or fsdp2 (a replica is two processes then); sampled and sampled_fsdp2: the same as ddp and fsdp2, with
an ElasticSampler and a DataLoader, with a worker if a replica is one process; resnet and resnet_fsdp2: with a model
with batch normalization, whose running statistics differ on all replicas. replicas: number of replicas. at_vote:
victims fail at the vote on a step. stops: number of replicas that are stopped and return, with a master that waits only
briefly. drains: number of replicas to drain before any is killed, by one process drawn at random; all processes of the
replica must leave in order, and the others drop or repeat no step. shards: processes of a replica of kind fsdp2. Prints
one line of JSON: seconds until the survivors' next step, the largest difference of loss from a run without kills, and
more. It fails if two processes ever held different parameters after the same step.
"""

import collections
import itertools
import json
import math
import os
import random
import select
import signal
import statistics
import sys
import tempfile
import time
import zlib

import torch
from lab import launch

REPLICAS = 4
MIN_PEERS = 2
WORK_S = 0.02  # of a step, in addition to its computation
MONITOR_S = 0.1  # delay after which a launcher ends the other processes of a replica, as torchrun does
PATIENCE_S = 120.0
SAMPLES, BATCH = 1000, 16  # of an epoch, and of a step of a replica


# ---- a process of a replica


def data(seed, count=32):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 64, generator=generator)
    return x, torch.sin(x[:, :8]) + x[:, 8:16]


class Residual(torch.nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.first = torch.nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.norm1 = torch.nn.BatchNorm2d(width)
        self.second = torch.nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm2 = torch.nn.BatchNorm2d(width)
        self.shortcut = torch.nn.Conv2d(channels, width, 1) if channels != width else torch.nn.Identity()

    def forward(self, x):
        inner = self.norm2(self.second(torch.relu(self.norm1(self.first(x)))))
        return torch.relu(inner + self.shortcut(x))


def built(kind, store, shard):
    """Returns a model, its trained part, and its optimizer."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.Tanh(), torch.nn.Linear(256, 8))
    if kind.startswith("resnet"):
        blocks = torch.nn.Unflatten(1, (4, 4, 4)), Residual(4, 8), Residual(8, 8)
        model = torch.nn.Sequential(*blocks, torch.nn.Flatten(), torch.nn.Linear(128, 8))
    if kind in ("ddp", "resnet", "sampled"):
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        trained = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.02)
    elif kind.endswith("fsdp2"):
        from torch.distributed.fsdp import fully_shard

        rank, size = shard
        store = torch.distributed.FileStore(store, size)
        torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=size)
        trained = fully_shard(model)
    else:
        trained = model
    return trained, torch.optim.AdamW(trained.parameters(), lr=1e-3)


def checksum(model):
    """Returns a checksum of the parameters of this process."""
    parts = [getattr(p, "to_local", lambda p=p: p)().detach().clone().numpy().tobytes() for p in model.parameters()]
    return zlib.crc32(b"".join(parts))


class Samples(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = data(7, SAMPLES)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return index, self.x[index], self.y[index]


def batches(sampler, elastic, say):
    workers = 0 if elastic._inside.size > 1 else 1
    make = lambda own: torch.utils.data.DataLoader(Samples(), batch_sampler=own, num_workers=workers)
    for indices, x, y in sampler.batches(elastic, make):
        say(drawn=indices.tolist(), for_step=elastic.step + 1, rank=elastic.rank, at=time.monotonic())
        yield x, y


def replica(say, run, store, shard):
    import pccl.torch

    model, optimizer = built(run.kind, store, shard)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.999)
    sampler = pccl.torch.ElasticSampler(SAMPLES, BATCH)
    shared = {"scheduler": scheduler, "sampler": sampler}
    elastic = pccl.torch.elastic(
        model, optimizer, shared, address=run.address, min_peers=run.min_peers, bucket_bytes=20000
    )
    signal.signal(signal.SIGTERM, lambda *_: elastic.stop())
    signal.signal(signal.SIGUSR1, lambda *_: elastic.drain())
    signal.signal(signal.SIGUSR2, lambda *_: vars(elastic.comm).update(coalesced=die))
    say(joined=elastic.step, rank=elastic.rank)
    with elastic:
        train(say, run, model, optimizer, scheduler, sampler, elastic)
    say(end=elastic.step, stats=vars(elastic.stats), drained=elastic.drained)


def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)


def train(say, run, model, optimizer, scheduler, sampler, elastic):
    judged = data(99, 256)
    own = batches(sampler, elastic, say) if run.kind.startswith("sampled") else itertools.repeat(None)
    while elastic.step < run.steps and not elastic.stopped:
        time.sleep(WORK_S)
        x, y = next(own) or data(1000 * elastic.step + elastic.rank)
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        optimizer.step()
        if not elastic.committed:
            continue
        scheduler.step()
        sampler.step(elastic)
        crc = checksum(model)  # before the next forward gathers shards
        with torch.no_grad():
            loss = (model(judged[0]) - judged[1]).square().mean().item()
        say(step=elastic.step, crc=crc, loss=loss, rank=elastic.rank, ranks=elastic.ranks,
            lr=optimizer.param_groups[0]["lr"], returns=elastic.stats.returns, at=time.monotonic(),
            waiting=sampler._get().waiting, fresh=sampler._get().fresh)


# ---- all processes


class Process:
    def __init__(self, run, store, shard):
        self.shard, _ = shard
        self.steps, self.about, self.last, self.drawn = [], {}, -math.inf, []
        self._rest = b""
        self.out, end = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._live(end, run, store, shard)
        os.close(end)

    def _live(self, end, run, store, shard):
        say = lambda **words: os.write(end, json.dumps(words).encode() + b"\n")
        launch.end_fork(lambda: replica(say, run, store, shard))

    def read(self):
        """Reads the available output. Returns false at its end."""
        got = os.read(self.out, 1 << 16)
        *lines, self._rest = (self._rest + got).split(b"\n")
        for line in map(json.loads, lines):
            if "drawn" in line:
                self.drawn.append(line)
            elif "step" in line:
                self.steps.append(line)
                self.last = line["at"]
            else:
                self.about.update(line)
        return bool(got)


class Run:
    def __init__(self, address, kind, steps, min_peers, shards):
        self.address, self.kind, self.steps, self.min_peers = address, kind, steps, min_peers
        self.at_vote = False
        self.shards = shards if kind.endswith("fsdp2") else 1
        self.processes, self.replicas = [], []
        self._open = []
        self._folder = tempfile.TemporaryDirectory()

    def start(self):
        store = f"{self._folder.name}/{len(self.processes)}"
        made = [Process(self, store, (shard, self.shards)) for shard in range(self.shards)]
        self.processes += made
        self._open += made
        self.replicas.append(made)

    def until(self, what, holds):
        end = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < end, f"not within {PATIENCE_S} s: {what}"
            assert self._open, f"all have ended before: {what}"
            ready, _, _ = select.select([one.out for one in self._open], [], [], 0.05)
            for one in [one for one in self._open if one.out in ready]:
                if not one.read():
                    os.close(one.out)
                    self._open.remove(one)

    def kill(self, victims):
        """Kills one process of a replica, which its launcher replaces. Returns the seconds until the survivors' next
        step."""
        self.replicas.remove(victims)
        alive = [one for made in self.replicas for one in made if one.steps]
        at = time.monotonic()
        first = random.choice(victims)
        os.kill(first.pid, signal.SIGUSR2 if self.at_vote else signal.SIGKILL)
        self.until("its death", lambda: first not in self._open)
        at = time.monotonic()
        self.until("the launcher looks", lambda: len(victims) == 1 or time.monotonic() > at + MONITOR_S)
        for one in victims:
            os.kill(one.pid, signal.SIGKILL)
            os.waitpid(one.pid, 0)
        self.start()
        self.until("the survivors' next step", lambda: all(one.last > at for one in alive))
        return [min(line["at"] for line in one.steps if line["at"] > at) - at for one in alive]

    def drain(self, leaving):
        """Drains one process of a replica: all its processes leave after the same step, and a new replica joins."""
        self.replicas.remove(leaving)
        os.kill(random.choice(leaving).pid, signal.SIGUSR1)
        self.until("the replica's end", lambda: not set(leaving) & set(self._open))
        statuses = [os.waitpid(one.pid, 0)[1] for one in leaving]
        assert set(statuses) <= {0, signal.SIGABRT}, statuses
        said = {(one.about["drained"], one.about["end"]) for one in leaving}
        assert len(said) == 1 and said.pop()[0] == "the master drained this peer: it requested its drain", said
        self.start()

    def verify_drains(self):
        """Checks that no step of any replica was dropped, and no operation repeated."""
        for one in self.processes:
            stats = one.about["stats"]
            assert stats["dropped"] == stats["repeated"] == 0, (one.about, one.steps[-1:])

    def pause(self, victim):
        """Stops a process until the others continue without it, and then with it."""
        others = [one for made in self.replicas for one in made if one is not victim]
        os.kill(victim.pid, signal.SIGSTOP)
        self.until("its removal", lambda: all(len(one.steps[-1]["ranks"]) < REPLICAS for one in others if one.steps))
        os.kill(victim.pid, signal.SIGCONT)
        self.until("its return", lambda: victim.steps[-1]["returns"] > 0)

    def at_work(self):
        self.until("all at work", lambda: all(one.steps and len(one.steps[-1]["ranks"]) == REPLICAS
                                              for made in self.replicas for one in made))

    def root(self):
        newest = max((made[0] for made in self.replicas if made[0].steps), key=lambda one: one.last)
        lowest = min(newest.steps[-1]["ranks"])
        return next((made for made in self.replicas if made[0].about.get("rank") == lowest), self.replicas[0])

    def end(self):
        ended = [one for made in self.replicas for one in made]
        self.until("the end", lambda: not self._open)
        statuses = {os.waitpid(one.pid, 0)[1] for one in ended}
        assert statuses <= {0, signal.SIGABRT}, statuses  # gloo's threads may abort a process that has done its work
        assert len({one.about["end"] for one in ended}) == 1, [one.about for one in ended]

    def close(self):
        for one in self._open:
            os.kill(one.pid, signal.SIGKILL)
        self._folder.cleanup()

    def verify(self):
        """Checks that all reports of a step are equal, and that no process missed one. Returns the loss of each step.
        """
        found = {}
        for one in self.processes:
            for before, line in zip([{"step": one.about.get("joined"), "returns": 0}, *one.steps], one.steps):
                assert line["returns"] > before["returns"] or line["step"] == before["step"] + 1, (before, line)
            for line in one.steps:
                assert line["rank"] in line["ranks"] and len(set(line["ranks"])) == len(line["ranks"]), line
                said = line["crc"], line["lr"], line["ranks"], line["loss"]
                assert found.setdefault((line["step"], one.shard), said) == said, (line, found[line["step"], one.shard])
        for (step, _), said in found.items():
            assert said[2] == found[step, 0][2], f"step {step}: {said[2]}, in the first group {found[step, 0][2]}"
        self.verify_samples({at: ranks for at, (_, _, ranks, _) in found.items()})
        steps = sorted({step for step, _ in found})
        assert steps == list(range(1, len(steps) + 1)), steps
        return [found[step, 0][3] for step in steps]


    def verify_samples(self, ranks_of):
        """Checks that steps that counted have used exactly the samples of all blocks that left the queue. The last draw
        of a rank for a step counts."""
        told = [{**line, "shard": one.shard} for one in self.processes for line in one.drawn]
        drawn = sorted(told, key=lambda line: line["at"])
        if not drawn:
            return
        of = {(line["for_step"], line["shard"], line["rank"]): line["drawn"] for line in drawn}
        used = collections.Counter(index for at, ranks in ranks_of.items() for r in ranks for index in of[(*at, r)])
        last = max((one.steps[-1] for one in self.processes if one.steps), key=lambda line: line["step"])
        import pccl.torch

        sampler = pccl.torch.ElasticSampler(SAMPLES, BATCH)
        blocks = set(range(last["fresh"])) - set(last["waiting"])
        assert used == collections.Counter(index for block in blocks for index in sampler._indices(block)), last


def undisturbed(address, kind, steps, shards):
    run = Run(address, kind, steps, REPLICAS, shards)
    for _ in range(REPLICAS):
        run.start()
    try:
        run.end()
        return run.verify()
    finally:
        run.close()


def warm_up():
    """Imports the modules that each process needs."""
    import torch.distributed.fsdp

    import pccl.torch  # noqa: F401

    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.zeros(1, 1)).sum().backward()
    optimizer.step()


def main(address, given):
    about = {"kind": "ddp", "kills": 3, "seed": 0, "stops": 0, "drains": 0, "pause": 0.6}
    about.update({"replicas": 4, "shards": 2, "at_vote": False, **json.loads(given)})
    global REPLICAS
    REPLICAS = about["replicas"]
    torch.set_num_threads(1)
    warm_up()
    draw = random.Random(about["seed"])
    random.seed(about["seed"])
    run = Run(address, about["kind"], 1 << 30, MIN_PEERS, about["shards"])
    run.at_vote = about["at_vote"]
    for _ in range(REPLICAS):
        run.start()
    delays = []
    try:
        run.at_work()
        for _ in range(about["drains"]):
            run.drain(draw.choice(run.replicas))
            run.at_work()
        for number in range(about["kills"]):
            # Some of the other replicas may still be joining.
            enough = lambda: sum(all(one.steps for one in made) for made in run.replicas) >= REPLICAS - 1
            run.until("most at work", enough)
            moment = time.monotonic() + draw.uniform(0, about["pause"])
            run.until("the moment", lambda: time.monotonic() >= moment)
            delays += run.kill(run.root() if number % 3 == 0 else draw.choice(run.replicas))
        run.at_work()
        for made in run.replicas[:about["stops"]]:
            run.pause(made[0])
            run.at_work()
        os.kill(run.replicas[0][0].pid, signal.SIGTERM)
        run.end()
    finally:
        run.close()
    losses = run.verify()
    if about["drains"] > 0 == about["kills"] + about["stops"]:
        run.verify_drains()
    calm = undisturbed(address, about["kind"], len(losses), about["shards"])
    print(json.dumps({
        "kind": about["kind"], "kills": about["kills"], "steps": len(losses), "processes": len(run.processes),
        "returns": sum(one.steps[-1]["returns"] for one in run.processes if one.steps),
        "median_s": round(statistics.median(delays or [0]), 4), "max_s": round(max(delays or [0]), 4),
        "loss_difference": round(max(abs(a - b) for a, b in zip(losses, calm)), 4),
        "losses": [round(losses[0], 3), round(losses[-1], 3)], "calm": [round(calm[0], 3), round(calm[-1], 3)],
    }), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
