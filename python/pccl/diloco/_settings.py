"""Settings that all kinds of runs have, and settings of DiLoCo."""

from __future__ import annotations

import math
import operator
from typing import Any, Mapping, Optional, Sequence, Union

from .._communicator import Communicator
from .._settings import Check, Declared, choice, integer, optional, position, setting, where
from ._fragments import Fragments
from ._outer import Nesterov, Outer
from ._reduction import BUCKET_BYTES, Codec

MODES = ("sync", "delayed", "eager")
WEIGHTS = ("uniform", "tokens")
CATCH_UPS = ("whole", "fragments")


class Run(Declared):
    """Settings of every run."""

    comm: Communicator = position(kw_only=False)
    min_peers: int = setting(default=1, check=integer(1))
    rounds: Optional[int] = setting(default=None, check=optional(integer(1)))


class Trained(Run):
    """Settings of runs that train given parameters."""

    params: Any = position(kw_only=False)


class Verified(Run):
    verify_every: int = setting(default=50, check=integer(0))


def _size(least: int) -> Check:
    return where(lambda value: operator.index(value) >= least, f"an integer of at least {least}", " is ")


class Reduced(Run):
    """Settings of runs that reduce deltas in buckets."""

    bucket_bytes: int = setting(default=BUCKET_BYTES, check=_size(8))
    max_in_flight: int = setting(default=4, check=_size(1), same=False)


class LocalSGDSettings(Reduced, Verified, Trained):
    inner_steps: int = setting(check=integer(1))
    mode: str = setting(default="sync", check=choice(MODES))
    fragments: Fragments = 1
    pattern: str = "strided"
    offsets: Optional[Sequence[int]] = None
    periods: Optional[Sequence[int]] = None
    delay: int = setting(default=0, check=integer(0))
    alpha: float = setting(default=0.0, check=where(lambda share: 0 <= share <= 1, "a number from 0 to 1"))
    codec: Union[Codec, Sequence[Codec]] = None
    feedback: bool = False
    weight: str = setting(default="uniform", check=choice(WEIGHTS))
    extra: Optional[Mapping[str, Any]] = None
    share_buffers: bool = False
    linger_s: float = setting(
        default=0.0, check=where(lambda seconds: 0 <= seconds < math.inf, "a number of seconds, at least 0")
    )
    catch_up: Optional[str] = setting(default=None, check=optional(choice(CATCH_UPS)))
    process_group: Any = None


class DiLoCoSettings(LocalSGDSettings):
    outer: Union[Outer, Sequence[Outer]] = Nesterov(0.7, 0.9)
