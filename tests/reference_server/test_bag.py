"""A bag keeps beanstalkd's order, whether it is small or large."""

from __future__ import annotations

import pickle
import random

import pytest

from reference_server.state import Bag


class Item:
    """Something that is equal to itself only, as clients and tubes are."""


@pytest.mark.parametrize("most", [5, Bag.LARGE, 4 * Bag.LARGE])
def test_a_bag_is_a_list_whose_last_item_fills_a_gap(most: int) -> None:
    chance = random.Random(most)
    bag: Bag[Item] = Bag()
    expected: list[Item] = []
    for _ in range(30 * most):
        if not expected or (len(expected) < most and chance.random() < 0.6):
            item = Item()
            bag.add(item)
            expected.append(item)
        else:
            item = chance.choice(expected)
            bag.remove(item)
            place = expected.index(item)
            last = expected.pop()
            if last is not item:
                expected[place] = last
        assert list(bag) == expected
        assert Item() not in bag
        if expected:
            assert chance.choice(expected) in bag
            turn = bag.turns()[0]
            assert [*bag.turns()] == [turn, *(one for one in expected if one is not turn)]
            assert bag.turns()[-1:] == [bag.turns()[len(expected) - 1]]
            bag.took_turn()


def test_a_large_bag_is_the_same_when_it_was_pickled() -> None:
    bag: Bag[str] = Bag()
    for number in range(3 * Bag.LARGE):
        bag.add(str(number))
    again = pickle.loads(pickle.dumps(bag))
    for one in (bag, again):
        one.remove("5")
    assert list(again) == list(bag)
    assert "5" not in again
    with pytest.raises(KeyError):
        again.remove("5")
