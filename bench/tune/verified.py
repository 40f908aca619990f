"""Real engines with the defaults and with what was found, in turn, heard through a player. Shell."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import trio

from bench import started
from bench.race import SETTLE_S
from bench.ratios import by_round
from bench.record import recorded
from bench.report import Row
from bench.tune.simulated import Listened, listened
from bench.tune.space import Chosen
from engine.request import SpeechRequest
from playerd.delay import Slack
from playerd.forecast import Supply
from wsproto_api.speak import WebSocketSpeak

DEFAULTS, TUNED = "defaults", "tuned"

#: what medians may be worse: less than they differ between two runs of the same settings
TOLERANCE = 0.02


@dataclass(slots=True)
class Heard:
    """What was heard of one engine.

    Attributes:
        chars: of the text, for each request.
        listened: what a listener had of it.
        rtf: time from the request to the end, per audio.
    """

    chars: list[int] = field(default_factory=list)
    listened: list[Listened] = field(default_factory=list)
    rtf: list[float] = field(default_factory=list)


async def heard(
    contenders: Mapping[str, Chosen],
    texts: Sequence[str],
    rounds: int,
    *,
    seed: int,
    tell: Callable[[str], None],
) -> dict[str, Heard]:
    """Lets each speak every text in every round, in processes of their own.

    Requests take turns, in an order that is another one in every round. When sound starts is what a
    player with these settings does with what comes, which is reckoned and not played.
    """
    found = {name: Heard() for name in contenders}
    supplies = {name: Supply() for name in contenders}
    chance = random.Random(seed)
    async with AsyncExitStack() as stack:
        speaks: dict[str, WebSocketSpeak] = {}
        for name, chosen in contenders.items():
            tell(f"starting an engine with {name}")
            settings = {**chosen, "cache_mb": 0}
            engine = await stack.enter_async_context(started.engine(settings=settings))
            speaks[name] = WebSocketSpeak(engine.url, engine.token)
        for number in range(rounds + 1):
            tell(f"engines in turn, round {number} of {rounds}")
            for text in chance.sample(texts, len(texts)):
                for name in chance.sample(list(contenders), len(contenders)):
                    await trio.sleep(SETTLE_S)
                    began_s = trio.current_time()
                    async with speaks[name](SpeechRequest(text=text)) as events:
                        trace = await recorded(name, text, events, began_s)
                    policy = Slack(start_s=contenders[name]["start_wait_ms"] / 1000)
                    had = listened(trace, policy, supplies[name])
                    if number:  # the first round warms up
                        found[name].chars.append(len(text))
                        found[name].listened.append(had)
                        found[name].rtf.append(trace.rtf)
    return found


def ratios(found: Mapping[str, Heard]) -> dict[str, list[float]]:
    """Tuned by default, of each text and round."""
    ours, usual = found[TUNED], found[DEFAULTS]
    # Requests of a round took turns, so those of the same text have other places in the lists.
    pairs = list(zip(_by_text(ours), _by_text(usual), strict=True))
    return {
        "first sound, tuned / defaults": by_round(
            [ours.listened[own].start_s for own, _ in pairs],
            [usual.listened[other].start_s for _, other in pairs],
        ),
        "RTF, tuned / defaults": by_round(
            [ours.rtf[own] for own, _ in pairs], [usual.rtf[other] for _, other in pairs]
        ),
    }


def _by_text(heard: Heard) -> list[int]:
    return sorted(range(len(heard.chars)), key=lambda place: heard.chars[place])


def faults(found: Mapping[str, Heard]) -> list[str]:
    """What is worse with what was found, a sentence each; none if it is no worse."""
    told = [
        f"{name} is {statistics.median(values):.3f} in the median."
        for name, values in ratios(found).items()
        if statistics.median(values) > 1 + TOLERANCE
    ]
    mid_s = {name: sum(one.mid_s for one in heard.listened) for name, heard in found.items()}
    # A block of the device more or less is no other silence.
    if mid_s[TUNED] > mid_s[DEFAULTS] + 0.02:
        told.append(
            f"Silence inside of phrases is {mid_s[TUNED]:.2f} s, with the defaults "
            f"{mid_s[DEFAULTS]:.2f} s."
        )
    return told


def rows(found: Mapping[str, Heard]) -> list[Row]:
    """A row for each text and contender: medians."""
    made: list[Row] = []
    for chars in sorted({chars for heard in found.values() for chars in heard.chars}):
        for name, heard in found.items():
            places = [n for n, own in enumerate(heard.chars) if own == chars]
            had = [heard.listened[n] for n in places]
            made.append(
                {
                    "settings": name,
                    "chars": chars,
                    "first sound ms": round(1000 * statistics.median(o.start_s for o in had)),
                    "in hand ms": round(1000 * statistics.median(o.margin_s for o in had)),
                    "holes in phrases": sum(one.mid for one in had),
                    "their ms": round(1000 * sum(one.mid_s for one in had)),
                    "rtf": round(statistics.median(heard.rtf[n] for n in places), 3),
                }
            )
    return made
