#!/usr/bin/env python3
"""Measures a layer of experts over slow links (pccl.torch.MoE): the duration of a forward pass, compared with dispatch,
compute and combine in sequence. Each peer runs on a separate emulated host (tests/wan; needs root). An expert sleeps
instead of computing, for the duration of both transfers together; so only the overlap makes a difference.

    build/venv/bin/python bench/experts.py [--build build/default] [--peers 4] [--mbit 100] [--delay-ms 20]

Requires a Python with torch.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

from crew import ROOT, ask, crew

WIDTH, EXPERTS, TOP_K = 1024, 16, 2


def peer(arguments):
    """Prints one line of JSON for each command: the padding of a row in seconds, or "sequence"."""
    import torch  # pylint: disable=import-outside-toplevel

    import pccl.torch  # pylint: disable=import-outside-toplevel

    torch.set_num_threads(1)
    padding = [0.0]

    class Padded(torch.nn.Module):
        def forward(self, x):
            time.sleep(padding[0] * len(x))
            return 2 * x

    comm = pccl.Communicator(arguments.peer)
    comm.connect()
    while len(comm.members()) < arguments.peers:
        comm.update_topology()
    torch.manual_seed(comm.rank)
    experts = [Padded() for _ in range(EXPERTS)]
    moe = pccl.torch.MoE(experts, torch.nn.Linear(WIDTH, EXPERTS), comm, top_k=TOP_K, chunks=arguments.chunks)
    x = torch.randn(arguments.tokens, WIDTH)

    def step():
        with torch.no_grad():
            moe(x)
        return {"rows": moe.info.computed, "waited_s": moe.info.waited_s, "tx_bytes": moe.info.tx_bytes}

    def rows_for(member):
        return sum(count for count, owner in zip(moe.info.load, moe.owners) if owner == member != comm.id)

    def sequence():
        """Sends the same rows, without overlap."""
        parts = [bytes(rows_for(member) * WIDTH * 4) for member in comm.members()]
        comm.barrier()
        begin = time.monotonic()
        came = comm.all_to_all_v(parts)
        middle = time.monotonic()
        comm.all_to_all_v([bytes(len(part)) for _, part in came])
        return {"dispatch_s": middle - begin, "combine_s": time.monotonic() - middle}

    step()
    sequence()
    print("ready", flush=True)
    for line in sys.stdin:
        comm.barrier()
        begin = time.monotonic()
        if line.strip() != "sequence":
            padding[0] = float(line)
        told = sequence() if line.strip() == "sequence" else step()
        print(json.dumps({**told, "s": time.monotonic() - begin}), flush=True)
    comm.close()


def report(arguments, peers):
    rows = max(one["rows"] for one in ask(peers, 0.0))  # of the busiest peer, which determines the duration
    ratios = []
    for _ in range(arguments.times):
        told = ask(peers, "sequence")
        dispatch, combine = (max(one[name] for one in told) for name in ("dispatch_s", "combine_s"))
        compute = dispatch + combine
        told = ask(peers, compute / rows)
        taken, waited = max(one["s"] for one in told), max(one["waited_s"] for one in told)
        ratios.append(taken / (dispatch + compute + combine))
        print(f"dispatch {dispatch:.2f} s, compute {compute:.2f} s, combine {combine:.2f} s: the step {taken:.2f} s, "
              f"of which a peer waited {waited:.2f} s; {ratios[-1]:.3f} of the sequence", flush=True)
    print(f"median {statistics.median(ratios):.3f}")


def measure(arguments):
    options = ("peers", "tokens", "chunks")
    links = {"rate_mbit": arguments.mbit, "delay_ms": arguments.delay_ms, "queue_kib": 1024}
    with crew(arguments, __file__, options, **links) as (_, peers):
        report(arguments, peers)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--peers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=2048, help="of each peer, in a step")
    parser.add_argument("--chunks", type=int, default=4)
    parser.add_argument("--mbit", type=int, default=100)
    parser.add_argument("--delay-ms", type=int, default=20)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.build = arguments.build.resolve()
    if arguments.peer:
        peer(arguments)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
