#!/usr/bin/env python3
"""Measures training steps of torch with the backend "pccl" and with gloo, and the overhead of dist.all_reduce over the
library.

    build/venv/bin/python bench/torch_steps.py [--what ddp,fsdp2,call,wan] [--turns N] [--build build/default]
    ddp, fsdp2  steps of four ranks on this machine: linear layers with 25 million parameters in all, a batch of one, no
                optimizer. A turn is one step with "pccl", one with gloo and one with a backend that does nothing; their
                order rotates. Prints the median times, the median differences from the empty backend
                in the same turn, the overhead of "pccl" as a share of gloo's overhead, and its 90 % interval (bootstrap
                over turns); and the same of the processor time of all ranks, which is valid on a busy machine, too
    call        two ranks: dist.all_reduce, broadcast, all_gather, send and recv of one f32, and the same calls of the
                library in the same communicator, in turns of 200
    wan         ddp with a host for each rank, at 1 Gbit/s and 50 ms (needs root, and ip of iproute2)

All backends run alternately in the same processes. Requires a Python with torch. --build: a folder with
src/libpccl.so.1, tools/pccl-master and, for wan, tests/wan/wanem.
"""

import argparse
import contextlib
import ctypes
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import time
from datetime import timedelta

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, LAYERS = 2048, 6
RANKS = {"ddp": 4, "fsdp2": 4, "wan": 4, "call": 2}
TURNS = {"ddp": 40, "fsdp2": 40, "wan": 10, "call": 20}
CALLS = 200


# ---- a rank


def backend_that_does_nothing(torch, dist):
    class Done(dist.Work):
        def __init__(self, outputs):
            super().__init__()
            self._outputs = outputs

        def wait(self, _timeout=None):
            return True

        def get_future(self):
            future = torch.futures.Future()
            future.set_result(self._outputs)
            return future

    class Nothing(dist.ProcessGroup):
        group_name = group_desc = ""

        def __init__(self, options):
            super().__init__(options.group_rank, options.group_size)

        def getBackendName(self):
            return "nothing"

        def _set_group_name(self, name):
            self.group_name = name

        def _set_group_desc(self, description):
            self.group_desc = description

        def allreduce(self, tensors, _opts=None):
            return Done(tensors)

        broadcast = allreduce

        def allgather(self, outputs, inputs, _opts=None):  # DDP compares shapes by this call
            for places, given in zip(outputs, inputs):
                for place in places:
                    place.copy_(given)
            return Done(sum(outputs, []))

        def all_gather_single(self, output, _given, _opts=None):
            return Done([output])

        reduce_scatter_single = _allgather_base = _reduce_scatter_base = all_gather_single

    dist.Backend.register_backend("nothing", lambda options, _: Nothing(options), extended_api=True, devices=["cpu"])


def groups_of_all(torch, dist):
    import pccl_autoload  # pylint: disable=import-outside-toplevel

    pccl_autoload.register()
    backend_that_does_nothing(torch, dist)
    dist.init_process_group("pccl", timeout=timedelta(seconds=120))
    made = {name: dist.new_group(backend=name) for name in ("gloo", "nothing")}
    return {"pccl": dist.group.WORLD, **made}


