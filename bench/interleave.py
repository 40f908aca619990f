"""Runs things in turn, so that a machine whose speed drifts is unfair to none of them. Shell."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

Name = TypeVar("Name")


def interleaved(
    contenders: Mapping[Name, Callable[[], object]],
    rounds: int,
    *,
    seed: int,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[Name, list[float]]:
    """What each took in each round, s. Blocks.

    All are run once before, unmeasured. The order is another one in every round, and the same in
    every run with the seed.

    Args:
        contenders: what is run, by name.
        rounds: how often.
        seed: of the order.
        clock: seconds; `time.process_time` does not count what other programs took.
    """
    chance = random.Random(seed)
    found: dict[Name, list[float]] = {name: [] for name in contenders}
    for work in contenders.values():
        work()
    for _ in range(rounds):
        for name in chance.sample(list(contenders), len(contenders)):
            began = clock()
            contenders[name]()
            found[name].append(clock() - began)
    return found
