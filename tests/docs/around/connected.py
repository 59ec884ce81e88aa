"""A peer that has found the others, and leaves when all of them are through."""

import os
import time

import numpy as np

import pccl

index, peers = int(os.environ["INDEX"]), int(os.environ["PEERS"])
comm = pccl.Communicator(os.environ["MASTER"])
comm.connect()
while comm.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < peers:
    comm.update_topology()
    time.sleep(0.01)

# the block

comm.update_topology()
comm.close()