def make_step(torch, dist, what, group):
    """Returns a function that makes one step, and one that returns the gradients."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)])
    if what == "fsdp2":
        from torch.distributed.device_mesh import DeviceMesh  # pylint: disable=import-outside-toplevel
        from torch.distributed.fsdp import fully_shard  # pylint: disable=import-outside-toplevel

        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in model:
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
    batch = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(dist.get_rank()))

    def step():
        model.zero_grad()
        model(batch).square().sum().backward()

    def gradients():
        return [p.grad.to_local() if what == "fsdp2" else p.grad for p in model.parameters()]

    return step, gradients


def seconds_of(dist, call, times):
    """Returns the seconds of one call, from the start to the end of all ranks, and the processor time of this process.
    """
    dist.barrier()
    begin, processor = time.perf_counter(), time.process_time()
    for _ in range(times):
        call()
    dist.barrier()
    return (time.perf_counter() - begin) / times, (time.process_time() - processor) / times


def steps(torch, dist, what, turns):
    made = {name: make_step(torch, dist, what, group) for name, group in groups_of_all(torch, dist).items()}
    for step, _ in made.values():
        step()
        step()  # DDP rebuilds its buckets
    for ours, theirs in zip(made["pccl"][1](), made["gloo"][1]()):
        torch.testing.assert_close(ours, theirs)
    names = sorted(made)
    for turn in range(turns):
        order = names[turn % len(names) :] + names[: turn % len(names)]
        if turn % 2:
            order.reverse()
        yield {name: seconds_of(dist, made[name][0], 1) for name in order}


def calls(torch, dist, turns):
    from pccl import _collectives, _enums, _native  # pylint: disable=import-outside-toplevel

    group = groups_of_all(torch, dist)["pccl"]
    tensor = torch.zeros(1)
    operand = _native.ReduceOperandDescriptorC(_enums.DataType.FLOAT, 0)
    plain = _native.QuantizationOptionsC(_enums.DataType.FLOAT, 0)
    descriptor = _native.ReduceDescriptorC(1, _enums.ReduceOp.SUM, 1 << 40, operand, plain)
    memory, described = ctypes.c_void_p(tensor.data_ptr()), ctypes.byref(descriptor)
    visit = group._comm._core.enter()

    def library():
        if _native.lib.pcclAllReduce(memory, memory, described, visit.handle, None) != 0:
            raise SystemExit("pcclAllReduce failed")

    options = _collectives.Options("call", 1 << 40, group._members)
    given, peer = ctypes.byref(options.c), 1 - dist.get_rank()
    many, parts = torch.zeros(2), [torch.zeros(1), torch.zeros(1)]
    place, count, kind = ctypes.c_void_p(many.data_ptr()), ctypes.c_size_t(1), int(_enums.DataType.FLOAT)
    pair = _collectives.Options("call", 1 << 41, group._world.ids)
    other = ctypes.byref(pair.c), group._world.comm._core._handle, None

    def checked(name, *arguments):
        if _native.lib[name](*arguments) != 0:
            raise SystemExit(f"{name} failed")

    def there_and_back(send, recv):
        for call in (send, recv) if peer == 1 else (recv, send):
            call()

    collective = given, visit.handle, None
    pairs = {
        "all_reduce": (lambda: dist.all_reduce(tensor), library),
        "broadcast": (
            lambda: dist.broadcast(tensor, 0),
            lambda: checked("pcclBroadcast", memory, count, kind, 0, *collective),
        ),
        "all_gather": (
            lambda: dist.all_gather(parts, tensor),
            lambda: checked("pcclAllGather", memory, place, count, kind, *collective),
        ),
        "send and recv": (
            lambda: there_and_back(lambda: dist.send(tensor, peer), lambda: dist.recv(tensor, peer)),
            lambda: there_and_back(
                lambda: checked("pcclSend", memory, count, kind, peer, *other),
                lambda: checked("pcclRecv", memory, count, kind, peer, *other),
            ),
        ),
    }
    for both in pairs.values():
        for call in both:
            seconds_of(dist, call, CALLS)
    for _ in range(turns):
        turn = {}
        for name, (ours, theirs) in pairs.items():
            turn[f"dist, {name}"] = seconds_of(dist, ours, CALLS)
            turn[f"library, {name}"] = seconds_of(dist, theirs, CALLS)
        yield turn
    group._comm._core.leave(visit)


def be_rank(what, turns):
    import torch  # pylint: disable=import-outside-toplevel,import-error
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel,import-error

    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # parameters that no gather has filled have arbitrary bits
    found = list(calls(torch, dist, turns) if what == "call" else steps(torch, dist, what, turns))
    for turn in found:
        for name in sorted(turn):
            processor = torch.tensor(turn[name][1])
            dist.all_reduce(processor)
            turn[name] = turn[name][0], processor.item()
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo may abort during an orderly exit


# ---- the ranks of a world


@contextlib.contextmanager
def hosts(what, build):
    """Yields the prefix of a rank's command, the address of rank 0, and its interface."""
    if what != "wan":
        yield lambda _rank: [], "127.0.0.1", "lo"
        return
    sys.path.insert(0, str(ROOT / "tests" / "wan"))
    from wan import Wan  # pylint: disable=import-outside-toplevel

    with Wan(RANKS[what], rate_mbit=1000, delay_ms=25, emulator=str(build / "tests" / "wan" / "wanem")) as wan:
        yield wan.prefix, wan.address(0), "eth0"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def measure(what, arguments):
    with hosts(what, arguments.build) as (prefix, address, interface):
        environment = dict(os.environ, PCCL_LIBRARY=str(arguments.build / "src" / "libpccl.so.1"))
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")])
        environment.update(MASTER_ADDR=address, MASTER_PORT=str(free_port()), WORLD_SIZE=str(RANKS[what]))
        environment.update(GLOO_SOCKET_IFNAME=interface, OMP_NUM_THREADS="1")
        command = [sys.executable, __file__, "--rank", what, "--turns", str(arguments.turns or TURNS[what])]
        ranks = [
            subprocess.Popen(
                prefix(rank) + command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True
            )
            for rank in range(RANKS[what])
        ]
        try:
            said = ranks[0].stdout.read()
            if any([process.wait() != 0 for process in ranks]):
                raise SystemExit(f"{what}: a rank failed")
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    return json.loads(said)


