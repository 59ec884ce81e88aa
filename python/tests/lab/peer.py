"""A worker of the laboratory in a separate process, with pccl.diloco over the library.

    python -m lab.peer ADDRESS NUMBER --workers 4 --steps 600

Prints a line of JSON for each boundary and each slot of a fragment, and at the end the loss; with --curve also the loss
of the outer copy at each boundary. With --pace an inner step takes this number of seconds, as on an accelerator.
"""

import argparse
import json
import os
import signal
import threading
import time
import zlib

import numpy as np

import pccl
import pccl.diloco

from .model import Model, Worker, named


class Mortal(pccl.Communicator):
    """Kills its process in the middle of the reduction of a model: the first bucket is done, the later ones are in
    flight. It never launches the last one, so that this reduction cannot end with it, even if the signal is late."""

    doomed = False

    def all_reduce_multiple_with_retry(self, descriptors, **given):
        reduce = super().all_reduce_multiple_with_retry
        if not self.doomed or len(descriptors) < 3:
            return reduce(descriptors, **given)
        reduce(descriptors[:1], **given)
        threading.Thread(target=reduce, args=(descriptors[1:-1],), daemon=True).start()
        return os.kill(os.getpid(), signal.SIGKILL)


def gather(comm, workers):
    """Returns when this number of workers is in the run."""
    comm.connect()
    while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < workers:
        comm.update_topology()


def train(diloco, worker, given, comm):
    diloco.join()
    begin, outer_copies = time.monotonic(), []
    for step in range(given.steps):
        comm.doomed = diloco.round == given.dies_in
        due = time.monotonic() + given.pace
        worker.train(step, 1)
        time.sleep(max(0.0, due - time.monotonic()))
        info = diloco.step(32)
        if info.synced or info.fragments:
            tell(diloco, worker, info, begin)
        if given.curve and info.synced:
            outer_copies.append(outer_copy(diloco, worker.model.flat))
    curve = [Model(flat).validate() for flat in outer_copies]
    tell(diloco, worker, diloco.finish(), begin, end=True, curve=curve)


def outer_copy(diloco, flat):
    own = flat.copy()
    diloco._write()
    shared = flat.copy()
    flat[:] = own
    return shared


def tell(diloco, worker, info, begin, **more):
    line = {
        "round": info.round,
        "digest": diloco.digest(),
        "parameters": zlib.crc32(worker.model.flat.tobytes()),
        "participants": info.participants,
        "tx": info.tx_bytes,
        "rx": info.rx_bytes,
        "slots": [[cost.fragment, cost.tx_bytes, cost.waited_s, cost.age] for cost in info.fragments],
        "moved": info.moved_bytes,
        "waited_s": info.waited_s,
        "at_s": time.monotonic() - begin,
        **more,
    }
    if more:
        line["loss"] = Model(worker.model.flat).validate()
        line["cpu_s"] = time.process_time()
    print(json.dumps(line), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("number", type=int)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--inner-steps", type=int, default=25)
    parser.add_argument("--mode", default="sync")
    parser.add_argument("--rate", type=float, default=0.7)
    parser.add_argument("--momentum", type=float, default=0.9)
    parser.add_argument("--codec")
    parser.add_argument("--feedback", type=int, default=0)
    parser.add_argument("--fragments", type=int, default=1)
    parser.add_argument("--delay", type=int, default=0)
    parser.add_argument("--alpha", type=float, default=0.0)
    parser.add_argument("--bucket-bytes", type=int, default=1 << 16)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--curve", type=int, default=0)
    parser.add_argument("--dies-in", type=int, default=-1, help="the round in whose reduction it is killed")
    parser.add_argument("--save", help="file for the outer parameters")
    given = parser.parse_args()
    worker = Worker(given.number, given.workers, given.seed, given.steps)
    with Mortal(given.address) as comm:
        gather(comm, given.workers)
        diloco = pccl.diloco.DiLoCo(
            comm,
            named(worker.model.flat),
            inner_steps=given.inner_steps,
            outer=pccl.diloco.Nesterov(given.rate, given.momentum),
            mode=given.mode,
            codec=given.codec,
            feedback=bool(given.feedback),
            fragments=given.fragments,
            delay=given.delay,
            alpha=given.alpha,
            bucket_bytes=given.bucket_bytes,
        )
        train(diloco, worker, given, comm)
        diloco.close()
    if given.save:
        np.save(given.save, worker.model.flat)


if __name__ == "__main__":
    main()
