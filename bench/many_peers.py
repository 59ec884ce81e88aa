#!/usr/bin/env python3
"""Measures many real peers on this machine: the time to join, the cost of a small reduction, and the limits.

    bench/many_peers.py [--build build/default] [--processes 4] [--runs 3] [--operations 500]
    [--bytes 64] [--bulk 65536] [--bulk-times 5] [PEERS ...]

Prints the medians of the runs for each number of peers, or the reason if a run fails.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time


def cpu_s(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_kib(pid, name):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name + ":"))


class Broken(Exception):
    pass


def marks_until(workers, what):
    """Reads one line of each worker; returns the latest time, at which it was true for all."""
    marks = []
    for worker in workers:
        line = worker.stdout.readline().split()
        if not line or line[0] != what:
            raise Broken(" ".join(line) or "a process has ended")
        marks.append({key: float(value) for key, value in (word.split("=") for word in line[1:])})
    return marks


def measure(arguments, peers):
    environment = dict(os.environ, PCCL_LOG_LEVEL="ERR")
    master = subprocess.Popen(
        [f"{arguments.build}/tools/pccl-master", "--listen", "127.0.0.1:0", "--set", "found_after_ms=0"],
        env=dict(environment, PCCL_LOG_LEVEL="INFO"),
        stderr=subprocess.PIPE,
        text=True,
    )
    workers = []
    try:
        line = ""
        while "listening on port" not in line:
            line = master.stderr.readline()
            if not line:
                raise Broken("the master does not start")
        port = int(line.split("listening on port")[1].split()[0])
        subprocess.Popen(["cat"], stdin=master.stderr, stdout=subprocess.DEVNULL)
        count = min(arguments.processes, peers)
        idle_kib = status_kib(master.pid, "VmRSS")
        for i in range(count):
            share = peers // count + (i < peers % count)
            command = [f"{arguments.build}/bench/bench_many_peers", f"127.0.0.1:{port}"]
            numbers = (share, peers, arguments.operations, arguments.bytes, arguments.bulk, arguments.bulk_times)
            command += [str(number) for number in numbers]
            workers.append(
                subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
        start = marks_until(workers, "start")
        joined = marks_until(workers, "joined")
        begin = marks_until(workers, "begin")
        master_begin = cpu_s(master.pid)
        end = marks_until(workers, "end")
        master_cpu = cpu_s(master.pid) - master_begin
        took = max(mark["at"] for mark in end) - min(mark["at"] for mark in begin)
        work = arguments.operations * peers
        cold = marks_until(workers, "cold") if arguments.bulk else []
        master_cold = cpu_s(master.pid)
        bulk = marks_until(workers, "bulk") if arguments.bulk else []
        master_bulk = cpu_s(master.pid) - master_cold
        bulk_work = max(1, arguments.bulk_times - 1) * peers
        workers_cpu = sum(b["cpu"] - a["cpu"] for a, b in zip(begin, end))
        return {
            "join_s": max(mark["at"] for mark in joined) - min(mark["at"] for mark in start),
            "updates": max(mark["updates"] for mark in joined) / (peers / count),
            "operations_per_s": arguments.operations / took,
            **{name: max(mark[name] for mark in bulk) for name in ("cold_ms", "warm_ms") if bulk},
            "bulk_master_us": master_bulk / bulk_work * 1e6,
            "bulk_peer_us": sum(b["cpu"] - a["cpu"] for a, b in zip(cold, bulk)) / bulk_work * 1e6,
            "master_us": master_cpu / work * 1e6,
            "peer_us": workers_cpu / work * 1e6,
            "peer_kib": sum(b["rss_kib"] - a["rss_kib"] for a, b in zip(start, end)) / peers,
            "master_kib": (status_kib(master.pid, "VmRSS") - idle_kib) / peers,
            "master_descriptors": len(os.listdir(f"/proc/{master.pid}/fd")),
            "worker_descriptors": max(len(os.listdir(f"/proc/{worker.pid}/fd")) for worker in workers),
        }
    finally:
        for process in workers + [master]:
            process.kill()
            process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--operations", type=int, default=500)
    parser.add_argument("--bytes", type=int, default=64)
    parser.add_argument("--bulk", type=int, default=65536)
    parser.add_argument("--bulk-times", type=int, default=5)
    parser.add_argument("peers", type=int, nargs="*")
    arguments = parser.parse_args()
    names = None
    for peers in arguments.peers or [50, 100, 200]:
        runs = []
        for _ in range(arguments.runs):
            began = time.monotonic()
            try:
                runs.append(measure(arguments, peers))
            except Broken as broken:
                print(f"{peers} peers: after {time.monotonic() - began:.1f} s: {broken}", flush=True)
                sys.exit(1)
        if names is None:
            names = list(runs[0])
            print(f"| peers | {' | '.join(names)} |\n|{'---|' * (1 + len(names))}")
        values = [statistics.median(run[name] for run in runs) for name in names]
        print(f"| {peers} | {' | '.join(f'{value:.3g}' for value in values)} |", flush=True)


main()
