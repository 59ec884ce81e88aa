"""Settings that several methods have in common."""

from __future__ import annotations

import math
from typing import Any, Union

from .._errors import InvalidArgument
from .._settings import finite, integer, setting, truth
from ..diloco import _membership, _outer
from ..diloco._outer import SGD, Nesterov
from ..diloco._reduction import Codec, codec_of, codec_words
from ..diloco._settings import Reduced, Run, Trained, Verified
from ._sparse import CHUNK


class Drawn(Run):
    """Settings of all methods. The two values below are for methods that lack the setting."""

    seed: int = setting(default=0, check=integer(0, (1 << 63) - 1, "less than 2**63"))
    admit_every: int = setting(default=10, check=integer(1))

    inner_steps = 1
    verify_every = 0


class Settings(Drawn, Verified, Trained):
    """The arguments of a method's constructor: the communicator, the parameters, and the settings that all methods have
    (see Method). A class that derives from this one becomes a frozen dataclass, and declares further settings:

        class MySettings(Settings):
            lr: float = 0.1

        class MyMethod(Method):
            @takes(MySettings)
            def __init__(self, given: MySettings) -> None:
                self.lr = given.lr
                super().__init__(given.comm, given.params, given)

    Create the method with MyMethod(comm, params, lr=0.2, rounds=10). `lr` must be equal on all peers, unless it is
    declared by setting(same=False)."""

    inner_steps: int = setting(default=1, check=integer(1))


def _packs(_: str, codec: Codec) -> Codec:
    codec_of(codec, False, ())  # raises if it is invalid
    return codec


class Coded(Reduced):
    """Settings of methods that send arrays packed by a codec."""

    codec: Codec = setting(
        default=None,
        check=_packs,
        same=lambda codec: _membership.listing("codec", [codec_words(codec_of(codec, False, ()))]),
    )


class Sparsely(Drawn):
    """Settings of the sparse codec. See SparseLoCo."""

    kept: int = setting(default=64, check=integer(1, CHUNK))
    decay: float = setting(default=0.95, check=finite(zero=True))
    lr: float = setting(default=1.0, check=finite(most=math.inf))
    clip: bool = setting(default=True, check=truth)


def _momentum_rule(name: str, outer: Any) -> Union[Nesterov, SGD]:
    if not isinstance(outer, (Nesterov, SGD)):
        raise InvalidArgument(f"{name}: {outer!r} is not a pccl.diloco.Nesterov or an SGD")
    return outer


class Stepped(Drawn):
    """Settings of methods whose outer step can have a momentum."""

    outer: Union[Nesterov, SGD] = setting(
        default=SGD(1.0),
        check=_momentum_rule,
        same=lambda outer: _membership.listing("outer", [_outer.words(outer)]),
    )
