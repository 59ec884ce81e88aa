"""A model with a residual stream that is cut into stages, and a worker that trains it with pccl.methods.Pipeline in a
separate process.

    python -m lab.pipelines ADDRESS NUMBER --whole 1 --steps 600

Twelve characters become the sum of the embeddings of each in its place: from a constant table, which all stages know,
and from a trained one. Blocks add to that stream; from its end the next character is guessed. Prints lines of JSON with
the events of each round, and its loss.
"""

import argparse
import json
import math
import os
import signal
import threading
import time

import numpy as np

import pccl
from pccl.methods import Pipeline

from . import text
from .model import AdamW
from .peer import gather

PLACES = text.CONTEXT * text.CLASSES


def table(seed, width):
    """Returns the constant embeddings of characters in their places."""
    scale = np.float32(1 / math.sqrt(text.CONTEXT))
    return np.random.default_rng([seed, 1]).standard_normal((PLACES, width), dtype=np.float32) * scale


def places(contexts):
    return contexts + text.CLASSES * np.arange(text.CONTEXT)


def bag(contexts):
    """Returns one row for each context, with a 1 for each of its characters."""
    found = np.zeros((len(contexts), PLACES), np.float32)
    np.put_along_axis(found, places(contexts), 1, 1)
    return found


def summed(rows, contexts):
    return rows[places(contexts)].sum(1)


