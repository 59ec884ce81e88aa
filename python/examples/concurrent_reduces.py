#!/usr/bin/env python3
"""Many concurrent reductions, which use a long path better than one large buffer or one connection.

    python concurrent_reduces.py 127.0.0.1:48148 --tags 32 --elements 1000000 --pool 8

Prints the rate at which bytes are sent and received. Ctrl-C in one peer ends all. If a peer is killed, the others
continue.
"""

import argparse
import hashlib
import signal
import time

import numpy as np

import pccl

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("master", nargs="?", default="127.0.0.1:48148")
parser.add_argument("--tags", type=int, default=32, help="reductions in a step (%(default)s)")
parser.add_argument("--elements", type=int, default=1 << 20, help="floats in each (%(default)s)")
parser.add_argument("--pool", type=int, default=8, help="connections to each neighbor (%(default)s)")
args = parser.parse_args()

stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))


def description(count: int, op: pccl.ReduceOp, tag: int) -> pccl.ReduceDescriptor:
    return pccl.ReduceDescriptor(count, op, tag, pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT))


comm = pccl.Communicator(args.master, p2p_connection_pool_size=args.pool)
random = np.random.default_rng()
mine = random.random((args.tags, args.elements), np.float32)
averages = np.empty_like(mine)
stop = np.zeros(1, np.float32)

# The list is the same on all peers, and its tags are distinct. The last reduction contains the request to end.
reductions = [
    pccl.ReduceOpDescriptor.from_numpy(mine[tag], averages[tag], description(args.elements, pccl.ReduceOp.AVG, tag))
    for tag in range(args.tags)
]
reductions.append(pccl.ReduceOpDescriptor.from_numpy(stop, stop, description(1, pccl.ReduceOp.MAX, args.tags)))

is_last = False
for step in pccl.loop(comm):
    with step:
        stop[0] = bool(stopping)
        begin = time.monotonic()
        info = step.comm.all_reduce_multiple_with_retry(reductions, max_in_flight=args.tags)
        rate = (info.tx_bytes + info.rx_bytes) * 8e-9 / (time.monotonic() - begin)
        print(f"step {step.index + 1}: {info.local_world_size} peers, {rate:.2f} Gbit/s", flush=True)
        is_last = bool(stop[0])  # set only if the step is complete, not if it is repeated
    if is_last:
        break
comm.close()
print(f"digest {hashlib.sha256(averages).hexdigest()}")
