#!/usr/bin/env python3
"""The smallest example: peers that join, leave and are killed have the same bits. Requires only Python.

    pccl_master &
    python hello.py 127.0.0.1:48148 &        start any number of peers at any time; Ctrl-C in one ends all
"""

import array
import hashlib
import signal
import sys
import time

import pccl

stopping = []
for each in signal.SIGINT, signal.SIGTERM:  # a second signal ends only this peer
    signal.signal(each, lambda number, _: stopping.append(signal.signal(number, signal.default_int_handler)))

total = array.array("d", bytes(8 * 1000))  # the same on all peers
for step in pccl.loop(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:48148", {"total": total}):
    with step:
        mine = array.array("d", [time.time()] * 1000 + [len(stopping)])
        info = step.all_reduce(mine)
        asked = mine.pop()  # the same on all peers, so they end together
        for i, value in enumerate(mine):
            total[i] += value
        print(f"step {step.index}: {info.world_size} peers", flush=True)
        if asked:
            break
print(f"digest {hashlib.sha256(total).hexdigest()}")