def share_of(above):
    return statistics.median(ours for ours, _ in above) / statistics.median(theirs for _, theirs in above)


def figure(name, unit, value):
    """Prints a figure for bench/figures.py."""
    print("figure:", json.dumps({"name": name, "unit": unit, "value": value}), flush=True)


def report_steps(what, turns):
    for kind, of in enumerate(("", ", processor time of all ranks")):
        middle = {name: statistics.median(turn[name][kind] for turn in turns) for name in sorted(turns[0])}
        above = [[turn[name][kind] - turn["nothing"][kind] for name in ("pccl", "gloo")] for turn in turns]
        draw = random.Random(0)
        shares = sorted(share_of(draw.choices(above, k=len(above))) for _ in range(1000))
        times = ", ".join(f"{name} {1e3 * seconds:.1f} ms" for name, seconds in middle.items())
        more = " and ".join(f"{1e3 * statistics.median(one):.1f}" for one in zip(*above))
        print(f"{what}{of}: {times}; above nothing, pccl and gloo: {more} ms; share: {share_of(above):.2f} "
              f"({shares[50]:.2f} to {shares[-50]:.2f}, {len(turns)} turns)", flush=True)
        figure(f"share of gloo's{of}", "", share_of(above))


def report_calls(turns):
    for name in [one.partition(", ")[2] for one in turns[0] if one.startswith("dist")]:
        ours, library = ([1e6 * turn[f"{whose}, {name}"][0] for turn in turns] for whose in ("dist", "library"))
        above = sorted((one - other) / (2 if "send" in name else 1) for one, other in zip(ours, library))
        print(f"call: dist, {name} {statistics.median(ours):.1f} us, the library {statistics.median(library):.1f} us; "
              f"above it, of each call: {statistics.median(above):.1f} us ({above[0]:.1f} to {above[-1]:.1f} in "
              f"{len(turns)} turns)", flush=True)
        of = "" if name == "all_reduce" else f", {name}"
        figure(f"above the library{of}", "us", statistics.median(above))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", default="ddp,fsdp2,call")
    parser.add_argument("--turns", type=int)
    parser.add_argument("--build", type=lambda name: pathlib.Path(name).resolve(), default=ROOT / "build" / "default")
    parser.add_argument("--rank", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank:
        be_rank(arguments.rank, arguments.turns)
    for what in arguments.what.split(","):
        turns = measure(what, arguments)
        report_calls(turns) if what == "call" else report_steps(what, turns)


if __name__ == "__main__":
    main()
