#!/usr/bin/env python3
"""Compares concurrent operations of all kinds with the same ones in sequence. Peers on this machine run a list of
all-reduces, broadcasts, all-gathers and reduce-scatters, alternately with all of it in flight and with one operation in
flight, and check every element.

    build/venv/bin/python bench/mixed.py [--build build/default] [--peers 4] [--bytes 4M]
                                         [--count 16] [--repeats 9]

Prints the medians and their ratio: above 1, concurrency is faster. Requires a Python with numpy.
"""

import argparse
import multiprocessing
import os
import pathlib
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def read_size(text):
    return int(text[:-1]) * UNITS[text[-1]] if text[-1:] in UNITS else int(text)


def operations(pccl, numpy, rank, arguments):
    """Returns the list, and the buffer and the expected result of each operation."""
    peers = arguments.peers
    part = arguments.bytes // 4 // peers
    run, results = [], []
    for tag in range(1, arguments.count + 1):
        own, share = (numpy.full(count, rank + tag, numpy.float32) for count in (part * peers, part))
        whole, piece = (numpy.zeros(count, numpy.float32) for count in (part * peers, part))
        total = sum(of + tag for of in range(peers))
        parts = numpy.repeat(numpy.arange(peers, dtype=numpy.float32) + tag, part)
        operation, filled, expected = (
            (pccl.AllReduce(own, whole, op="sum", tag=tag), whole, total),
            (pccl.Broadcast(own, root=tag % peers, tag=tag), own, tag % peers + tag),
            (pccl.AllGather(share, whole, tag=tag), whole, parts),
            (pccl.ReduceScatter(own, piece, op="sum", tag=tag), piece, total),
        )[tag % 4]
        run.append(operation)
        results.append((filled, expected))
    return run, results


def peer(arguments, port):
    """Prints the seconds of each list: in sequence, and concurrently."""
    import numpy  # pylint: disable=import-outside-toplevel

    import pccl  # pylint: disable=import-outside-toplevel

    comm = pccl.Communicator(f"127.0.0.1:{port}", options={"bind_address": "127.0.0.1", "port": 0})
    comm.connect()
    while len(comm.members()) < arguments.peers:
        comm.update_topology()
    run, results = operations(pccl, numpy, comm.rank, arguments)
    took = ([], [])
    for turn in range(2 * arguments.repeats + 2):
        comm.barrier()
        start = time.monotonic()
        comm.run(run, max_in_flight=(1, arguments.count)[turn % 2])
        took[turn % 2].append(time.monotonic() - start)
        if not all((filled == expected).all() for filled, expected in results):
            raise RuntimeError("wrong elements")
    comm.barrier()
    return [seconds[1:] for seconds in took]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--bytes", type=read_size, default=4 << 20)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=9)
    arguments = parser.parse_args()
    os.environ["PCCL_LIBRARY"] = str(ROOT / arguments.build / "src" / "libpccl.so.1")
    import pccl  # pylint: disable=import-outside-toplevel

    with pccl.MasterNode("127.0.0.1:0") as master:
        with multiprocessing.get_context("spawn").Pool(arguments.peers) as pool:
            of_peers = pool.starmap(peer, [(arguments, master.port)] * arguments.peers, chunksize=1)
    one, at_once = (statistics.median(sum(lists, [])) for lists in zip(*of_peers))
    print(f"one after another {one * 1e3:.1f} ms, at once {at_once * 1e3:.1f} ms: {one / at_once:.3f}")


if __name__ == "__main__":
    main()
