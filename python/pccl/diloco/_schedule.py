"""When fragments are reduced: a function of the run's inner step alone, which is shared, so that all
peers agree, whoever has come or gone meanwhile."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import List, Optional, Sequence, Tuple

from .._errors import InvalidArgument


@dataclass(frozen=True)
class Schedule:
    """Fragment p is launched at each inner step that is offsets[p] more than a multiple of the
    period, and applied `delay` steps later. Step 0 is before any training, so nothing is launched
    there."""

    period: int
    offsets: Tuple[int, ...]
    delay: int = 0

    @classmethod
    def make(cls, period: int, count: int, offsets: Optional[Sequence[int]], delay: int) -> Schedule:
        """offsets: None spreads the fragments evenly over the period."""
        if not 0 <= delay < period:
            raise InvalidArgument(
                f"delay: {delay}; expected at least 0 and less than inner_steps={period}, so that a fragment has "
                "arrived when it is sent again"
            )
        if offsets is None:
            return cls(period, tuple(p * period // count for p in range(count)), delay)
        given = tuple(operator.index(offset) for offset in offsets)
        if len(given) != count:
            raise InvalidArgument(f"offsets: there are {len(given)} for {count} fragments")
        if not all(0 <= offset < period for offset in given):
            raise InvalidArgument(f"offsets: {list(given)}; expected each from 0 to inner_steps - 1 = {period - 1}")
        return cls(period, given, delay)

    def launches(self, step: int) -> List[int]:
        """The fragments whose slot is at this step, in the order in which all peers take them."""
        if step <= 0:
            return []
        return [p for p, offset in enumerate(self.offsets) if step % self.period == offset and step >= offset]

    def lands(self, step: int) -> List[int]:
        """The fragments that are due at this step."""
        return self.launches(step - self.delay)

    def is_boundary(self, step: int) -> bool:
        """Whether a round ends with this step."""
        return step > 0 and step % self.period == 0

    def acts(self, step: int) -> bool:
        """Whether this step is joint with the other peers."""
        return self.is_boundary(step) or bool(self.launches(step)) or bool(self.lands(step))
