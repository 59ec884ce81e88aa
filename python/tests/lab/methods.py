"""A worker of the laboratory in a separate process, with one of pccl.methods over the library, or with a method for
comparison: "parallel" and "dense" average gradients in each step, which is made by AdamW and by SGD; "diloco".

    python -m lab.methods ADDRESS NUMBER --method partial --steps 600
    python -m lab.methods ADDRESS NUMBER --method byte --task c --steps 150

It learns the text of lab.text from the beginning or, with a task, moves a model of that text to another one. Prints
lines of JSON with its loss and the bytes sent so far.
"""

import argparse
import json
import os
import signal
import time
import zlib

import numpy as np

import pccl
from pccl.diloco import SGD, DiLoCo, Nesterov, StepInfo
from pccl.methods import DeMo, DPLoRA, OneByte, PairAverage, PartialAverage, PowerSGD, Sketched, SparseLoCo

from . import text
from .model import AdamW, Model, Worker, initial, named
from .peer import gather

PRETRAINED_STEPS = 600


def pretrained(seed):
    """Returns a model of the text from which a task moves it."""
    worker = Worker(0, 1, seed, PRETRAINED_STEPS)
    worker.train(0, PRETRAINED_STEPS)
    return worker.model.flat


class Job:
    """The training of a worker: a model, its batches, and the step of its optimizer."""

    def __init__(self, given):
        self.given = given
        self.model = Model(pretrained(given.seed) if given.task else initial(given.seed))
        self.params = named(self.model.flat)
        self.optimizer = AdamW(self.model, given.steps)

    def batch(self, step):
        where = self.given.number, self.given.workers, self.given.seed
        return next(text.batches(*where, step, 1, self.given.batch, self.given.task))

    def adam(self, step):
        self.model.backward(*self.batch(step))
        self.optimizer.step(step)

    def sgd(self, step):
        """Makes a step. A gradient longer than 1 is scaled to 1."""
        self.model.backward(*self.batch(step))
        gradient = self.model.gradient
        gradient *= np.float32(self.given.rate / max(1.0, float(np.sqrt(np.dot(gradient, gradient)))))
        self.model.flat -= gradient

    def rest(self, step):
        """Does nothing: the method makes the step."""

    def validate(self):
        return self.model.loss(*text.validation(self.given.task))


def one_byte(comm, job, codec, **common):
    probes = job.given.probes
    method = OneByte(
        comm, job.params, lambda probe: job.model.loss(*job.batch(method.round * probes + probe)), codec=codec,
        probes=probes, lr=job.given.rate, **common,
    )
    return method, job.rest


def sketched(comm, job, kind, **common):
    given = job.given
    clip = given.rate if given.noise > 0 else None
    return Sketched(comm, job.params, ratio=given.ratio, kind=kind, clip=clip, noise=given.noise, **common), job.sgd


def dp_lora(comm, job, **common):
    given = job.given
    train, _ = text.classes(given.task)
    length = len(train) // given.workers

    def gradients(chosen):
        return job.model.factors(*text.windows(train, given.number * length + chosen))

    method = DPLoRA(
        comm, job.params, gradients, examples=length - text.CONTEXT, batch=given.batch, rank=given.rank,
        targets=("w1", "w2", "w3"), clip=given.clip, noise=given.noise, lr=given.rate, inner_steps=given.inner_steps,
        noise_seed=given.seed * given.workers + given.number, **common,
    )
    return method, job.rest


def demo(comm, job, **common):
    """Makes a DeMo, with given.rate on the schedule of the optimizer."""

    def rate(step):
        return job.given.rate * job.optimizer.share_of(step)

    return DeMo(comm, job.params, kept=job.given.kept, lr=rate, **common), job.sgd


def diloco(comm, job, inner_steps, outer, before):
    return DiLoCo(comm, job.params, inner_steps=inner_steps, outer=outer, min_peers=job.given.workers), before


class Parallel:
    """Averages the gradients in each step."""

    round = 0

    def __init__(self, comm, job):
        self.comm, self._job = comm, job

    def join(self):
        pass

    def before(self, step):
        self._job.model.backward(*self._job.batch(step))

    def step(self):
        gradient = self._job.model.gradient
        info = self.comm.all_reduce(gradient, gradient, op=pccl.ReduceOp.AVG)
        self._job.optimizer.step(self.round)
        self.round += 1
        return StepInfo(participants=info.local_world_size, tx_bytes=info.tx_bytes, rx_bytes=info.rx_bytes)

    def close(self):
        pass


