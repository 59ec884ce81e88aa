#!/usr/bin/env python3
"""Counts small reductions of mlx arrays on lossy links while peers are killed and replaced, and compares with mlx's own
ring.

    build/venv/bin/python bench/mlx_ring.py [--operations 100000] [--peers 3] [--bytes 64] [--delay-ms 0.2]
                                            [--loss 0.1] [--kill-every 5] [--only pccl,ring,ring-kill]

Each peer runs on a separate emulated host (tests/wan; needs root). Parts:

pccl       pccl.loop with --operations reductions by step.all_reduce. Every --kill-every seconds a random peer is killed
           by SIGKILL and started again.
ring       the same number of mx.distributed.all_sum, over the same links, without kills: a ring has a fixed set of
           ranks.
ring-kill  the same, with one kill after --kill-every seconds. Reports the end of the other ranks.

Every peer checks each sum. A part without progress for --patience seconds counts as a hang.
"""

import argparse
import json
import os
import pathlib
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BATCH = 100  # reductions in a step, and between two lines of a peer
PORT = 48148
DONE, KILLED = "done", "ended with -9"


# ---- peers


def check(got, wanted):
    if any(one != wanted for one in got):
        sys.exit(f"a sum is {got}: expected {wanted}")


def reduce_by_pccl(arguments):
    import mlx.core as mx  # pylint: disable=import-outside-toplevel

    import pccl  # pylint: disable=import-outside-toplevel

    done = mx.array([0])
    steps = arguments.operations // BATCH
    for step in pccl.loop(arguments.peer, {"done": done}, min_peers=2):
        with step:
            for i in range(BATCH):
                array = mx.full((arguments.bytes // 4,), 1.0 + i)
                info = step.all_reduce(array)
                check(array.tolist(), info.world_size * (1.0 + i))
            done[0] = BATCH * (step.index + 1)
        print(done.item(), flush=True)
        if step.index + 1 >= steps:
            break


def reduce_by_ring(arguments):
    import mlx.core as mx  # pylint: disable=import-outside-toplevel

    group = mx.distributed.init(strict=True, backend="ring")
    for done in range(0, arguments.operations, BATCH):
        for i in range(BATCH):
            array = mx.distributed.all_sum(mx.full((arguments.bytes // 4,), 1.0 + i))
            check(array.tolist(), group.size() * (1.0 + i))
        print(done + BATCH, flush=True)


# ---- their hosts


class Peer:
    """One peer's host, on which a killed process is replaced by another."""

    def __init__(self, prefix, command, environment, number, lines):
        self._start = prefix + command, environment
        self.number = number
        self._lines = lines
        self.process = None
        self.start()

    def start(self):
        words, environment = self._start
        self.process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._read, args=(self.process,), daemon=True).start()

    def _read(self, process):
        for line in process.stdout:
            self._lines.put((self, process, int(line)))
        process.stdout.close()
        self._lines.put((self, process, DONE if process.wait() == 0 else f"ended with {process.returncode}"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


class Part:
    """One run. Its result is a dictionary for the table."""

    def __init__(self, name, arguments, peers, lines):
        self.name = name
        self.arguments = arguments
        self.peers = peers
        self.lines = lines
        self.counts = [0] * len(peers)
        self.ends = [None] * len(peers)
        self.kills = 0
        self.pause = 0.0
        self.begin = time.monotonic()

    def _may_kill(self):
        if self.name == "pccl":
            return max(self.counts) < self.arguments.operations and min(self.counts) > 0
        return self.name == "ring-kill" and self.kills == 0 and min(self.counts) > 0

    def _kill(self):
        peer = random.choice(self.peers)
        self.counts[peer.number] = 0
        self.kills += 1
        peer.kill()
        if self.name == "pccl":
            peer.start()

    def _take(self, peer, process, told):
        if process is not peer.process:
            return  # one that was killed and replaced
        if isinstance(told, int):
            self.counts[peer.number] = told
        else:
            self.ends[peer.number] = told

    def _is_over(self):
        """Returns true if all processes have ended, except a newcomer that was still joining when the others left."""
        left = [number for number, end in enumerate(self.ends) if end is None]
        return not left or (len(left) == 1 and self.counts[left[0]] == 0 and DONE in self.ends)

    def run(self):
        last = time.monotonic()
        next_kill = last + self.arguments.kill_every
        while not self._is_over():
            try:
                self._take(*self.lines.get(timeout=0.1))
                self.pause, last = max(self.pause, time.monotonic() - last), time.monotonic()
            except queue.Empty:
                pass
            if time.monotonic() - last > self.arguments.patience:
                return self._result("HANG")
            if time.monotonic() >= next_kill and self._may_kill():
                self._kill()
                next_kill = time.monotonic() + self.arguments.kill_every
        failures = {end for end in self.ends if end not in (None, DONE, KILLED)}
        return self._result("; ".join(sorted(failures)) or "complete")

    def _result(self, outcome):
        seconds = time.monotonic() - self.begin
        return {
            "part": self.name, "outcome": outcome, "reductions": max(self.counts), "kills": self.kills,
            "seconds": round(seconds, 1), "longest_pause_s": round(self.pause, 1),
        }  # fmt: skip


def run_part(name, arguments, folder):
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    library = arguments.build / "src" / "libpccl.so.1"
    environment = dict(os.environ, PCCL_LIBRARY=str(library), PYTHONPATH=str(ROOT / "python"))
    emulator = str(arguments.build / "tests" / "wan" / "wanem")
    links = {"rate_mbit": 1000, "delay_ms": arguments.delay_ms, "loss_percent": arguments.loss}
    script = [sys.executable, "-B", str(pathlib.Path(__file__).resolve()), "--operations", str(arguments.operations)]
    script += ["--bytes", str(arguments.bytes), "--peer"]
    lines = queue.Queue()
    processes, peers = [], []
    with Wan(1 + arguments.peers, emulator=emulator, **links) as wan:
        address = f"{wan.address(0)}:{PORT}"
        hosts = folder / "hosts.json"
        hosts.write_text(json.dumps([[f"{wan.address(1 + i)}:{PORT}"] for i in range(arguments.peers)]))
        try:
            if name == "pccl":
                master = [str(arguments.build / "tools" / "pccl-master"), "--listen", address]
                processes.append(subprocess.Popen(wan.prefix(0) + master, stderr=subprocess.DEVNULL))
            for i in range(arguments.peers):
                ring = {"MLX_RANK": str(i), "MLX_HOSTFILE": str(hosts)}
                command = script + [address if name == "pccl" else "ring"]
                peers.append(Peer(wan.prefix(1 + i), command, {**environment, **ring}, i, lines))
            return Part(name, arguments, peers, lines).run()
        finally:
            for process in processes + [peer.process for peer in peers]:
                process.kill()
                process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "default")
    parser.add_argument("--operations", type=int, default=100_000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--delay-ms", type=float, default=0.2)
    parser.add_argument("--loss", type=float, default=0.1, help="percent of the packets")
    parser.add_argument("--kill-every", type=float, default=5, metavar="SECONDS")
    parser.add_argument("--patience", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--only", default="pccl,ring,ring-kill", metavar="PARTS")
    parser.add_argument("--peer", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peer:
        (reduce_by_ring if arguments.peer == "ring" else reduce_by_pccl)(arguments)
        return
    arguments.build = arguments.build.resolve()
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.only.split(","):
            print(json.dumps(run_part(name, arguments, pathlib.Path(folder))), flush=True)


if __name__ == "__main__":
    main()
