#!/usr/bin/env python3
"""The least of it: peers that come, go and are killed hold the same bits. Nothing but Python is needed.

    pccl_master &
    python hello.py 127.0.0.1:48148 &        as many as you like, whenever you like; Ctrl-C at one of them ends all
"""

import array
import hashlib
import signal
import sys
import time

import pccl

stopping = []
signal.signal(signal.SIGINT, lambda *_: stopping.append(True))
signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))

total = array.array("d", bytes(8 * 1000))  # what all hold alike
state = pccl.SharedState([pccl.TensorInfo.from_buffer(total, "total")])
with pccl.Communicator(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:48148") as comm:
    comm.connect()
    asked = 0.0
    while not asked:
        comm.sync_shared_state(state)  # newcomers get what the others hold
        state.push_revision()
        mine = array.array("d", [time.time()] * 1000 + [len(stopping)])
        try:
            info = comm.all_reduce(mine, mine, op=pccl.ReduceOp.SUM)
            asked = mine.pop()  # the same for all: they end together
            for i, value in enumerate(mine):
                total[i] += value
            print(f"step {state.revision}: {info.local_world_size} peers", flush=True)
        except pccl.TooFewPeersError:
            time.sleep(0.1)  # alone: wait for others
            asked = len(stopping)
        except pccl.PeerLostError:
            pass  # one was killed, and it failed for all, who try again
        comm.update_topology()  # newcomers get in
print(f"digest {hashlib.sha256(total).hexdigest()}")
