"""Four peers in two groups: the block makes the communicators, and each sum has two peers in it."""

import os
import time

import numpy as np

import pccl

shard = int(os.environ["INDEX"]) % 2

# the block

while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 4:
    comm.update_topology()
    time.sleep(0.01)
numbers = np.full(3, 1 + shard, np.float32)
comm.all_reduce(numbers, numbers, op=pccl.ReduceOp.SUM)
assert (numbers == 2 * (1 + shard)).all(), numbers
assert comm.get_attribute(pccl.Attribute.NUM_DISTINCT_PEER_GROUPS) == 2
comm.update_topology()
comm.close()
