"""How long a worker may go without a sign of life."""

import statistics
from collections import deque

FIRST_S = 900.0
"""Before any shard of an engine has finished there is no median to go by."""
LEAST_S = 120.0
FACTOR = 10.0
_REMEMBERED = 1000
_AGAIN_AFTER = 20
"""The median is taken anew after so many shards: it changes little, and is asked for at every turn of the loop."""


class Deadline:
    """`FACTOR` times the median time between two signs of life of an engine's workers, or a fixed time."""

    def __init__(self, fixed_s: float | None = None) -> None:
        self._fixed = fixed_s
        self._times: deque[float] = deque(maxlen=_REMEMBERED)
        self._new = 0
        self.seconds = FIRST_S if fixed_s is None else fixed_s

    def took(self, seconds: float) -> None:
        """Learn from a shard that has finished."""
        self._times.append(seconds)
        self._new += 1
        if self._fixed is None and (self._new >= _AGAIN_AFTER or len(self._times) < _AGAIN_AFTER):
            self._new = 0
            self.seconds = max(LEAST_S, FACTOR * statistics.median(self._times))
