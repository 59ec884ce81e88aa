"""Training with one byte per probe (SPSA with shared randomness)."""

from __future__ import annotations

import bisect
import decimal
import logging
import math
import operator
import struct
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import numpy as np

from .._described import takes
from .._errors import InvalidArgument, InvalidUsage
from .._settings import choice, finite, function, integer, position, setting, truth
from ..diloco._member import StepInfo
from ..diloco._settings import Trained, Verified
from . import _random
from ._hooks import as_numpy
from ._method import DATA_TAG, Method
from ._settings import Drawn

_log = logging.getLogger("pccl.methods")

_PROBES_MAX = 1 << 16
_CODECS = ("byte", "float32")
_REPLAY_TAG = DATA_TAG + 1

Shares = List[Tuple[int, bytes]]  # the measurements of a round, with the number of the peer that made them


def _sizes() -> List[float]:
    """Returns e^((code - 64) / 8) for the codes 1 to 127, correctly rounded on all platforms, so that all peers decode
    to the same bits."""
    context = decimal.Context(prec=40)
    return [float(context.exp(context.divide(decimal.Decimal(code - 64), 8))) for code in range(1, 128)]


_SIZES = _sizes()
_DECODED = [0.0, *_SIZES, 0.0, *(-size for size in _SIZES)]
# Geometric mean of each size and the one below it. Sizes below the first limit become 0.
_LIMITS = [size * math.exp(-1 / 16) for size in _SIZES]


def encode(slopes: List[float], codec: str) -> bytes:
    """Packs slopes. A slope that is not finite becomes 0, which has no effect."""
    finite = [slope if math.isfinite(slope) else 0.0 for slope in slopes]
    if codec == "float32":
        return struct.pack(f"<{len(finite)}f", *finite)
    codes = [bisect.bisect_right(_LIMITS, abs(slope)) for slope in finite]
    return bytes(code | 128 if code > 0 and slope < 0 else code for code, slope in zip(codes, finite))


def decode(payload: bytes, codec: str) -> List[float]:
    if codec == "float32":
        return list(struct.unpack(f"<{len(payload) // 4}f", payload))
    return [_DECODED[code] for code in payload]


class OneByteSettings(Drawn, Verified, Trained):
    loss: Callable[[int], float] = position(kw_only=False)
    probes: int = setting(default=8, check=integer(1, _PROBES_MAX), same=False)
    epsilon: float = setting(default=1e-3, check=finite())
    lr: float = setting(default=1e-3, check=finite(most=math.inf))
    codec: str = setting(default="byte", check=choice(_CODECS))
    replay: bool = setting(default=True, check=truth)
    log_bytes: int = setting(default=64 << 20, check=integer(0), same=False)

    def _check(self) -> None:
        function("loss", self.loss)


