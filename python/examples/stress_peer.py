#!/usr/bin/env python3
"""A peer for kill tests: start and kill any number of them, at any rate, for hours.

    python stress_peer.py 127.0.0.1:48148

The loop shares the state. Each step reduces ten matrices concurrently, quantized, and adds them to the state. The
digest printed with each step therefore reveals even a single different bit.
"""

import signal
import sys
import zlib
from typing import List

import numpy as np

import pccl

MATRICES, EXTENT = 10, 128

stopping: List[bool] = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

weights = np.zeros((MATRICES, EXTENT, EXTENT), np.float32)
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

address = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:48148"
is_last = False
with pccl.loop(address, {"weights": weights}) as loop:
    for step in loop:
        with step:
            values[:] = random.standard_normal(values.shape, np.float32)
            stop[0] = bool(stopping)
            info = step.comm.all_reduce_multiple_with_retry(reductions, max_in_flight=8)
            weights += values
            print(
                f"step {step.index + 1}: {info.local_world_size} peers, crc {zlib.crc32(weights):08x}; "
                f"Reduce completed RX: {info.rx_bytes}",
                flush=True,
            )
            is_last = bool(stop[0])  # set only if the step is complete, not if it is repeated
        if is_last:
            break
print(f"digest {zlib.crc32(weights):08x}")
