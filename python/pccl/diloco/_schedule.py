"""The schedule of the fragments' reductions. It depends only on the run's inner step, which is shared state, so all
peers agree on it, even after peers have joined or left."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from .._errors import InvalidArgument


@dataclass(frozen=True)
class Schedule:
    """Fragment p is launched at each inner step that is offsets[p] more than a multiple of periods[p], and applied
    `delay` steps later. Step 0 precedes all training, so it has no launches."""

    period: int  # number of inner steps in a round
    offsets: Tuple[int, ...]
    periods: Tuple[int, ...]
    delay: int = 0

    @classmethod
    def make(
        cls,
        period: int,
        count: int,
        offsets: Optional[Sequence[int]],
        delay: int,
        periods: Optional[Sequence[int]] = None,
    ) -> Schedule:
        """periods: None means the length of a round for all fragments. offsets: None spreads the fragments evenly over
        their periods."""
        own = tuple([period] * count if periods is None else map(operator.index, periods))
        if len(own) != count:
            raise InvalidArgument(f"periods: {len(own)} periods for {count} fragments")
        if min(own) < 1:
            raise InvalidArgument(f"periods: {list(own)}; expected each at least 1")
        if not 0 <= delay < min(own):
            least = f"inner_steps={period}" if periods is None else f"the shortest period, {min(own)}"
            raise InvalidArgument(
                f"delay: {delay}; expected at least 0 and less than {least}, so that a fragment has "
                "arrived before it is sent again"
            )
        if offsets is None:
            return cls(period, tuple(p * each // count for p, each in enumerate(own)), own, delay)
        given = tuple(operator.index(offset) for offset in offsets)
        if len(given) != count:
            raise InvalidArgument(f"offsets: {len(given)} offsets for {count} fragments")
        if not all(0 <= offset < each for offset, each in zip(given, own)):
            most = f"inner_steps - 1 = {period - 1}" if periods is None else f"its period - 1; periods: {list(own)}"
            raise InvalidArgument(f"offsets: {list(given)}; expected each from 0 to {most}")
        return cls(period, given, own, delay)

    def launches(self, step: int) -> List[int]:
        """Returns the fragments that have a slot at this step, in the order in which all peers launch them."""
        if step <= 0:
            return []
        slots = enumerate(zip(self.offsets, self.periods))
        return [p for p, (offset, period) in slots if step % period == offset and step >= offset]

    def lands(self, step: int) -> List[int]:
        """Returns the fragments that are due at this step."""
        return self.launches(step - self.delay)

    def turn(self, fragment: int, step: int) -> int:
        """Returns the number of the fragment's last slot, counting the slots of all fragments in turn.
        """
        return (step - self.offsets[fragment]) // self.periods[fragment] * len(self.periods) + fragment

    def is_boundary(self, step: int) -> bool:
        """Returns true if a round ends with this step."""
        return step > 0 and step % self.period == 0

    def acts(self, step: int) -> bool:
        """Returns true if this step involves the other peers."""
        return self.is_boundary(step) or bool(self.launches(step)) or bool(self.lands(step))
