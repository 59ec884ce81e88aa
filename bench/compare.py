#!/usr/bin/env python3
"""Compares a collective of this library with other libraries, over TCP on this machine, in turns: A B C A B C.

    bench/compare.py [--op NAME] [--build build/default] [--rows pccl,limit,gloo-ring,...]
                     [--peers 2,4,8] [--sizes 4,4K,...] [--repeats 3]
                     [--wan MBIT,DELAY_MS,LOSS_PERCENT] [--congestion NAME] [--json FILE]

Prints a table for each number of peers, with the medians of the repeats, and writes all results to the JSON file
(bench/plot.py draws it). Every program makes the same number of iterations after the same warm-up, and checks its
result. The slowest process determines its time; its processor time includes all processes in the timed loop.

--op: all_reduce (the default), broadcast, all_gather, reduce_scatter, reduce, gather, scatter, all_to_all, send (of
each two processes the first one to the second) or barrier; and gather_v, scatter_v and all_to_all_v. For the last
three, the other libraries run the form with equal parts of known length. A size is the larger buffer, as in
nccl-tests. Gloo's reduce-scatter gives correct results only for powers of two; for other numbers of peers its row is
omitted.

Rows: limit        plain TCP sockets that move the same traffic, and do nothing else
      pccl         this library (pccl-u8: with the codec minmax:u8; pccl-int4, pccl-e3m0 and so on;
                   pccl-encrypted: with a secret; pccl-tcp: over TCP like the others, instead of the Unix
                   sockets that peers on one host use by default)
      gloo-*       Gloo: ring, ring_chunked, halving_doubling, bcube; gloo: its algorithm for operations
                   other than all_reduce
      mpi          OpenMPI over its tcp transport (mpi-ring: its ring, all_reduce only; mpi-yields: its processes
                   yield the processor while they wait, mpi_yield_when_idle)
      torch        torch.distributed with gloo, if build/venv has torch

With --wan each process and the master run on separate hosts, in network namespaces (needs root); every pair of hosts
has this rate, one-way delay and loss. The table then adds the share of the bound, which is the time of the busiest link
at this rate; our median operations are compared with the goals for this path in bench/goals.json. --congestion sets the
congestion control of our connections, as on a system with only this one (cubic).

scripts/deps-bench installs the dependencies of the other libraries. Their programs are compiled to build/bench-peers.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / "build" / "bench-peers"
TORCH = ROOT / "build" / "venv" / "bin" / "python"
GLOO = ("ring", "ring_chunked", "halving_doubling", "bcube")
ALL_ROWS = ["limit", "pccl", *(f"gloo-{name}" for name in GLOO), "mpi", "mpi-ring", "torch"]
CODECS = {"u8": "minmax:u8", **{name: name for name in ("e4m3", "e5m2", "int4", "e3m0", "e2m1")}}  # by row
TCP = "tcp"
ENCRYPTED, SECRET = "encrypted", "9tqkqWCYbl1rTQmfC1GI4dHqmmuS"
MPI_SETTINGS = {
    "ring": ["--mca", "coll_tuned_use_dynamic_rules", 1, "--mca", "coll_tuned_allreduce_algorithm", 4],
    "yields": ["--mca", "mpi_yield_when_idle", 1],
}
OTHER_ROWS = ["limit", "pccl", "gloo", "mpi", "torch"]  # for all operations except all_reduce
# The minimum traffic of the busiest peer, as a multiple of the size.
BUS = {
    "all_reduce": lambda peers: 2 * (peers - 1) / peers,
    "broadcast": lambda peers: 1,
    "all_gather": lambda peers: (peers - 1) / peers,
    "reduce_scatter": lambda peers: (peers - 1) / peers,
    "reduce": lambda peers: 1,
    "gather": lambda peers: (peers - 1) / peers,
    "scatter": lambda peers: (peers - 1) / peers,
    "all_to_all": lambda peers: (peers - 1) / peers,
    "send": lambda peers: 1,
    "barrier": lambda peers: 0,
}
SIZES = "4,4K,64K,1M,16M,64M,256M"
# (up to this many bytes, timed operations)
ITERATIONS = [(1 << 16, 200), (1 << 20, 40), (1 << 24, 10), (1 << 26, 5), (1 << 62, 3)]
ITERATIONS_WAN = [(1 << 16, 10), (1 << 62, 3)]
WARM_UP = 2
# Operations on blobs: pccl first exchanges the lengths; the other libraries run the form with equal parts.
OF_BLOBS = ("gather_v", "scatter_v", "all_to_all_v")
BUS.update({name: BUS[name.removesuffix("_v")] for name in OF_BLOBS})
IN_PARTS = ("reduce_scatter", "gather", "scatter", "all_to_all", *OF_BLOBS)
# The minimum traffic of all peers together, likewise, if it differs from the size times (peers - 1).
MOVED = {
    "all_reduce": lambda peers: 2 * (peers - 1),
    "gather": BUS["gather"],
    "scatter": BUS["scatter"],
    "gather_v": BUS["gather"],
    "scatter_v": BUS["scatter"],
    "send": lambda peers: peers / 2,
}
BARRIER_SIZE = 4  # the size of a barrier in the table; it moves no data
LAUNCH_SECONDS = 300


class Broken(Exception):
    pass


def others_name(op):
    """Returns the name of the operation in the other libraries."""
    return op.removesuffix("_v")


# ---- compilation


def compile_peers(rows):
    """Returns the rows with an available program, in order, and a reason for each other row."""
    PEERS.mkdir(parents=True, exist_ok=True)
    programs = {
        "gloo": ("bench/gloo_collective.cc", ["g++", "-std=c++17", "-O2"], ["-lgloo"]),
        "mpi": ("bench/mpi_collective.c", ["mpicc", "-std=c11", "-O2"], []),
    }
    families = {row.split("-")[0] for row in rows}
    missing = {family: build(*programs[family]) for family in families & set(programs)}
    if "torch" in families and not torch_is_there():
        missing["torch"] = "build/venv has no torch (python3 -m venv build/venv; build/venv/bin/pip install torch)"
    there = []
    for row in rows:
        words = missing.get(row.split("-")[0])
        if words:
            print(f"{row} is left out: {words}", file=sys.stderr)
        else:
            there.append(row)
    return there


def build(source, compiler, libraries):
    """Returns the reason if the build fails, None if the program exists afterwards."""
    target = PEERS / pathlib.Path(source).stem
    if target.exists() and target.stat().st_mtime > (ROOT / source).stat().st_mtime:
        return None
    if not shutil.which(compiler[0]):
        return f"no {compiler[0]} (scripts/deps-bench)"
    command = [*compiler, source, "-o", str(target), *libraries]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"it does not compile (scripts/deps-bench?): {done.stderr.strip()[-300:]}"


def torch_is_there():
    if not TORCH.exists():
        return False
    return subprocess.run([TORCH, "-c", "import torch"], capture_output=True, check=False).returncode == 0


# ---- places of processes


class Here:
    """All processes on this machine, over loopback."""

    interface = "lo"

    def prefix(self, _):
        return []

    def address(self, _):
        return "127.0.0.1"


class Far:
    """Each process on a separate emulated host; the master uses the last host."""

    interface = "eth0"

    def __init__(self, wan):
        self.wan = wan
        self.prefix = wan.prefix
        self.address = wan.address


@contextlib.contextmanager
def place(arguments, peers):
    if not arguments.wan:
        yield Here()
        return
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    rate, delay, loss = arguments.wan
    emulator = str(ROOT / arguments.build / "tests" / "wan" / "wanem")
    with Wan(peers + 1, rate_mbit=rate, delay_ms=delay, loss_percent=loss, emulator=emulator) as wan:
        yield Far(wan)


class Launch:
    """Processes of one measurement; the end of the `with` block terminates them."""

    def __init__(self):
        self.processes = []
        self.deadline = time.monotonic() + LAUNCH_SECONDS

    def start(self, command, **how):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("PCCL_")}
        environment.update(how.pop("more", {}))
        words = [str(word) for word in command]
        process = subprocess.Popen(words, text=True, start_new_session=True, env=environment, cwd=ROOT, **how)
        self.processes.append(process)
        return process

    def output(self, process):
        try:
            out, err = process.communicate(timeout=max(0.1, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired as expired:
            raise Broken(f"not done after {LAUNCH_SECONDS} s") from expired
        if process.returncode != 0:
            raise Broken(f"it ended with {process.returncode}: {(err or '').strip()[-400:]}")
        return out

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in self.processes:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()


# ---- the rows: each returns {bytes: (seconds, CPU seconds, and the median of the seconds if it is known)} of one
# operation


def merge(outputs, peers):
    """Returns the figures that the processes of the other libraries print."""
    found = {}
    for line in "".join(outputs).splitlines():
        words = line.split()
        if len(words) != 5 or not words[0].isdigit():
            continue
        size, iterations, seconds, cpu, wrong = int(words[0]), int(words[1]), *map(float, words[2:])
        if wrong:
            raise Broken(f"{wrong:.0f} elements are wrong")
        found.setdefault(size, []).append((seconds / iterations, cpu / iterations))
    for size, parts in found.items():
        if len(parts) != peers:
            raise Broken(f"{len(parts)} of {peers} processes have told about {size} bytes")
    return {
        size: (max(part[0] for part in parts), sum(part[1] for part in parts), None) for size, parts in found.items()
    }


def size_words(sizes, iterations):
    return [f"{size}:{iterations}" for size in sizes]


def rows_of(text):
    result = json.loads(text)
    if any(row["wrong"] for row in result["rows"]):
        raise Broken("elements are wrong")
    return {
        row["bytes"] or BARRIER_SIZE: (row["us"] * 1e-6, row["cpu_us"] * 1e-6, row["p50_us"] * 1e-6)
        for row in result["rows"]
    }


def run_limit(launch, where, arguments, peers, sizes, iterations, _):
    if arguments.wan or arguments.op == "barrier":
        return {}
    command = [arguments.perf, "limit", "-N", peers, "--op", arguments.op, "--sizes", ",".join(map(str, sizes))]
    command += ["--json", "-", "--limit-cpu", 1000]
    return rows_of(launch.output(launch.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)))


def run_pccl(launch, where, arguments, peers, sizes, iterations, kind):
    command = [arguments.perf, "-N", peers, "--op", arguments.op, "--sizes", ",".join(map(str, sizes))]
    command += ["--json", "-", "--in-place", 0]
    command += ["-n", iterations, "-w", WARM_UP, *(["-q", CODECS[kind]] if kind in CODECS else [])]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if arguments.congestion:
        shim = ROOT / arguments.build / "tests" / "e2e" / "libe2e_shim.so"
        pipes["more"] = {"LD_PRELOAD": str(shim), "SHIM_CONGESTION": arguments.congestion}
    parameters = {ENCRYPTED: {"PCCL_SECRET": SECRET}, TCP: {"PCCL_LOCAL": "tcp"}}.get(kind, {})
    pipes["more"] = {**pipes.get("more", {}), **parameters}
    if not arguments.wan:
        return rows_of(launch.output(launch.start(command + ["--no-limit"], **pipes)))
    master = f"{where.address(peers)}:48148"
    words = where.prefix(peers) + [arguments.master, "--listen", master]
    launch.start(words, stderr=subprocess.DEVNULL, more=parameters)
    alike = [launch.start(where.prefix(i) + command + ["--connect", master], **pipes) for i in range(peers)]
    parts = [rows_of(launch.output(process)) for process in alike]
    # Each prints its processor time, multiplied by the number of peers.
    return {
        size: (
            max(part[size][0] for part in parts),
            sum(part[size][1] for part in parts) / peers,
            max(part[size][2] for part in parts),
        )
        for size in parts[0]
    }


def run_gloo(launch, where, arguments, peers, sizes, iterations, kind):
    if kind in ("halving_doubling", "ring_chunked") or arguments.op in IN_PARTS:
        sizes = [size for size in sizes if size >= 4 * peers]  # they need an element for each process
    if arguments.op == "reduce_scatter" and peers & (peers - 1):
        return {}  # its results are incorrect
    if not sizes:
        return {}
    with tempfile.TemporaryDirectory() as store:
        processes = []
        for rank in range(peers):
            command = where.prefix(rank) + [PEERS / "gloo_collective", rank, peers, store, where.address(rank)]
            command += [others_name(arguments.op), kind or "-", WARM_UP, *size_words(sizes, iterations)]
            processes.append(launch.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return merge([launch.output(process) for process in processes], peers)


def run_torch(launch, where, arguments, peers, sizes, iterations, _):
    with tempfile.TemporaryDirectory() as folder:
        processes = []
        for rank in range(peers):
            command = where.prefix(rank) + [TORCH, "bench/torch_collective.py", rank, peers, f"{folder}/store"]
            command += [where.interface, others_name(arguments.op), WARM_UP, *size_words(sizes, iterations)]
            processes.append(launch.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
        return merge([launch.output(process) for process in processes], peers)


def run_mpi(launch, where, arguments, peers, sizes, iterations, kind):
    options = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", peers, "--mca", "btl", "tcp,self"]
    options += ["--mca", "btl_tcp_if_include", where.interface]
    options += MPI_SETTINGS.get(kind, [])
    with tempfile.TemporaryDirectory() as folder:
        if arguments.wan:
            options += mpi_hosts(where, peers, folder)
        command = where.prefix(0) + ["mpirun", *options, PEERS / "mpi_collective", others_name(arguments.op), WARM_UP]
        command += size_words(sizes, iterations)
        process = launch.start(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return merge([launch.output(process)], peers)


def mpi_hosts(where, peers, folder):
    """Returns options for mpirun on host 0, which starts the other processes inside their namespaces, each with a host
    name."""
    agent, hosts = pathlib.Path(folder, "agent"), pathlib.Path(folder, "hosts")
    cases = "".join(f"{where.address(i)}) space={where.wan.name(i)} ;;\n" for i in range(peers))
    agent.write_text(
        f'#!/bin/sh\nhost=$1; shift\ncase $host in\n{cases}esac\n'
        'exec ip netns exec $space unshare --uts sh -c "hostname far-$host; $*"\n',
        encoding="utf-8",
    )
    agent.chmod(0o755)
    hosts.write_text("".join(f"{where.address(i)} slots=1\n" for i in range(peers)), encoding="utf-8")
    options = ["--hostfile", hosts, "--map-by", "node", "--mca", "plm_rsh_agent", agent]
    return options + ["--mca", "oob_tcp_if_include", where.interface]


RUNNERS = {"limit": run_limit, "pccl": run_pccl, "gloo": run_gloo, "mpi": run_mpi, "torch": run_torch}


def run_row(row, arguments, where, peers, sizes, iterations):
    family, _, kind = row.partition("-")
    with Launch() as launch:
        return RUNNERS[family](launch, where, arguments, peers, sizes, iterations, kind)


# ---- measurement


def groups(sizes, wan):
    """Returns groups of sizes. One launch measures all sizes with equal iterations; each large size gets a separate
    launch."""
    found = []
    for size in sizes:
        iterations = next(count for most, count in (ITERATIONS_WAN if wan else ITERATIONS) if size <= most)
        if found and found[-1][1] == iterations and size <= 1 << 20:
            found[-1][0].append(size)
        else:
            found.append(([size], iterations))
    return found


def measure(arguments, peers, results):
    """Fills results[row][size] with lists of seconds and of CPU seconds."""
    broken = set()
    with place(arguments, peers) as where:
        for sizes, iterations in groups(arguments.sizes, arguments.wan):
            for _ in range(arguments.repeats):
                for row in arguments.rows:
                    if row in broken:
                        continue
                    try:
                        found = run_row(row, arguments, where, peers, sizes, iterations)
                    except Broken as words:
                        print(f"{row}, {peers} peers, {sizes} bytes: {words}", file=sys.stderr)
                        broken.add(row)
                        continue
                    for size, (seconds, cpu, middle) in found.items():
                        cell = results.setdefault(row, {}).setdefault(size, {"seconds": [], "cpu_s": [], "p50_s": []})
                        cell["seconds"].append(seconds)
                        cell["cpu_s"].append(cpu)
                        cell["p50_s"].append(middle)


# ---- output


def size_text(size):
    for power, suffix in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> power and size % (1 << power) == 0:
            return f"{size >> power} {suffix}"
    return f"{size} B"


def time_text(seconds):
    for unit, name in ((1, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"


def median(cell, what):
    return statistics.median(cell[what])


def bound(arguments, peers, size):
    """Returns the minimum seconds of the busiest link for its traffic."""
    return BUS[arguments.op](peers) * size * 8 / (arguments.wan[0] * 1e6)


def verdicts(arguments, peers, results):
    """Returns the comparison of our median operations with the goals for this path, in bench/goals.json."""
    way = "wan " + ",".join(f"{number:g}" for number in arguments.wan)
    way += "" if arguments.op == "all_reduce" else f" {arguments.op}"
    for goal in json.loads((ROOT / "bench" / "goals.json").read_text(encoding="utf-8")):
        row = "-".join(["pccl", *(kind for kind, codec in CODECS.items() if codec == goal.get("codec"))])
        cell = results.get(row, {}).get(goal.get("bytes"))
        if goal.get("of") != way or goal["peers"] != peers or not cell:
            continue
        seconds = median(cell, "p50_s")
        if goal["metric"] == "share_of_ring":
            value = bound(arguments, peers, goal["bytes"]) / seconds
        else:
            exact = results.get("pccl", {}).get(goal["bytes"])
            if not exact:
                continue
            value = seconds / median(exact, "p50_s")
        met = value >= goal["at_least"] if "at_least" in goal else value <= goal["at_most"]
        wanted = f">= {goal['at_least']}" if "at_least" in goal else f"<= {goal['at_most']}"
        yield f"{'met   ' if met else 'MISSED'}  {goal['name']}: {goal['metric']} {value:.3g}, goal {wanted}"


def table(arguments, peers, results):
    rows = [row for row in arguments.rows if row in results]
    yield f"### {peers} peers, time of one {arguments.op}" + (", share of the bound" if arguments.wan else "")
    yield ""
    yield f"| size | {' | '.join(rows)} |"
    yield f"|---|{'---|' * len(rows)}"
    for size in arguments.sizes:
        cells = []
        for row in rows:
            cell = results[row].get(size)
            text = time_text(median(cell, "seconds")) if cell else "-"
            if cell and arguments.wan and size >= 1 << 20:
                text += f", {100 * bound(arguments, peers, size) / median(cell, 'seconds'):.0f} %"
            cells.append(text)
        yield f"| {size_text(size)} | {' | '.join(cells)} |"
    large = [size for size in arguments.sizes if size >= 1 << 20]
    if not large:
        return
    yield ""
    yield f"### {peers} peers, CPU seconds for each GB moved"
    yield ""
    yield f"| size | {' | '.join(rows)} |"
    yield f"|---|{'---|' * len(rows)}"
    for size in large:
        moved = MOVED.get(arguments.op, lambda peers: peers - 1)(peers) * size * 1e-9
        cells = [results[row].get(size) for row in rows]
        texts = [f"{median(cell, 'cpu_s') / moved:.3g}" if cell else "-" for cell in cells]
        yield f"| {size_text(size)} | {' | '.join(texts)} |"


def as_json(arguments, everything):
    return {
        "when": time.strftime("%Y-%m-%d"),
        "op": arguments.op,
        "processors": os.cpu_count(),
        "wan": dict(zip(("rate_mbit", "delay_ms", "loss_percent"), arguments.wan)) if arguments.wan else None,
        "runs": [
            {"peers": peers, "row": row, "bytes": size, **cell}
            for peers, results in everything.items()
            for row, sizes in results.items()
            for size, cell in sorted(sizes.items())
        ],
    }


def read_size(text):
    shift = {"K": 10, "M": 20, "G": 30}.get(text[-1:].upper(), 0)
    return int(text[:-1] if shift else text) << shift


def read_wan(text):
    rate, delay, loss = (float(word) for word in text.split(","))
    return rate, delay, loss


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/default")
    parser.add_argument("--op", default="all_reduce", choices=BUS)
    parser.add_argument("--rows")
    parser.add_argument("--peers", default="2,4,8")
    parser.add_argument("--sizes", default=SIZES)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--wan", type=read_wan, metavar="MBIT,DELAY_MS,LOSS_PERCENT")
    parser.add_argument("--congestion", metavar="NAME", help="for PCCL's rows, instead of what it takes itself")
    parser.add_argument("--json", default="build/compare.json")
    arguments = parser.parse_args()
    try:
        arguments.sizes = sorted(read_size(word) for word in arguments.sizes.split(","))
        arguments.peers = [int(word) for word in arguments.peers.split(",")]
    except ValueError as error:
        parser.error(str(error))
    there_are = ALL_ROWS if arguments.op == "all_reduce" else OTHER_ROWS
    arguments.rows = arguments.rows.split(",") if arguments.rows else there_are
    rows = [*there_are, *(f"pccl-{kind}" for kind in (*CODECS, ENCRYPTED, TCP)), "mpi-yields"]
    for row in arguments.rows:
        if row not in rows:
            parser.error(f"there is no row '{row}'; there are {' '.join(rows)}")
    if arguments.op == "barrier":
        arguments.sizes = [BARRIER_SIZE]
    if min(arguments.peers) < 2 or min(arguments.sizes) < 4 or arguments.repeats < 1:
        parser.error("two peers, four bytes and one repeat are the least")
    tools = ROOT / arguments.build / "tools"
    arguments.perf, arguments.master = tools / "pccl-perf", tools / "pccl-master"
    if not arguments.perf.exists():
        parser.error(f"{arguments.perf} is not there; build it first, or name the folder with --build")
    return arguments


def main():
    arguments = read_arguments()
    arguments.rows = compile_peers(arguments.rows)
    everything = {}
    for peers in arguments.peers:
        measure(arguments, peers, everything.setdefault(peers, {}))
        print("\n".join(table(arguments, peers, everything[peers])) + "\n", flush=True)
        if arguments.wan and not arguments.congestion:
            print("\n".join([*verdicts(arguments, peers, everything[peers]), ""]), flush=True)
        found = json.dumps(as_json(arguments, everything), indent=1)
        pathlib.Path(ROOT, arguments.json).write_text(found, encoding="utf-8")


main()
