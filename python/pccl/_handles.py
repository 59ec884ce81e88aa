"""Handles through which callers await launched operations."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from typing import Any, Generator, Generic, List, Optional, Tuple, TypeVar

from . import _operation, _threads
from ._enums import Result
from ._errors import PCCLError, TimeoutError_, raise_if
from ._lazy import torch
from ._operation import Operation, Outcome
from ._reduce import OperationInfo

_T = TypeVar("_T")
_H = TypeVar("_H", bound="_Handle[Any]")


class _Handle(Generic[_T]):
    """Base of the handles of all operations."""

    def __init__(self, operation: Operation) -> None:
        self._future: Optional[Future[_T]] = None
        self._operation = operation

    @staticmethod
    def _of(outcome: Outcome) -> _T:
        """Extracts the result that the caller receives."""
        raise NotImplementedError

    @property
    def tag(self) -> int:
        return self._operation.tag

    def wait(self) -> Tuple[bool, int, _T]:
        """Waits until the operation has ended. Returns (is_success, status, result), where status is the number of a
        Result. Does not raise if the operation failed. May be called repeatedly."""
        self._operation.wait()
        outcome = self._operation.outcome
        assert outcome is not None
        error = self._operation.error()
        return error is None, int(Result.SUCCESS if error is None else error.result), self._of(outcome)

    def test(self) -> bool:
        """Returns true if wait() would return immediately. Does not wait."""
        return self._operation.test()

    def result(self, timeout: Optional[float] = None) -> _T:
        """Waits until the operation has ended, and returns its result. Raises PCCLError if it failed, and TimeoutError_
        if it is still running after `timeout` seconds."""
        begin = time.monotonic()
        if not self._operation.wait(timeout):
            raise TimeoutError_(
                f"the operation with tag {self.tag} is still running after {timeout} s",
                result=Result.RANK_CONNECTION_LOST,
                ext=Result.TIMEOUT,
                operation="pcclAwaitAsyncReduceFor",
                tag=self.tag,
                elapsed=time.monotonic() - begin,
            )
        return self._value()

    def exception(self, timeout: Optional[float] = None) -> Optional[PCCLError]:
        """Waits until the operation has ended. Returns the exception that result() would raise, or None."""
        try:
            self.result(timeout)
        except PCCLError as error:
            return error
        return None

    def _value(self) -> _T:
        raise_if(self._operation.error())
        outcome = self._operation.outcome
        assert outcome is not None
        return self._of(outcome)

    def future(self) -> Future[_T]:
        """Returns a concurrent.futures.Future of the result. It cannot be canceled. A single thread awaits all
        operations with futures and runs their callbacks."""
        operation = self._operation
        if operation.foreign:
            operation.wait()
        if self._future is None:
            future: Future[_T] = Future()
            future.set_running_or_notify_cancel()

            def ended() -> None:
                error, outcome = operation.error(), operation.outcome
                assert outcome is not None
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(self._of(outcome))

            self._future = future
            operation.when_ended(ended)
            if operation.outcome is None:
                _operation.watcher.add(operation)
        return self._future

    def torch_future(self) -> Any:
        """Returns a torch.futures.Future of the result."""
        made: Any = torch.futures.Future()

        def ended(future: Future[_T]) -> None:
            error = future.exception()
            if error is not None:
                made.set_exception(error)
            else:
                made.set_result(future.result())

        self.future().add_done_callback(ended)
        return made

    def __await__(self) -> Generator[Any, None, _T]:
        """Waits in asyncio: returns the result, or raises PCCLError. Canceling the task only stops the wait; the
        operation continues."""
        return asyncio.wrap_future(self.future()).__await__()

    def close(self) -> None:
        """Waits until the operation has ended. May be called repeatedly."""
        self._operation.wait()

    def __enter__(self: _H) -> _H:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        operation = getattr(self, "_operation", None)
        if operation is not None and operation.outcome is None and self._future is None:
            _threads.janitor.put(operation.abandon)


class AsyncReduceHandle(_Handle[OperationInfo]):
    """A launched operation. Its buffers stay alive until it has ended, even if the handle is dropped. The communicator
    does not: if it is dropped or closed, this peer leaves the run, and the operation fails."""

    @staticmethod
    def _of(outcome: Outcome) -> OperationInfo:
        return outcome.info


class AsyncBlobsHandle(_Handle[List[Tuple[str, memoryview]]]):
    """A launched operation on blobs. It has the same result as the blocking method; wait() returns an empty list if the
    operation failed. wait() and result() call on_arrival. With a future, the thread that awaits it calls on_arrival,
    and only logs its exceptions."""

    @staticmethod
    def _of(outcome: Outcome) -> List[Tuple[str, memoryview]]:
        return outcome.blobs


class AsyncBlobHandle(_Handle[memoryview]):
    """A launched scatter_v. Its result is the part that scatter_v returns; wait() returns an empty part if the
    operation failed."""

    @staticmethod
    def _of(outcome: Outcome) -> memoryview:
        return outcome.blobs[0][1] if outcome.blobs else memoryview(b"")
