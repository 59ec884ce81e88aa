#!/usr/bin/env python3
"""A peer that is made to be killed: start and kill as many as you like, as fast as you like, for hours.

    python stress_peer.py 127.0.0.1:48148

The shared state is synchronized only when somebody has come. Each step reduces ten matrices at once, quantized, and
adds them to the state; so a single bit that differs would be seen in the digest that is printed with each step.
"""

import signal
import sys
import time
import zlib
from typing import List

import numpy as np

import pccl

MATRICES, EXTENT = 10, 128

stopping: List[bool] = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

weights = np.zeros((MATRICES, EXTENT, EXTENT), np.float32)
steps_done = np.zeros(1, np.int64)
shared_state = pccl.SharedState(
    [pccl.TensorInfo.from_numpy(weights, "weights"), pccl.TensorInfo.from_numpy(steps_done, "steps_done")]
)
random = np.random.default_rng()
values = np.empty_like(weights)
stop = np.zeros(1, np.float32)

operand = pccl.ReduceOperandDescriptor(pccl.DataType.FLOAT, pccl.DistributionHint.NONE)
packed = pccl.QuantizationOptions(pccl.DataType.UINT8, pccl.QuantizationAlgorithm.MIN_MAX)
reductions = [
    pccl.ReduceOpDescriptor.from_numpy(
        value, value, pccl.ReduceDescriptor(value.size, pccl.ReduceOp.SUM, tag, operand, packed)
    )
    for tag, value in enumerate(values)
]
reductions.append(
    pccl.ReduceOpDescriptor.from_numpy(stop, stop, pccl.ReduceDescriptor(1, pccl.ReduceOp.MAX, MATRICES, operand))
)

communicator = pccl.Communicator(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:48148", 0)
communicator.connect(n_attempts=15)
just_joined = somebody_came = True
while not stop[0]:
    # A newcomer goes on from the others' update_topology(), which let it in.
    if not just_joined and communicator.are_peers_pending():
        communicator.update_topology()
        somebody_came = True
    just_joined = False
    if communicator.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 2:
        time.sleep(0.1)
        continue
    if somebody_came:
        communicator.sync_shared_state(shared_state)
        shared_state.revision += 1  # before the next one
        somebody_came = False

    values[:] = random.standard_normal(values.shape, np.float32)
    stop[0] = bool(stopping)
    try:
        info = communicator.all_reduce_multiple_with_retry(reductions, max_in_flight=8)
    except pccl.TooFewPeersError:
        continue
    weights += values
    steps_done += 1
    print(
        f"step {steps_done[0]}: {info.local_world_size} peers, crc {zlib.crc32(weights):08x}; "
        f"Reduce completed RX: {info.rx_bytes}",
        flush=True,
    )
communicator.close()
print(f"digest {zlib.crc32(weights):08x}")
