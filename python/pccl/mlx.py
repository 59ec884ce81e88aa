"""MLX support: averaged gradients, and models and optimizers as shared state.

    gradients = pccl.mlx.average_gradients(gradients, comm)  # like mlx.nn.average_gradients, with retry
    state = pccl.mlx.shared_state(model, optimizer)          # parameters, buffers, optimizer

All operations of a Communicator accept mlx arrays and use their memory without a copy; docs/guide/mlx.md explains the
conditions.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set, Tuple

import mlx.core as mx
import mlx.nn as nn
from mlx.optimizers import Optimizer
from mlx.utils import tree_flatten, tree_map_with_path

from . import _buffers
from ._codec import QuantizationOptions
from ._communicator import Communicator
from ._enums import Op, ReduceOp, number
from ._errors import DTypeError, InvalidArgument, LayoutError
from ._operations import Coalesced
from ._state import Prepared, SharedState, TensorInfo

__all__ = ["TrainingState", "average_gradients", "shared_state"]

# ---- gradients


def average_gradients(
    gradients: Any,
    comm: Communicator,
    all_reduce_size: int = 32 << 20,
    *,
    op: Op = ReduceOp.AVG,
    quantization: Optional[QuantizationOptions] = None,
    tag: int = 0,
    max_in_flight: int = 4,
    alone_ok: bool = False,
) -> Any:
    """Returns the averages of a tree of arrays among the peers of the group, which must all call it with the same names
    and sizes. The given arrays stay unchanged. Arrays that are not contiguous are copied; the others are not.

    all_reduce_size: arrays are reduced together, in operations of at most this many bytes; if 0 or less, each by
    itself.
    tag: tag of the first operation; further operations use the following tags. alone_ok: if this peer is alone, returns
    equal arrays; otherwise it raises TooFewPeersError.

    An operation that fails because a peer was lost is repeated with the remaining peers; one that completed before a
    peer was lost includes that peer. After an error, drop the step.
    """
    if not isinstance(comm, Communicator):
        raise InvalidArgument(f"average_gradients: comm: expected a Communicator, not {comm!r}")
    named = sorted(tree_flatten(gradients), key=lambda pair: pair[0])
    for name, array in named:
        _need_array("average_gradients", name, array)
    sources = [(name, mx.contiguous(array)) for name, array in named if array.size > 0]
    reduced = {name: mx.zeros(array.shape, array.dtype) for name, array in sources}
    _evaluate("average_gradients", [array for _, array in sources], reduced)
    operations = [
        Coalesced(
            [array for _, array in bucket], [reduced[name] for name, _ in bucket], op=op, tag=tag + index,
            quantization=quantization, alone_ok=alone_ok
        )
        for index, bucket in enumerate(_buckets(sources, number("all_reduce_size", all_reduce_size, -1 << 63, 1 << 63)))
    ]
    if operations:
        comm.run(operations, max_in_flight=max_in_flight)
    return tree_map_with_path(lambda name, array: reduced.get(name or "", array), gradients)


def _buckets(named: List[Tuple[str, Any]], size: int) -> List[List[Tuple[str, Any]]]:
    """Divides arrays into runs of at most `size` bytes. An array that is larger is by itself."""
    buckets: List[List[Tuple[str, Any]]] = []
    used = size
    for name, array in named:
        if used + array.nbytes > size:
            buckets.append([])
            used = 0
        buckets[-1].append((name, array))
        used += array.nbytes
    return buckets


def _evaluate(where: str, *trees: Any) -> None:
    try:
        mx.eval(*trees)
    except (RuntimeError, ValueError) as error:
        raise LayoutError(f"{where}: the arrays cannot be evaluated here: {error}") from None


def _need_array(where: str, name: str, thing: Any) -> None:
    if not isinstance(thing, mx.array):
        raise DTypeError(f"{where}: {name or 'the tree'}: expected an mlx array, not {type(thing).__name__}")


# ---- shared state

_MODULE, _OPTIMIZER = "module", "optimizer"  # first parts of the names of their arrays


class _Leaf(NamedTuple):
    """Location of an array in a tree, which may replace the array."""

    name: str
    owner: Any
    key: Any

    @property
    def array(self) -> Any:
        return self.owner[self.key]


class TrainingState(SharedState):
    """The result of shared_state(). Its arrays are looked up for each synchronization, so they may be replaced, but
    their names, data types and sizes must not change."""

    def __init__(self, model: Any, optimizer: Any, extra: Mapping[str, Any]) -> None:
        self._trees = {**extra, _MODULE: model}
        self._optimizer = optimizer
        super().__init__([TensorInfo.from_buffer(leaf.array, leaf.name) for leaf in self._look_up()])

    def digest(self) -> str:
        """Returns a hexadecimal digest of names and contents, which is equal if all bits are equal."""
        return _buffers.digest((leaf.name, leaf.array) for leaf in self._look_up())

    def _look_up(self) -> List[_Leaf]:
        """Returns the current arrays, which are contiguous and do not share memory."""
        found: List[_Leaf] = []
        seen: Set[Tuple[int, str]] = set()
        trees = dict(self._trees)
        if self._optimizer is not None:
            trees[_OPTIMIZER] = self._optimizer.state
        for name, tree in sorted(trees.items()):
            _collect(name, tree, found, seen)
        _evaluate("shared_state", [leaf.array for leaf in found])
        for leaf in found:
            if not memoryview(leaf.array).c_contiguous:
                leaf.owner[leaf.key] = mx.contiguous(leaf.array)
        _separate(found)
        return found

    def _prepare(self) -> Prepared:
        found = self._look_up()
        self._need_names([leaf.name for leaf in found])
        for info, leaf in zip(self._infos, found):
            info._tensor = leaf.array
        return super()._prepare()


def _collect(path: str, tree: Any, found: List[_Leaf], seen: Set[Tuple[int, str]]) -> None:
    """Appends the arrays in a tree of modules, dictionaries and lists. Omits a second path to the same array, as of a
    module that is used twice."""
    is_module = isinstance(tree, nn.Module)
    if isinstance(tree, dict):
        # As in Module.parameters(), names that begin with an underscore are private.
        keys = sorted(tree, key=str)
        parts: List[Tuple[Any, Any]] = [(key, tree[key]) for key in keys if not is_module or key[0] != "_"]
    elif isinstance(tree, list):
        parts = list(enumerate(tree))
    else:
        raise InvalidArgument(
            f"shared_state: {path}: expected a module, or a dictionary or list of mlx arrays, not {type(tree).__name__}"
        )
    for key, part in parts:
        if isinstance(part, mx.array):
            if (id(tree), str(key)) not in seen:
                seen.add((id(tree), str(key)))
                found.append(_Leaf(f"{path}.{key}", tree, key))
        elif not is_module or isinstance(part, (dict, list)):
            _collect(f"{path}.{key}", part, found, seen)


def _separate(leaves: List[_Leaf]) -> None:
    """Copies arrays that share memory with others, because a synchronization writes to it."""
    end = 0
    buffers = [(_buffers.of(leaf.array, leaf.name), leaf) for leaf in leaves]
    for buffer, leaf in sorted(buffers, key=lambda pair: pair[0].address):
        if buffer.count > 0 and buffer.address < end:
            leaf.owner[leaf.key] = mx.where(True, leaf.array, leaf.array)
        else:
            end = max(end, buffer.address + buffer.count * buffer.dtype.itemsize)


def shared_state(model: Any, optimizer: Any = None, extra: Optional[Mapping[str, Any]] = None) -> TrainingState:
    """Returns the arrays of a model and its optimizer as shared state. Creates the optimizer's state if necessary.

    extra: further contents by name: modules, or dictionaries and lists of mlx arrays, also nested.

    A synchronization that receives other contents writes them to the memory of the arrays. Before that, it copies
    arrays that are not contiguous or share memory, and puts the copies in their places."""
    given = dict(extra or {})
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"shared_state: model: expected an mlx.nn.Module, not {type(model).__name__}")
    if optimizer is not None:
        if not isinstance(optimizer, Optimizer):
            kind = type(optimizer).__name__
            raise InvalidArgument(f"shared_state: optimizer: expected an mlx.optimizers.Optimizer, not {kind}")
        optimizer.init(model.trainable_parameters())
    for name in given:
        if name in (_MODULE, _OPTIMIZER):
            raise InvalidArgument(f"shared_state: extra: the name {name!r} is reserved")
    return TrainingState(model, optimizer, given)
