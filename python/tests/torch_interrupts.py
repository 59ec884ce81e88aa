"""A program of ranks (torch_bodies.py) in which one is interrupted at each line that an operation executes."""

import contextlib
import sys

import torch
import torch.distributed as dist
from torch_bodies import start

WAITS = "_look_around"  # what a work calls again and again while its operation is under way


class Interrupt(KeyboardInterrupt):
    """Ctrl-C, at the line with this number of those in files of the package."""

    def __init__(self, at):
        super().__init__()
        self._left = at
        self.waited = False  # the operation had been under way for a while

    @contextlib.contextmanager
    def raised(self):
        before = sys.gettrace()
        sys.settrace(self._call)
        try:
            yield
        except Interrupt as interrupt:
            interrupt.__traceback__ = None  # nobody keeps the frames in which it came
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
    """Whatever the interrupted rank has or has not begun, its next operation meets the others' next one."""
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
