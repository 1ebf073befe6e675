import pytest

from pipeline.environments.scienceworld import pool as module
from pipeline.environments.scienceworld.pool import Pool
from pipeline.errors import EnvironmentFault


class Fake:
    """Stands for a simulator."""

    started = 0

    def __init__(self, seconds):
        type(self).started += 1
        self.alive = True

    def close(self):
        self.alive = False


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.setattr(Fake, "started", 0)
    monkeypatch.setattr(module, "Simulator", Fake)
    return Pool(2, 1.0)


def test_what_is_given_back_is_lent_again(pool):
    first = pool.acquire()
    pool.release(first)
    assert pool.acquire() is first and Fake.started == 1


def test_nobody_waits_and_those_too_many_are_ended(pool):
    lent = [pool.acquire() for _ in range(5)]
    assert len({id(each) for each in lent}) == 5
    for each in lent:
        pool.release(each)
    assert [each.alive for each in lent] == [True, True, False, False, False]


def test_the_dead_are_replaced(pool):
    first, second = pool.acquire(), pool.acquire()
    first.alive = False
    pool.release(first)
    pool.release(second)
    second.alive = False
    third = pool.acquire()
    assert third.alive and third not in (first, second)


def test_nothing_outlives_the_pool(pool):
    idle, lent = pool.acquire(), pool.acquire()
    pool.release(idle)
    pool.close()
    assert not idle.alive and lent.alive
    pool.release(lent)
    assert not lent.alive
    with pytest.raises(EnvironmentFault, match="closed"):
        pool.acquire()