class Part:
    """A stage. micro: (contexts, next characters)."""

    def __init__(self, number, stages, seed=0, steps=600, width=128, hidden=128, blocks=4, rate=4e-3):
        self.known = table(seed, width)
        self.is_first, self.is_last = number == 0, number == stages - 1
        self.blocks = range(number * blocks // stages, (number + 1) * blocks // stages)
        shapes = {"meaning": (PLACES, width)} if self.is_first else {}
        for block in self.blocks:
            shapes.update({f"in{block}": (width, hidden), f"bias{block}": (hidden,), f"out{block}": (hidden, width)})
        if self.is_last:
            shapes.update({"head": (width, text.CLASSES), "bias": (text.CLASSES,)})
        self.flat = np.zeros(sum(math.prod(shape) for shape in shapes.values()), np.float32)
        self.gradient = np.zeros_like(self.flat)
        self.params, self._gradients = self._named(self.flat, shapes), self._named(self.gradient, shapes)
        dice = np.random.default_rng([seed, 2, number])
        for name, part in self.params.items():
            if part.ndim == 2 and name != "meaning":
                part[:] = dice.standard_normal(part.shape) / math.sqrt(part.shape[0])
        self._optimizer = AdamW(self, steps, rate)

    @staticmethod
    def _named(flat, shapes):
        found, begin = {}, 0
        for name, shape in shapes.items():
            found[name] = flat[begin : begin + math.prod(shape)].reshape(shape)
            begin += math.prod(shape)
        return found

    def forward(self, micro, stream):
        contexts, wanted = micro
        p, kept = self.params, []
        if self.is_first:
            kept.append(bag(contexts))
            stream = summed(self.known, contexts) + summed(p["meaning"], contexts)
        for block in self.blocks:
            inner = np.maximum(stream @ p[f"in{block}"] + p[f"bias{block}"], 0)
            kept.append((stream, inner))
            stream = stream + inner @ p[f"out{block}"]
        if not self.is_last:
            return stream, kept
        scores = stream @ p["head"] + p["bias"]
        scores -= scores.max(1, keepdims=True)
        odds = np.exp(scores)
        total = odds.sum(1, keepdims=True)
        loss = float(np.mean(np.log(total[:, 0]) - scores[np.arange(len(wanted)), wanted]))
        odds /= total
        odds[np.arange(len(wanted)), wanted] -= 1
        return loss, [*kept, (stream, odds / np.float32(len(wanted)))]

    def backward(self, kept, above):
        p, g = self.params, self._gradients
        if self.is_last:
            stream, odds = kept.pop()
            g["head"] += stream.T @ odds
            g["bias"] += odds.sum(0)
            above = odds @ p["head"].T
        for block in reversed(self.blocks):
            stream, inner = kept.pop()
            g[f"out{block}"] += inner.T @ above
            below = (above @ p[f"out{block}"].T) * (inner > 0)
            g[f"in{block}"] += stream.T @ below
            g[f"bias{block}"] += below.sum(0)
            above = above + below @ p[f"in{block}"].T
        if not self.is_first:
            return above
        g["meaning"] += kept.pop().T @ above
        return None

    def step(self, step, micro_batches):
        self.gradient *= np.float32(1 / micro_batches)
        self._optimizer.step(step)
        self.forget()

    def forget(self):
        self.gradient[:] = 0


def makers(stages, **given):
    return [lambda number=number: Part(number, stages, **given) for number in range(stages)]


def known_of(seed, width):
    fixed = table(seed, width)
    return lambda micro: summed(fixed, micro[0])


def batches_of(seed, replicas, size, micro_batches):
    """Returns batches; each of the `replicas` replicas has a separate part of the text."""

    def batch(replica, step):
        ((contexts, wanted),) = text.batches(replica % replicas, replicas, seed, step, 1, size)
        return list(zip(np.split(contexts, micro_batches), np.split(wanted, micro_batches)))

    return batch


def loss_of(comm, method):
    """Returns the loss on text that was held back, of the whole model, and of the model with compressed links. Uses
    each stage of the first peer that has it. Joint."""
    own = [bytes([number]) + stage.flat.tobytes() for number, stage in sorted(method.stages.items())]
    lengths = [len(blob) for blob in own]
    found = {}
    for _, blob in comm.all_gather_v(json.dumps(lengths).encode().ljust(64) + b"".join(own), alone_ok=True):
        begin = 64
        for length in json.loads(bytes(blob[:64])):
            found.setdefault(blob[begin], np.frombuffer(blob[begin + 1 : begin + length], np.float32))
            begin += length
    micro = text.validation()
    whole = linked = None
    for number, flat in sorted(found.items()):
        part = method._makers[number]()
        part.flat[:] = flat
        if number > 0:
            linked = method.linked(micro, linked)
        whole, linked = part.forward(micro, whole)[0], part.forward(micro, linked)[0]
    return whole, linked


class Sham:
    """A stage without computation that takes as long as a stage of a large model."""

    def __init__(self, number, stages, seconds):
        self._is_last, self._seconds = number == stages - 1, seconds
        self.params = {"nothing": np.zeros(8, np.float32)}

    def forward(self, micro, _):
        time.sleep(self._seconds / 3)
        return (0.0 if self._is_last else np.ones_like(micro)), micro

    def backward(self, kept, _):
        time.sleep(self._seconds * 2 / 3)
        return np.ones_like(kept)

    def step(self, step, micro_batches):
        pass

    def forget(self):
        pass


def task_of(given):
    """Returns (stages, batch, known)."""
    if given.sham_s:
        stages = [lambda number=number: Sham(number, given.stages, given.sham_s) for number in range(given.stages)]
        micros = list(np.zeros((given.micro_batches, given.batch // given.micro_batches, given.width), np.float32))
        return stages, lambda replica, step: micros, lambda micro: micro
    stages = makers(given.stages, seed=given.seed, steps=given.steps, width=given.width)
    batch = batches_of(given.seed, given.replicas, given.batch, given.micro_batches)
    return stages, batch, known_of(given.seed, given.width)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=0, help="so many begin together")
    parser.add_argument("--whole", type=int, default=0, help="the first so many peers have the whole model")
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument("--stages", type=int, default=2)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--inner-steps", type=int, default=25)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--compress", default="pipelines")
    parser.add_argument("--kept", type=int, default=512)
    parser.add_argument("--decay", type=float, default=0.95)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--micro-batches", type=int, default=4)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--sham-s", type=float, default=0.0, help="nothing is computed; a micro-batch takes so long")
    parser.add_argument("--min-peers", type=int)
    parser.add_argument("--dies-after-s", type=float, help="after it has joined")
    given = parser.parse_args()
    with pccl.Communicator(given.address) as comm:
        if given.workers:
            gather(comm, given.workers)
        method = Pipeline(
            comm, *task_of(given), width=given.width, rank=given.rank, inner_steps=given.inner_steps,
            whole=given.number < given.whole, compress=given.compress, ahead=given.ahead, kept=given.kept,
            decay=given.decay, lr=given.lr, seed=given.seed, min_peers=given.min_peers or given.workers,
        )
        method.join()
        if given.dies_after_s is not None:
            dying = threading.Timer(given.dies_after_s, os.kill, (os.getpid(), signal.SIGKILL))
            dying.daemon = True
            dying.start()
        step = sent = 0
        times, losses = [], []
        while method.round * given.inner_steps + method._shared.position < given.steps:
            begin = time.monotonic()
            info = method.step()
            times.append((time.monotonic() - begin, info.waited_s, info.synced))
            sent, step = sent + info.activation_bytes, step + 1
            losses.append(info.loss)
            if info.synced:
                print(json.dumps({
                    "round": info.round, "participants": info.participants, "replica": info.replica,
                    "stage": info.stage, "lost": info.lost, "idle": info.idle, "digests": method.digests(),
                }), flush=True)
        losses = [one for one in losses if one is not None]
        whole, linked = (None, None) if given.sham_s else loss_of(method.comm, method)
        print(json.dumps({
            "activations": sent, "times": times, "trained": losses, "whole": whole, "linked": linked,
        }), flush=True)
        method.close()


if __name__ == "__main__":
    main()
