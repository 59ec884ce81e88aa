"""DiLoCo of trainers of two processes each, with a shard of the model (fully_shard), one of which is killed. A program:
it imports torch once and forks all processes.

    python sharded_run.py ADDRESS '{"dies": {"fragment": 1, "slot": 3}, "how": {"fragments": 3, "delay": 2}}'

Two trainers; the second shard of the second one fails in the middle of a reduction, which the first shard ends with
all; or ("drains": 4) it requests its drain in its fourth step, and both shards leave at a boundary; or ("joining": 0)
this shard requests it while the trainer joins, and both leave. Then a third trainer joins. Each step of trainer i takes
12 * 2**i from all parameters and the outer step is the plain mean, so that all sums are exact. Prints a shard's report
of the first trainer for each step with an outer step. It fails if two shards of a trainer, or two trainers, ever held
different things.
"""

import ctypes
import json
import os
import signal
import sys
import tempfile
import threading

import torch
from lab import launch
import torch.distributed.fsdp

SHARDS = 2
DRAINED = "the master drained this peer: it requested its drain"
DRAINED_BEFORE = "this communicator was drained by pcclDrain and cannot connect again"
ROWS, COLUMNS = (1537, 1025, 513), 8  # so that the first is cut; one shard has a row more


class Block(torch.nn.Module):
    def __init__(self, rows, number=0):
        super().__init__()
        self.w = torch.nn.Parameter(torch.full((rows, COLUMNS), float(number)))

    def forward(self):
        return self.w.sum()


class Model(torch.nn.Module):
    """A model; each step of its optimizer takes `pull` from every element."""

    def __init__(self, number):
        super().__init__()
        for index, rows in enumerate(ROWS):
            self.add_module(f"f{index}", Block(rows, number))

    def forward(self, pull):
        return pull * sum(block() for block in self.children())


def mortal(address, shard, dies):
    """Returns a communicator that kills its process in the middle of a reduction."""
    import pccl
    from pccl.diloco._reduction import FIRST_TAG

    class Mortal(pccl.Communicator):
        slots = 0

        def all_reduce_async(self, send, recv, **given):
            fragment, number = divmod(given["tag"] - FIRST_TAG, 1 << 24)
            if fragment - 1 == dies.get("fragment") and number == 3:
                self.slots += 1
                if self.slots == dies["slot"]:
                    os.kill(os.getpid(), signal.SIGKILL)
            return super().all_reduce_async(send, recv, **given)

        def all_reduce_multiple_with_retry(self, descriptors, **given):
            reduce = super().all_reduce_multiple_with_retry
            if "slot" not in dies or len(descriptors) < 3:
                return reduce(descriptors, **given)
            self.slots += 1
            if self.slots < dies["slot"]:
                return reduce(descriptors, **given)
            reduce(descriptors[:1], **given)
            threading.Thread(target=reduce, args=(descriptors[1:-1],), daemon=True).start()
            return os.kill(os.getpid(), signal.SIGKILL)

    return Mortal(address, shard)


def drain_at(call):
    """Returns a method that requests the drain and then makes the call."""

    def drained(comm, *given, **named):
        comm.drain()
        return call(comm, *given, **named)

    return drained


def trainer(say, about, store, shard, number, dies, drains):
    import pccl
    from pccl.diloco import Nesterov
    from pccl.torch import DiLoCo

    store = torch.distributed.FileStore(store, SHARDS)
    torch.distributed.init_process_group("gloo", store=store, rank=shard, world_size=SHARDS)
    model = Model(number)
    for block in model.children():
        torch.distributed.fsdp.fully_shard(block)
    torch.distributed.fsdp.fully_shard(model)
    inner = torch.optim.SGD(model.parameters(), lr=1.0)
    how = {"outer_optimizer": Nesterov(1.0, 0.0), "min_peers": 2, "bucket_bytes": 2048, "verify_every": 4}
    how.update(about["how"])
    comm = mortal(about["address"], shard, dies)
    if drains == "joining":  # the last shard while it connects, another one while it waits for the next
        name = "connect" if shard == SHARDS - 1 else "update_topology"
        setattr(type(comm), name, drain_at(getattr(type(comm), name)))
    engine = DiLoCo(comm, [model], inner, **how)
    pull = torch.tensor(float(12 << number))
    values = lambda: {name: p.to_local().detach().clone() for name, p in model.named_parameters()}
    try:
        engine.diloco.join()
    except pccl.DrainedError:
        return say(end=None, drained=engine.diloco.drained, round=0)
    with engine:
        before = values()
        if engine.diloco.round == 0:  # all shards of all trainers began with one trainer's parameters
            begin = torch.cat(list(before.values()))
            say(step=0, costs=[], samples=0, begin=[float(begin.min()), float(begin.max())])
        while not engine.diloco.finished:
            inner.zero_grad()
            if engine.diloco.inner_step == drains:
                engine.diloco.drain()
            try:
                model(pull).backward()
                engine.add_samples(1)
                inner.step()
            except pccl.DrainedError:
                raise
            except BaseException:
                for fragment in engine.diloco._fragments:  # so that the other trainers' shards end theirs with this one
                    if fragment.is_on_its_way:
                        fragment._job.wait()
                raise
            if not engine.last.fragments:
                continue
            costs, now = [], values()
            for cost in engine.last.fragments:
                slots = engine.diloco._layout.parts[cost.fragment].slots
                mine = [[way[at.name].view(-1)[at.piece.begin : at.piece.end] for way in (before, now)] for at in slots]
                moved = torch.cat([old - new for old, new in mine])
                assert float(moved.min()) == float(moved.max()), "not the same everywhere"
                if cost.participants > 0:
                    for old, new in mine:
                        old.copy_(new)
                costs.append([cost.fragment, cost.participants, float(moved[0]) if cost.participants else None])
            run = engine.diloco
            say(step=run.inner_step, costs=costs, samples=run.samples, digest=run.digest())
    say(end=engine.diloco.digest(), drained=engine.diloco.drained, round=engine.diloco.round)


