"""A program of ranks (torch_bodies.py) in which one is interrupted at each line that an operation executes."""

import contextlib
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch_bodies import LARGE, fails, must_be_interrupted, say, start

WAITS = "_look_around"  # called repeatedly by a work while its operation is in progress


class Interrupt(KeyboardInterrupt):
    """Ctrl-C, at the line with this number in files of the package."""

    def __init__(self, at):
        super().__init__()
        self._left = at
        self.waited = False  # the operation had been in progress for a while

    @contextlib.contextmanager
    def raised(self):
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        except Interrupt as interrupt:
            interrupt.__traceback__ = None  # drops the frames
        finally:
            sys.settrace(before)

    def _call(self, frame, _event, _argument):
        if "/pccl/" not in frame.f_code.co_filename or frame.f_code.co_name == "__del__":
            return None
        return self._line

    def _line(self, frame, event, _argument):
        if event == "line":
            self._left -= 1
            self.waited = self.waited or frame.f_code.co_name == WAITS
            if self._left == 0:
                raise self
        return self._line


def operations():
    group = dist.group.WORLD
    return {
        "waited for": lambda count: dist.all_reduce(torch.ones(count)),
        "launched": lambda count: dist.all_reduce(torch.ones(count), async_op=True).wait(),
        "any": lambda count: dist.all_reduce(torch.ones(2 * count)[::2]),
        "several": lambda count: group.allreduce_coalesced([torch.ones(count)[None].T for _ in range(3)]).wait(),
    }


def at_each_line():
    """The next operation of the interrupted rank meets the others' next one, for any progress of the interrupted one.
    """
    rank, _ = start()
    store, group = dist.distributed_c10d._get_default_store(), dist.group.WORLD
    for kind, operate in operations().items():
        number, is_last = 1, False
        while not is_last:
            count, place = 1 + number, f"{kind} {number}"
            if rank == 0:
                before, interrupt = group._lanes.program.next, Interrupt(number)
                with interrupt.raised():
                    operate(count)
                has_begun = group._lanes.program.next > before
                store.set(place, f"{has_begun:d} {interrupt.waited:d}")
                is_last = interrupt.waited
            else:
                has_begun, is_last = [word == b"1" for word in store.get(place).split()]
                if has_begun:
                    with contextlib.suppress(dist.DistBackendError):  # given up, unless it had been launched
                        operate(count)
            given = torch.full((count,), float(rank + 1))
            dist.all_reduce(given)
            assert given.tolist() == [3.0] * count, (place, has_begun)
            number += 1
    dist.barrier()
    dist.destroy_process_group()


class Launches:
    """Records whether a transfer was launched (_transfers.py)."""

    def __init__(self):
        import pccl.torch._transfers as transfers

        self.has_begun = False
        transfers.SEND, transfers.RECV = self._noted(transfers.SEND), self._noted(transfers.RECV)

    def _noted(self, library):
        def launch(*given):
            self.has_begun = True
            return library(*given)

        return launch


def transfers_at_each_line():
    """The next transfer of a rank that was interrupted in one meets the other rank's next one, both ways."""
    rank, _ = start()
    store, launches = dist.distributed_c10d._get_default_store(), Launches()
    operate = {"send": lambda tensor: dist.send(tensor, 1 - rank), "recv": lambda tensor: dist.recv(tensor, 1 - rank)}
    for kind, opposite in (("recv", "send"), ("send", "recv")):
        number, is_last = 1, False
        while not is_last:
            place = f"transfer {kind} {number}"
            if rank == 0:
                launches.has_begun, interrupt = False, Interrupt(number)
                with interrupt.raised():
                    operate[kind](torch.ones(3))
                is_last = interrupt.waited or interrupt._left > 0
                store.set(place, f"{launches.has_begun:d} {is_last:d}")
            else:
                has_begun, is_last = [word == b"1" for word in store.get(place).split()]
                if has_begun:
                    with contextlib.suppress(dist.DistBackendError):  # given up, unless it had ended
                        operate[opposite](torch.ones(3))
            given = torch.full((3,), float(number if rank == 0 else -number))
            for source in (0, 1):
                operate["send" if rank == source else "recv"](given)
            assert given.tolist() == [float(number)] * 3, (place, given)
            number += 1
        say(f"{kind}: {number} lines")
    dist.barrier()
    dist.destroy_process_group()


def interrupted_transfer():
    """Ctrl-C in a transfer in progress: the other side's ends with a message, and the next ones are right."""
    rank, _ = start()
    store = dist.distributed_c10d._get_default_store()
    for kind, number in (("recv", 1), ("send", 2)):
        if rank == 0:
            must_be_interrupted("_look_around", lambda: getattr(dist, kind)(torch.ones(LARGE), 1))
            store.set(f"interrupted {kind}", "")
        else:
            store.wait([f"interrupted {kind}"])
            opposite = {"recv": dist.send, "send": dist.recv}[kind]
            fails(lambda: opposite(torch.ones(LARGE), 0), "abort")
        given = torch.full((LARGE,), float(number * (1 - rank)))
        (dist.send if rank == 0 else dist.recv)(given, 1 - rank)
        assert given.eq(number).all()
    dist.barrier()
    dist.destroy_process_group()


def killed_in_a_transfer(kind):
    """Rank 1 fails in the middle of transfers: the others' transfers with it name it, for both calls."""
    rank, _ = start()
    store = dist.distributed_c10d._get_default_store()
    transfer = {"send": dist.send, "recv": dist.recv}[kind]
    dist.barrier()
    if rank == 1:
        opposite = {"send": dist.irecv, "recv": dist.isend}[kind]
        works = [opposite(torch.ones(LARGE), other) for other in (0, 2)]  # each other rank makes a second one, too
        for work in works:
            work.wait()
        store.wait(["0 waits", "2 waits"])
        os.kill(os.getpid(), signal.SIGKILL)
    transfer(torch.ones(LARGE), 1)
    store.set(f"{rank} waits", "")
    error = fails(lambda: transfer(torch.ones(LARGE), 1), "rank 1")
    assert error.ranks == (1,)
    fails(lambda: transfer(torch.ones(1), 1), "rank 1")
