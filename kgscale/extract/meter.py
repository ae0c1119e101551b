"""What one request costs while many share an engine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Share:
    """A request's time in the engine, and how much of the engine's time was its own."""

    stay_ms: float
    own_ms: float

    @property
    def batch_size(self) -> float:
        """With how many requests the engine was shared on average, this one included."""
        return self.stay_ms / self.own_ms if self.own_ms > 0 else 1.0


class Meter:
    """Divides the time of an engine evenly among the requests in it at each moment.

    The shares of all requests add up to the time in which the engine was busy: the integral of 1/n over a request's
    stay, n being the number of requests in the engine (processor sharing). Both calls take constant time.
    """

    def __init__(self) -> None:
        self._inside = 0
        self._at_s = 0.0
        self._share_s = 0.0

    def enter(self, now_s: float) -> tuple[float, float]:
        """Count a request in; returns what `leave` wants to have back."""
        self._advance(now_s)
        self._inside += 1
        return now_s, self._share_s

    def leave(self, entered: tuple[float, float], now_s: float) -> Share:
        """Count a request out and say what it cost."""
        self._advance(now_s)
        self._inside -= 1
        since_s, share_s = entered
        return Share(stay_ms=(now_s - since_s) * 1e3, own_ms=(self._share_s - share_s) * 1e3)

    def _advance(self, now_s: float) -> None:
        if self._inside:
            self._share_s += (now_s - self._at_s) / self._inside
        self._at_s = now_s