class OneByte(Method):
    """Learns from a few numbers instead of gradients (Just One Byte). In each step, a peer probes `probes` random
    directions, forward and backward, and sends the slope of its loss along each of them as one byte. All peers derive
    the directions from the seed and make the same step. Meant for fine-tuning over links with almost no capacity. It
    learns little in a step, but needs no gradients.

    loss: loss(probe) returns the loss of the current parameters on this peer's data. The data must be the same in both
        calls for a probe; `round` and probe may select it.
    probes: number of this peer's probes; may differ between peers.
    epsilon: distance of a probe in each parameter. lr: learning rate of the step, which is the mean of slope *
        direction over all peers' probes.
    codec: "byte", or "float32" for 4-byte slopes.
    replay: newcomers that have the run's initial parameters (or load a state_dict() of it) get the log since then and
        repeat the steps, if the log is smaller than the parameters. log_bytes: size limit of the log.

    After each step the parameters have the same bits on all peers. The program must not change them between steps. For
    the other settings see Method.
    """

    @takes(OneByteSettings)
    def __init__(self, given: OneByteSettings) -> None:
        self.loss, self.probes, self.codec = given.loss, given.probes, given.codec
        self.epsilon, self.lr = given.epsilon, given.lr
        self._payload, self._skipped = b"", False
        super().__init__(given.comm, given.params, given)
        self._theta = as_numpy(self._shared.theta)
        self._room = self._layout.zeros()
        self._totals = as_numpy(self._room)
        self._own_id = ""
        self._numbers: Dict[str, int] = {}  # number of each peer, the same on all peers
        self._history = History(given.log_bytes)
        if given.replay:
            self._membership.catch_up = self._catch_up

    # ---- steps

    def step(self) -> StepInfo:
        """Measures the slopes, and makes one step together with the other peers. If the loss raises, nothing has
        changed."""
        if not self._is_in_run():
            return self.join()
        self._check_not_finished()
        self._payload = self._measure()
        return self._jointly(self._reach)

    def _measure(self) -> bytes:
        own = self._numbers[self._own_id]
        try:
            slopes = [self._slope(own, probe) for probe in range(self.probes)]
        finally:
            self._layout.write(self._shared.theta)
        self._skipped = not all(map(math.isfinite, slopes))
        if self._skipped:
            _log.warning("round %d: a loss is not finite; ignoring its probe", self.round)
        return encode(slopes, self.codec)

    def _slope(self, own: int, probe: int) -> float:
        directions = list(self._directions(self.round, own, probe))
        there, back = (self._loss_at(directions, epsilon, probe) for epsilon in (self.epsilon, -self.epsilon))
        return (there - back) / (2 * self.epsilon)

    def _loss_at(self, directions: List[Any], epsilon: float, probe: int) -> float:
        for flat, theta, direction in zip(self._totals, self._theta, directions):
            np.multiply(direction, epsilon, out=flat)
            flat += theta
        self._layout.write(self._room)
        return float(self.loss(probe))

    def _directions(self, round: int, peer: int, probe: int) -> Iterator[Any]:
        for index, flat in enumerate(self._theta):
            stream = (peer << 32) | (index << 24) | probe
            yield _random.signs(self.seed, _random.DIRECTION, round, stream, len(flat), flat.dtype)

    def _exchange(self) -> StepInfo:
        found = self._gather(self._payload, DATA_TAG)
        shares = [(self._numbers[peer], bytes(said)) for peer, said in found]
        self._numbers = {peer: number for number, (peer, _) in enumerate(found)}
        committed = self._apply(shares)
        self._history.add(shares)
        self._layout.write(self._shared.theta)
        return StepInfo(
            participants=len(found),
            committed=committed,
            tx_bytes=len(self._payload),
            rx_bytes=sum(len(said) for _, said in shares) - len(self._payload),
            skipped=self._skipped,
        )

    def _apply(self, shares: Shares) -> bool:
        """Makes the step of a round, in the order of the shares. Each operation rounds once."""
        slopes = [(peer, probe, slope) for peer, said in shares for probe, slope in enumerate(decode(said, self.codec))]
        if not any(slope for *_, slope in slopes):
            return False
        for total in self._totals:
            total[...] = 0
        for peer, probe, slope in slopes:
            if slope:
                for total, direction in zip(self._totals, self._directions(self.round, peer, probe)):
                    direction *= -self.lr * slope / len(slopes)
                    total += direction
        for theta, total in zip(self._theta, self._totals):
            theta += total
        return True

    def _met(self) -> None:
        self._own_id = self.comm.id
        self._numbers = {peer: number for number, peer in enumerate(self._all_ids())}
        if self._history.end != self.round:
            self._history.begin_at(self.round)

    # ---- the log

    def log(self, since: int = 0) -> bytes:
        """Returns the log since the end of this round. From it and the state of that round, replay() computes the
        current parameters. Empty if the log does not reach back that far."""
        with self._busy:
            return self._history.since(operator.index(since))

    def replay(self, log: bytes) -> int:
        """Repeats the steps of a log that begins at this peer's round. Must not be called while in the run. Returns the
        number of steps. If it raises, nothing has changed."""
        if self._is_in_run():
            raise InvalidUsage("OneByte: replay() on a peer that is in the run")
        with self._busy:
            steps = read_log(log, self.codec)
            if not self._has_state:
                self._layout.read(self._shared.theta)
            self._repeat(steps)
            self._layout.write(self._shared.theta)
            self._has_state = True
            return len(steps)

    def _repeat(self, steps: List[Shares]) -> None:
        if self._history.end != self.round:
            self._history.begin_at(self.round)
        for shares in steps:
            self._apply(shares)
            self._history.add(shares)
            self._shared.round = self.round + 1

    def _catch_up(self, counts: bool, lowest: int) -> None:
        """Brings peers that are behind to the run's round, if a peer has the log since their round. If their parameters
        differed from the run's at that round, they still do; the synchronization that follows detects this and
        transfers the parameters."""
        log = self._history.since(lowest) if counts and self._history.end == self.round else b""
        if len(log) >= sum(flat.nbytes for flat in self._theta):
            log = b""
        offers = self._gather(b"\1" if log else b"", _REPLAY_TAG)
        giver = next((peer for peer, offer in offers if len(offer) > 0), None)
        if giver is None:
            return
        found = self._gather(log if giver == self.comm.id else b"", _REPLAY_TAG)
        said = next((bytes(said) for _, said in found if len(said) > 0), b"")
        if counts or not said:
            return  # `said` is empty if the sender has failed
        steps = read_log(said, self.codec)
        self._repeat(steps[self.round - lowest :])


class History:
    """A log of the shares of the latest rounds."""

    def __init__(self, limit: int) -> None:
        self.end = 0
        self._limit = limit
        self._entries: List[bytes] = []
        self._bytes = 0

    @property
    def begin(self) -> int:
        return self.end - len(self._entries)

    def begin_at(self, round: int) -> None:
        self.end, self._entries, self._bytes = round, [], 0

    def add(self, shares: Shares) -> None:
        entry = struct.pack("<H", len(shares))
        entry += b"".join(struct.pack("<HI", peer, len(said)) + said for peer, said in shares)
        self._entries.append(entry)
        self.end, self._bytes = self.end + 1, self._bytes + len(entry)
        if self._bytes > self._limit:
            kept = len(self._entries) // 2
            self._entries = self._entries[len(self._entries) - kept :]
            self._bytes = sum(map(len, self._entries))

    def since(self, round: int) -> bytes:
        if not self.begin <= round <= self.end:
            return b""
        return b"".join(self._entries[round - self.begin :])


def read_log(log: bytes, codec: str) -> List[Shares]:
    """Parses a log. Raises InvalidArgument if it is malformed."""
    steps: List[Shares] = []
    at = 0
    try:
        while at < len(log):
            (count,) = struct.unpack_from("<H", log, at)
            at += 2
            shares: Shares = []
            for _ in range(count):
                peer, length = struct.unpack_from("<HI", log, at)
                said = log[at + 6 : at + 6 + length]
                decode(said, codec)
                if len(said) < length:
                    raise InvalidArgument("replay: the log is truncated")
                shares.append((peer, said))
                at += 6 + length
            steps.append(shares)
    except struct.error as error:
        raise InvalidArgument(f"replay: not a log, or the log of another codec ({error})") from None
    return steps
