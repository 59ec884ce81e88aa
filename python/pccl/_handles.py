"""Handles of launched operations, for their users."""

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
        """Returns the result for the caller."""
        raise NotImplementedError

    @property
    def tag(self) -> int:
        return self._operation.tag

    def wait(self) -> Tuple[bool, int, _T]:
        """Waits for the end. Returns (is_success, status, result). Never raises for an operation that failed; status is
        the number of its Result. May be called again."""
        self._operation.wait()
        outcome = self._operation.outcome
        assert outcome is not None
        error = self._operation.error()
        return error is None, int(Result.SUCCESS if error is None else error.result), self._of(outcome)

    def test(self) -> bool:
        """Returns true if wait() would return at once. Does not wait."""
        return self._operation.test()

    def result(self, timeout: Optional[float] = None) -> _T:
        """Waits for the end and returns the result. Raises PCCLError if the operation failed, TimeoutError_ if it still
        runs after `timeout` seconds."""
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
        """Waits for the end. Returns the exception that result() would raise, or None."""
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
        """Returns a concurrent.futures.Future with the result of result(). It cannot be canceled. One thread waits for
        the futures of all operations; their callbacks run on it."""
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
        """Returns a torch.futures.Future with the result of result()."""
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
        """In asyncio: returns the result, or raises PCCLError. Canceling the task only stops the waiting; the operation
        continues."""
        return asyncio.wrap_future(self.future()).__await__()

    def close(self) -> None:
        """Waits for the end. May be called any number of times."""
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
    does not: dropping or closing it leaves the run, and the operation fails."""

    @staticmethod
    def _of(outcome: Outcome) -> OperationInfo:
        return outcome.info


class AsyncBlobsHandle(_Handle[List[Tuple[str, memoryview]]]):
    """A launched operation with blobs. Its result is the result of the method without _async; empty in wait() of a
    failed operation. on_arrival is called in wait() and result(), or on the thread that waits for futures, where its
    exceptions are only logged."""

    @staticmethod
    def _of(outcome: Outcome) -> List[Tuple[str, memoryview]]:
        return outcome.blobs


class AsyncBlobHandle(_Handle[memoryview]):
    """A launched scatter of blobs. Its result is the part that scatter_v returns; empty in wait() of a failed
    operation."""

    @staticmethod
    def _of(outcome: Outcome) -> memoryview:
        return outcome.blobs[0][1] if outcome.blobs else memoryview(b"")