class Process:
    def __init__(self, *given, folder, number, shard):
        self.place = f"{folder}/{number}.{shard}"
        self.pid = os.fork()
        if self.pid == 0:
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: if the program fails, nothing is left
            launch.end_fork(lambda: self._train(given))

    def _train(self, given):
        with open(self.place, "w", buffering=1) as out:
            trainer(lambda **words: print(json.dumps(words), file=out), *given)

    def end(self):
        """Returns its status, and its report of each step."""
        _, status = os.waitpid(self.pid, 0)
        with open(self.place) as said:
            lines = [json.loads(line) for line in said.read().splitlines() if line.endswith("}")]
        return status, {line.get("step", "end"): line for line in lines}


def warm_up():
    """Imports the modules that each process needs."""
    import pccl.torch  # noqa: F401

    torch.set_num_threads(1)
    block = Block(1)
    block().backward()
    torch.optim.SGD(block.parameters(), lr=1.0).step()


def main(address, given):
    warm_up()
    with tempfile.TemporaryDirectory() as folder:
        run({"address": address, **json.loads(given)}, folder)


def check_drained(ended, reasons):
    """Checks that all processes of the trainer have left after the same round, with its parameters."""
    assert {status for status, _ in ended} <= {0, signal.SIGABRT}, ended
    ends = [said.pop("end") for _, said in ended]
    assert {end["drained"] for end in ends} <= reasons, ends
    assert len({end["round"] for end in ends}) == 1, ends


def run(about, folder):
    def start(number, *givens):
        store = f"{folder}/store{number}"
        return [
            Process(about, store, shard, number, *given, folder=folder, number=number, shard=shard)
            for shard, given in enumerate(givens)
        ]

    usual = ({}, None)
    last = (about.get("dies", {}), about.get("drains"))
    joining = ["joining" if about.get("joining") == shard else None for shard in range(SHARDS)]
    first = start(0, usual, usual)
    second = start(1, *[({}, each) for each in joining] if any(joining) else (usual, last))
    ended = [process.end() for process in second]
    if "drains" in about:
        check_drained(ended, {DRAINED})
    elif "joining" in about:
        check_drained(ended, {DRAINED, DRAINED_BEFORE})
    else:
        assert [ended[1][0], ended[0][0] != 0] == [signal.SIGKILL, True], [status for status, _ in ended]
    third = start(3, usual, usual)
    stay = [process.end() for process in [*first, *third]]
    # Gloo's threads may abort a process that has done its work.
    assert {status for status, _ in stay} <= {0, signal.SIGABRT}, [status for status, _ in stay]
    found = [said for _, said in [*stay[:2], *ended, *stay[2:]]]
    for shard in range(SHARDS):
        for other in found[shard::2]:
            for step in set(other) & set(found[shard]):
                assert found[shard][step] == other[step], f"trainers differ: {found[shard][step], other[step]}"
    for mine, sibling in zip(found[::2], found[1::2]):
        for step in set(mine) & set(sibling):
            of_both = [{**said[step], "digest": None, "end": None} for said in (mine, sibling)]
            assert of_both[0] == of_both[1], f"shards differ: {of_both}"
    print(json.dumps(list(found[0].values())), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