def parallel(comm, job):
    method = Parallel(comm, job)
    return method, method.before


METHODS = {
    "parallel": lambda comm, job, **_: parallel(comm, job),
    "byte": lambda comm, job, **common: one_byte(comm, job, "byte", **common),
    "float32": lambda comm, job, **common: one_byte(comm, job, "float32", **common),
    "count": lambda comm, job, **common: sketched(comm, job, "count", **common),
    "hadamard": lambda comm, job, **common: sketched(comm, job, "hadamard", **common),
    "pair": lambda comm, job, **common: (
        PairAverage(comm, job.params, inner_steps=job.given.inner_steps, momentum=job.given.momentum, **common),
        job.adam,
    ),
    "partial": lambda comm, job, **common: (
        PartialAverage(comm, job.params, fraction=job.given.fraction, **common), job.adam
    ),
    "sparse": lambda comm, job, **common: (
        SparseLoCo(comm, job.params, inner_steps=job.given.inner_steps, kept=job.given.kept, decay=job.given.decay,
                   **common), job.adam
    ),
    "dp-lora": dp_lora,
    "demo": demo,
    "power": lambda comm, job, **common: (
        PowerSGD(comm, job.params, inner_steps=job.given.inner_steps, rank=job.given.rank,
                 outer=Nesterov(0.7, job.given.momentum), **common), job.adam
    ),
    "dense": lambda comm, job, **_: diloco(comm, job, 1, SGD(1.0), job.sgd),
    "diloco": lambda comm, job, **_: diloco(comm, job, job.given.inner_steps, Nesterov(), job.adam),
}


def train(method, before, job):
    sent = received = 0
    method.join()
    job.begin = time.monotonic()
    tell(job, method, sent, received, 0, 0)
    for step in range(job.given.steps):
        due = time.monotonic() + job.given.pace
        before(step)
        time.sleep(max(0.0, due - time.monotonic()))
        if step == job.given.dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        info = method.step()
        sent, received = sent + info.tx_bytes, received + info.rx_bytes
        if (step + 1) % job.given.tell_every == 0 or step + 1 == job.given.steps:
            tell(job, method, sent, received, info.participants, step + 1)
    return mean_of_all(method.comm, job.model.flat)


def mean_of_all(comm, flat):
    """Returns the mean by a single reduction at the end."""
    mean = np.empty_like(flat)
    comm.all_reduce(flat, mean, op=pccl.ReduceOp.AVG)
    return mean


def tell(job, method, sent, received, participants, step):
    crc = zlib.crc32(job.model.flat.tobytes())
    privacy = {"epsilon": method.epsilon, "delta": method.delta} if isinstance(method, DPLoRA) else {}
    print(json.dumps({
        **privacy, "step": step, "loss": job.validate(), "tx": sent, "rx": received, "participants": participants,
        "round": method.round, "parameters": crc, "at_s": time.monotonic() - job.begin,
    }), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--method", choices=list(METHODS), required=True)
    parser.add_argument("--task", choices=list(text.TASKS))
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--min-peers", type=int, help="all, unless some are to die")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--inner-steps", type=int, default=25)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=0.3)
    parser.add_argument("--probes", type=int, default=8)
    parser.add_argument("--ratio", type=float, default=8.0)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--fraction", type=float, default=0.005)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--kept", type=int, default=64)
    parser.add_argument("--decay", type=float, default=0.95)
    parser.add_argument("--tell-every", type=int, default=1 << 30)
    parser.add_argument("--pace", type=float, default=0.0, help="seconds of a step, without its exchange")
    parser.add_argument("--dies-in", type=int, default=-1, help="the step before which it is killed")
    given = parser.parse_args()
    job = Job(given)
    with pccl.Communicator(given.address) as comm:
        gather(comm, given.workers)
        common = {"seed": given.seed, "min_peers": given.min_peers or given.workers}
        method, before = METHODS[given.method](comm, job, **common)
        mean = train(method, before, job)
        print(json.dumps({"mean_loss": Model(mean).loss(*text.validation(given.task))}))
        method.close()


if __name__ == "__main__":
    main()
