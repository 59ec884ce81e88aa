"""Makes operations visible to torch's tools: dispatcher modes (CommDebugMode), fake tensors, and the profiler.

torch calls a process group in Python directly, bypassing its dispatcher. While a tool is active, the operation is shown
to it first: the same method of a C++ process group dispatches the usual operator (c10d::allreduce_) to every active
mode. A mode below all others then ends the operator, which does nothing.
"""

from __future__ import annotations

import sys
import threading
from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch
import torch.distributed as dist
from torch.utils import _python_dispatch

modes: Callable[[], int] = torch._C._len_torch_dispatch_stack
is_profiled: Callable[[], bool] = torch._C._autograd._profiler_enabled
_records: Any = torch._C._autograd
# Titles that differ from the method names
_TITLES = {"send": "send", "recv": "recv", "recv_anysource": "recvAnySource"}
_FAKE: Any = getattr(getattr(torch._C, "_TorchDispatchModeKey", None), "FAKE", None)


def is_unreal(tensor: Any) -> bool:
    """Returns true if the tensor has no memory because it is a fake or meta tensor."""
    module: Any = sys.modules.get("torch._subclasses.fake_tensor")
    return bool(tensor.is_meta or (module is not None and isinstance(tensor, module.FakeTensor)))


def is_faked() -> bool:
    """Returns true inside FakeTensorMode."""
    return _FAKE is not None and torch._C._get_dispatch_mode(_FAKE) is not None


class _Last(_python_dispatch.TorchDispatchMode):  # type: ignore[misc]
    """Completes c10d operators without performing them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace != "c10d":
            return func(*args, **(kwargs or {}))
        work = torch._C._distributed_c10d.FakeWork().boxed()
        return work if len(func._schema.returns) == 1 else (args[0], work)


def show(group: Any, method: str, *given: Any) -> None:
    """Dispatches the operator of this method of torch's process groups."""
    if not hasattr(getattr(torch._C._distributed_c10d, "FakeWork", None), "boxed"):
        return  # torch before 2.9
    double = dist.ProcessGroup(group.rank(), group.size())
    double._set_group_name(group.group_name)
    double._set_group_desc(group.group_desc)
    stack = _python_dispatch._get_current_dispatch_mode_stack()
    above = [mode for mode in stack if getattr(mode, "_mode_key", None) is None]
    for _ in above:
        _python_dispatch._pop_mode()
    try:
        with _Last():
            for mode in above:
                _python_dispatch._push_mode(mode)
            try:
                getattr(double, method)(*(one for one in given if one is not None))
            except TypeError:
                pass  # unsuitable arguments, for which the group itself raises a clearer error
            finally:
                for _ in above:
                    _python_dispatch._pop_mode()
    finally:
        for mode in above:
            _python_dispatch._push_mode(mode)


class Record:
    """A profiler event that spans an operation from its launch to its end, with the shapes of its tensors."""

    def __init__(self, title: str, tensors: Sequence[torch.Tensor]) -> None:
        self._handle: Any = _records._record_function_with_args_enter(title, *tensors)

    def end(self) -> None:
        """Ends the event on another thread. This makes it asynchronous, so that this thread's events may overlap."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        thread = threading.Thread(target=_records._record_function_with_args_exit, args=(handle,))
        thread.start()
        thread.join()


def launch(
    group: Any,
    name: str,
    tensors: Sequence[torch.Tensor],
    outputs: Sequence[torch.Tensor],
    shown: Tuple[Any, ...],
    go: Callable[[], Any],
) -> Any:
    """Shows the operation, launches it by go() without the modes, and records it until its end. shown: the method of
    torch's process groups, and its arguments."""
    show(group, *shown)
    record: Optional[Record] = None
    if is_profiled():
        sources: List[torch.Tensor] = [one for one in tensors if not any(one is other for other in outputs)]
        record = Record(f"pccl:{_TITLES.get(shown[0], name)}", sources or tensors)
    try:
        with _python_dispatch._disable_current_modes():
            work = go()
    except BaseException:
        if record is not None:
            record.end()
        raise
    if record is not None and work is not None:
        work.recorded(record)
    elif record is not None:
        record.end()
    return work
