"""Methods that average parts of the parameters with all peers, or all parameters with one other peer."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import numpy as np

from .._described import takes
from .._errors import MembersChangedError, PeerLostError, TooFewPeersError
from .._handles import AsyncReduceHandle
from .._settings import finite, integer, setting
from ..diloco._arrays import NumpyArrays
from ..diloco._member import StepInfo
from ..diloco._reduction import Reduction, codec_of
from ..diloco._settings import Trained
from . import _random
from ._hooks import as_numpy
from ._method import DATA_TAG, Method
from ._settings import Coded, Drawn

# Errors that a transfer raises if the partner has left.
_GONE = (PeerLostError, MembersChangedError, TooFewPeersError)


class PairAverageSettings(Drawn, Trained):
    inner_steps: int = setting(check=integer(1))
    momentum: float = setting(default=0.0, check=finite(zero=True, most=0.99))


class PairAverage(Method):
    """Trains on each peer independently for inner_steps steps. Then each peer and a partner, a different one in each
    round, set their parameters to the mean of the two (NoLoCo). A peer waits only for its partner, except in every
    admit_every-th round. With an odd number of peers, one of them has no partner. If the partner fails, this peer
    continues with its own parameters.

    momentum: the share of a round's change that is added to the next round's change (NoLoCo's outer momentum, with both
        of its rates equal to 1). It costs no traffic, but the memory of two more models.

    Each peer has different parameters. Without momentum, each round multiplies the expected squared distance from their
    mean by (n-2)/(2(n-1)). Newcomers get the parameters of one peer. For the other settings see Method.
    """

    _is_common = False

    @takes(PairAverageSettings)
    def __init__(self, given: PairAverageSettings) -> None:
        self.momentum = given.momentum
        super().__init__(given.comm, given.params, given)
        self._theirs = self._layout.zeros()
        # Change during the last round, and parameters at the start of the current one.
        self._last, self._start = (self._layout.zeros() if self.momentum > 0 else [] for _ in range(2))
        self._own_id = ""
        self._order: List[str] = []  # peers in an order that is the same on all and determines the pairs

    def _met(self) -> None:
        self._own_id, self._order = self.comm.id, self._all_ids()

    def _exchange(self) -> StepInfo:
        self._layout.read(self._shared.theta)
        partner = self._partner()
        swapped = partner is not None and self._wait(lambda: self._swap(partner))
        info = StepInfo(participants=1)
        if swapped:
            size = sum(flat.nbytes for flat in as_numpy(self._theirs))
            info = StepInfo(participants=2, committed=True, tx_bytes=size, rx_bytes=size)
            for own, theirs in zip(self._shared.theta, self._theirs):
                own += theirs
                own *= 0.5
            self._move_on()
            self._layout.write(self._shared.theta)
            self._begin()
        if (self.round + 1) % self._admit_every == 0:
            self._order = self._all_ids()
        return info

    def _move_on(self) -> None:
        """Adds a share of the last round's change to the pair's mean."""
        for theta, start, last in zip(self._shared.theta, self._start, self._last):
            last *= self.momentum
            last += theta
            last -= start
            theta[...] = start
            theta += last

    def _begin(self) -> None:
        if self._start:
            self._layout.read(self._start)

    def _moved(self) -> None:
        for last in self._last:
            last[...] = 0
        self._begin()

    def _own(self) -> Dict[str, Any]:
        kinds = (("last", self._last), ("start", self._start))
        return {
            f"{kind}.{dtype}": flat
            for kind, flats in kinds
            for dtype, flat in zip(self._layout.dtypes, as_numpy(flats))
        }

    def _partner(self) -> Optional[str]:
        order = _random.order(self.seed, _random.PARTNERS, self.round, len(self._order))
        place = [self._order[index] for index in order].index(self._own_id)
        other = place ^ 1
        return self._order[order[other]] if other < len(order) else None

    def _swap(self, partner: str) -> bool:
        """Exchanges parameters with the partner. Returns true if both have received them, and false if neither counts
        them as received."""
        launched: List[AsyncReduceHandle] = []
        wanted = 0
        for index, (own, theirs) in enumerate(zip(self._shared.theta, self._theirs)):
            for launch, flat in ((self.comm.send_async, own), (self.comm.recv_async, theirs)):
                wanted += 1
                try:
                    launched.append(launch(flat, partner, tag=DATA_TAG + index))
                except _GONE:
                    pass
        return sum([_succeeded(handle) for handle in launched]) == wanted


def _succeeded(handle: AsyncReduceHandle) -> bool:
    try:
        handle.result()
    except _GONE:
        return False
    return True


class PartialAverageSettings(Coded, Drawn, Trained):
    fraction: float = setting(default=0.005, check=finite())
    inner_steps: int = setting(default=1, check=integer(1))


class PartialAverage(Method):
    """Trains on each peer independently for inner_steps steps. Then all peers average a random part of the parameters,
    a different one in each round (SPARTA), and send only this fraction of the model.

    fraction: share of the parameters that is averaged in a round. codec: as in DiLoCo.

    Each peer has different parameters, except those that were just averaged. The mean is over exactly the remaining
    peers. A peer whose parameters are not finite is left out. Newcomers get the parameters of one peer. For the other
    settings see Method.
    """

    @takes(PartialAverageSettings)
    def __init__(self, given: PartialAverageSettings) -> None:
        self.fraction = given.fraction
        super().__init__(given.comm, given.params, given)
        packing = codec_of(given.codec, False, self._layout.dtypes)
        self._theta = as_numpy(self._shared.theta)
        counts = [max(1, round(self.fraction * len(flat))) if len(flat) else 0 for flat in self._theta]
        own, mean = ([np.zeros(count, flat.dtype) for count, flat in zip(counts, self._theta)] for _ in range(2))
        self._reduction = Reduction(0, own, mean, NumpyArrays(), packing, given.bucket_bytes, given.max_in_flight)

    _is_common = False

    def _chosen(self) -> List[Any]:
        return [
            _random.indices(self.seed, _random.INDICES, self.round, index, len(part), max(1, len(flat)))
            for index, (part, flat) in enumerate(zip(self._reduction.delta, self._theta))
        ]

    def _exchange(self) -> StepInfo:
        self._layout.read(self._shared.theta)
        chosen, reduction = self._chosen(), self._reduction
        for part, flat, places in zip(reduction.delta, self._theta, chosen):
            np.take(flat, places, out=part)
        info = self._average(reduction, not reduction.is_finite())
        if info.committed:
            for flat, mean, places in zip(self._theta, reduction.mean, chosen):
                flat[places] = mean
            self._layout.write(self._shared.theta)
        return info
