"""What a communicator's operations with options are, made of their arguments and the members."""

from __future__ import annotations

from typing import Any, Optional, Sequence, Tuple, Union

from . import _collectives
from ._codec import QuantizationOptions
from ._enums import ReduceOp
from ._reduce import Work


class Works:
    """The part of Communicator that makes them."""

    @property
    def id(self) -> str:
        """Of this peer."""
        raise NotImplementedError

    def _members(self) -> Tuple[Tuple[str, ...], int]:
        raise NotImplementedError

    def _counted_on(self, where: str, members: Optional[Sequence[str]]) -> Tuple[Tuple[str, ...], int]:
        """The members, and this peer's rank among them."""
        return self._members() if members is None else _collectives.given_members(where, members, self.id)

    def _placed(
        self,
        where: str,
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions] = None,
        counts: Optional[Sequence[int]] = None,
        factor: float = 1.0,
    ) -> Tuple[_collectives.Options, int]:
        """The options of what counts on members, and this peer's rank among these."""
        ids, rank = self._counted_on(where, members)
        return _collectives.Options(where, tag, ids, alone_ok, quantization, counts, factor=factor), rank

    def _transfer(self, where: str, t: Any, peer: Union[int, str], tag: int, sends: bool) -> Work:
        ids, _ = self._members()
        return _collectives.transfer(_collectives.Options(where, tag, ids, False), t, peer, sends)

    def _broadcast(
        self,
        where: str,
        t: Any,
        root: Union[int, str],
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
    ) -> Work:
        options, rank = self._placed(where, tag, members, alone_ok, quantization)
        return _collectives.broadcast(options, t, root, rank)

    def _all_gather(
        self,
        where: str,
        send: Any,
        recv: Any,
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
    ) -> Work:
        options, rank = self._placed(where, tag, members, alone_ok, quantization)
        return _collectives.all_gather(options, send, recv, rank)

    def _reduce(
        self,
        where: str,
        send: Any,
        recv: Any,
        root: Union[int, str],
        op: Union[ReduceOp, str],
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
        factor: Optional[float],
    ) -> Work:
        given = _collectives.factor_of(where, op, factor)
        options, rank = self._placed(where, tag, members, alone_ok, quantization, factor=given)
        return _collectives.reduce(options, send, recv, root, op, rank)

    def _gather(
        self,
        where: str,
        send: Any,
        recv: Any,
        root: Union[int, str],
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
    ) -> Work:
        options, rank = self._placed(where, tag, members, alone_ok, quantization)
        return _collectives.gather(options, send, recv, root, rank)

    def _scatter(
        self,
        where: str,
        send: Any,
        recv: Any,
        root: Union[int, str],
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
    ) -> Work:
        options, rank = self._placed(where, tag, members, alone_ok, quantization)
        return _collectives.scatter(options, send, recv, root, rank)

    def _all_to_all(
        self,
        where: str,
        send: Any,
        recv: Any,
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
    ) -> Work:
        options, _ = self._placed(where, tag, members, alone_ok, quantization)
        return _collectives.all_to_all(options, send, recv)

    def _reduce_scatter(
        self,
        where: str,
        send: Any,
        recv: Any,
        op: Union[ReduceOp, str],
        counts: Optional[Sequence[int]],
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
        factor: Optional[float],
    ) -> Work:
        given = _collectives.factor_of(where, op, factor)
        options, rank = self._placed(where, tag, members, alone_ok, quantization, counts, given)
        return _collectives.reduce_scatter(options, send, recv, op, rank)

    @staticmethod
    def _coalesced(
        where: str,
        tensors: Sequence[Any],
        recv: Optional[Sequence[Any]],
        op: Any,
        tag: int,
        members: Optional[Sequence[str]],
        alone_ok: bool,
        quantization: Optional[QuantizationOptions],
        factor: Optional[float],
    ) -> Work:
        given = _collectives.factor_of(where, op, factor)
        options = _collectives.Options(where, tag, members, alone_ok, quantization, factor=given)
        return _collectives.coalesced(options, tensors, recv, op)
