import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.extract.meter import Meter

STAYS = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 50)), min_size=1, max_size=20)


@given(STAYS)
def test_shares_add_up_to_the_time_that_the_engine_was_busy(stays):
    meter, inside, shares = Meter(), {}, {}
    moments = sorted(
        [(start, 1, i) for i, (start, _) in enumerate(stays)] + [(a + b, 0, i) for i, (a, b) in enumerate(stays)]
    )
    for now, entering, index in moments:
        if entering:
            inside[index] = meter.enter(now)
        else:
            shares[index] = meter.leave(inside.pop(index), now)
    busy = {second for start, length in stays for second in range(start, start + length)}
    assert sum(it.own_ms for it in shares.values()) == pytest.approx(len(busy) * 1e3)
    for index, (_, length) in enumerate(stays):
        assert shares[index].stay_ms == pytest.approx(length * 1e3)
        assert 1 - 1e-9 <= shares[index].batch_size <= len(stays) + 1e-9


def test_two_at_once_pay_half_each():
    meter = Meter()
    first, second = meter.enter(10.0), meter.enter(10.0)
    assert meter.leave(first, 12.0).batch_size == pytest.approx(2)
    share = meter.leave(second, 14.0)
    assert (share.stay_ms, share.own_ms) == (pytest.approx(4000), pytest.approx(3000))
