"""An engine that is loaded, stands still, is set going again or given up; in virtual time."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from structlog.testing import capture_logs
from trio.testing import MockClock

from engine import metrics
from engine.config import Settings
from engine.errors import EngineError, NotReady, SetupError, SynthesisFailed
from engine.keeper import GRACE_S, RESET_S, STUCK_S, Hangs, Keeper
from engine.report import CacheSize, Cost, Costs, Memory, SelfBench
from engine.request import (
    Done,
    Event,
    LiveRequest,
    ModelInfo,
    Opened,
    SpeechRequest,
    Stream,
    VoiceInfo,
)
from engine.stall import LOOK_S, Work
from engine.tally import Tally
from engine.turns import STOOD_STILL, Turns
from tests.support.tone import ToneVoice, told

#: letters of a text that the fake's calls go by
QUICK, HANGS, DEAF = "quick", "hangs", "deaf"


class Call:
    """A call into a model, whose thread is a task here: virtual time waits for no real one.

    Args:
        manner: `hangs` until it is stopped; `deaf` hangs on after that.
        released: ends those that are deaf.
    """

    def __init__(self, manner: str, released: trio.Event) -> None:
        self.ended = released if manner == DEAF else trio.Event()
        self._manner = manner
        if manner not in (HANGS, DEAF):
            self.ended.set()

    def run(self) -> None:
        if self._manner == HANGS:
            raise SynthesisFailed("The model failed.")

    def stop(self) -> None:
        if self._manner == HANGS:
            self.ended.set()


async def in_a_thread(run: Callable[[], None], *, limiter: trio.CapacityLimiter) -> None:
    """As trio does: whoever waits for it waits to its end."""
    call = getattr(run, "__self__", None)
    assert isinstance(call, Call)
    with trio.CancelScope(shield=True):
        async with limiter:
            await call.ended.wait()
    return run()


class NoUpkeep:
    """Nothing is done beside speaking."""

    costs = Costs(Cost(2.0, 1.5, True), Cost(3.5, 3.5))
    memory = Memory(shrunk=1, caches=(CacheSize("audio", 5, 10, "bytes"),))
    selfbench = SelfBench(every="daily", runs=0)

    async def run(self) -> None:
        await trio.sleep_forever()


class Fake:
    """What is kept: each word of a text is a call."""

    model: ModelInfo = ToneVoice.model
    voices: tuple[VoiceInfo, ...] = ToneVoice.voices
    voices_hash: str = ToneVoice.voices_hash
    fallbacks: tuple[str, ...] = ("Something else speaks.",)
    provider_why: str = "It is a fake."

    def __init__(self) -> None:
        self.tally = Tally()
        self.upkeep = NoUpkeep()
        self.active = 0
        self.released = trio.Event()
        self.log: list[str] = []
        self.reloads = 0
        self.reload_s = 5.0
        self.reload_failure: EngineError | None = None
        self._turns = Turns()
        self.reading = Work("text")

    @property
    def works(self) -> tuple[Work, Work]:
        return self._turns.work, self.reading

    @asynccontextmanager
    async def __call__(self, request: SpeechRequest | LiveRequest, /) -> AsyncIterator[Stream]:
        assert isinstance(request, SpeechRequest)
        self.active += 1
        try:
            async with aclosing(self._events(request.text)) as events:
                yield told(events)
        finally:
            self.active -= 1

    async def _events(self, text: str) -> AsyncGenerator[Event]:
        yield Opened(voice="af_heart", lang="en-us", speed=1)
        for word in text.split():
            async with self._turns.turn(deadline_s=trio.current_time()):
                await self._turns.run(Call(word, self.released))
                await trio.sleep(1.0)
            self.log.append(word)
        yield Done(samples=0, audio_ms=0, chars=len(text), segments=1)

    def restart(self) -> None:
        self._turns.restart()

    async def reload(self) -> None:
        await trio.sleep(self.reload_s)
        if self.reload_failure is not None:
            raise self.reload_failure
        self.reloads += 1


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    monkeypatch.setattr(trio.to_thread, "run_sync", in_a_thread)
    return Fake()


def keeper_of(fake: Fake, settings: Settings) -> Keeper:
    async def load(warming: Callable[[], None]) -> Fake:
        warming()
        return fake

    return Keeper(settings, load)


@asynccontextmanager
async def kept(fake: Fake, settings: Settings) -> AsyncIterator[Keeper]:
    """A keeper at work; what hangs is let go at the end."""
    keeper = keeper_of(fake, settings)
    async with trio.open_nursery() as nursery:
        await nursery.start(keeper.run)
        try:
            yield keeper
        finally:
            fake.released.set()
            nursery.cancel_scope.cancel()


async def speak(keeper: Keeper, text: str, ends: dict[str, EngineError | None]) -> None:
    """Speaks to the end, and says how that came."""
    try:
        async with keeper(SpeechRequest(text=text)) as stream:
            async for _ in stream:
                pass
    except EngineError as error:
        ends[text] = error
    else:
        ends[text] = None


def stalls(work: str = "model") -> float:
    found = metrics.REGISTRY.get_sample_value("kokoro_live_stalls_total", {"work": work})
    return found or 0.0


def state_in_metrics() -> list[str]:
    (family,) = (f for f in metrics.REGISTRY.collect() if f.name == "kokoro_live_state")
    return [sample.labels["state"] for sample in family.samples if sample.value]


# --- loading -----------------------------------------------------------------------------------


async def test_it_says_how_far_it_is(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    async def load(warming: Callable[[], None]) -> Fake:
        await trio.sleep(10)
        warming()
        await trio.sleep(10)
        return fake

    keeper = Keeper(settings, load)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(keeper.run)
        for until_s, state in ((5, "loading"), (15, "warming"), (25, "ready")):
            await trio.sleep_until(until_s)
            report = keeper.report()
            assert report.state == state
            assert state_in_metrics() == [state]
            assert keeper.loaded.is_set() == (state == "ready")
            assert (report.model is not None) == (state == "ready")
            assert report.versions["onnxruntime"]
            if state != "ready":
                with pytest.raises(NotReady, match="loading"):
                    async with keeper(SpeechRequest(text=QUICK)):
                        pytest.fail("it was accepted")
                with pytest.raises(NotReady):
                    await keeper.reset()
                with pytest.raises(NotReady):
                    assert keeper.voices
        assert report.fallbacks == fake.fallbacks
        assert report.provider_why == fake.provider_why
        upkeep = fake.upkeep
        assert (report.costs, report.memory, report.selfbench) == (
            upkeep.costs,
            upkeep.memory,
            upkeep.selfbench,
        )
        nursery.cancel_scope.cancel()


async def test_what_cannot_be_loaded_is_an_error(
    settings: Settings, autojump_clock: MockClock
) -> None:
    async def load(warming: Callable[[], None]) -> Fake:
        raise SetupError("There is no model.")

    with pytest.raises(SetupError, match="no model"):
        await Keeper(settings, load).run()


# --- standing still ----------------------------------------------------------------------------


async def test_work_that_gets_on_is_no_stall(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    """However much there is: five streams, each call of a second, for minutes."""
    before, ends = stalls(), dict[str, EngineError | None]()
    async with kept(fake, settings) as keeper:
        async with trio.open_nursery() as nursery:
            for n in range(5):
                nursery.start_soon(speak, keeper, " ".join([f"{QUICK}{n}"] * 50), ends)
            await trio.sleep(60)
            assert keeper.report().state == "busy"
            assert keeper.report().queue == 4
        assert keeper.report().state == "ready"
    assert [*ends.values()] == [None] * 5
    assert stalls() == before


async def test_a_call_that_hangs_is_stopped_and_the_others_are_spoken(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    before, ends = stalls(), dict[str, EngineError | None]()
    with capture_logs() as logs:
        async with kept(fake, settings) as keeper, trio.open_nursery() as nursery:
            nursery.start_soon(speak, keeper, HANGS, ends)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(speak, keeper, QUICK, ends)
            await trio.sleep(settings.stall_s - 2 * LOOK_S)
            assert keeper.report().state == "busy"
            assert stalls() == before
            await trio.sleep(4 * LOOK_S)
            assert keeper.report().stalls == 1
            assert stalls() == before + 1
        report = keeper.report()
    failed = ends[HANGS]
    assert isinstance(failed, SynthesisFailed)
    assert failed.message == STOOD_STILL
    assert ends[QUICK] is None
    assert fake.log == [QUICK]
    assert report.state == "ready"
    assert [entry["event"] for entry in logs] == [
        "the engine stands still; it is set going again", "the engine gets on again"
    ]  # fmt: skip


async def test_nobody_is_let_in_while_it_stands_still(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    async with kept(fake, settings) as keeper, trio.open_nursery() as nursery:
        nursery.start_soon(speak, keeper, DEAF, ends)
        await trio.sleep(settings.stall_s + 3 * LOOK_S)
        report = keeper.report()
        assert (report.state, report.stalls) == ("stalled", 1)
        assert settings.stall_s <= report.quiet_s <= settings.stall_s + 3 * LOOK_S
        assert state_in_metrics() == ["stalled"]
        await speak(keeper, QUICK, ends)
        refused = ends[QUICK]
        assert isinstance(refused, NotReady)
        assert refused.retry_after_ms
        fake.released.set()  # in time
        await trio.sleep(3 * LOOK_S)
        await speak(keeper, QUICK, ends)
        assert ends == {DEAF: None, QUICK: None}


@pytest.mark.parametrize("work", ["model", "text"])
async def test_what_cannot_be_stopped_is_given_up(
    fake: Fake, settings: Settings, autojump_clock: MockClock, work: str
) -> None:
    """A call into the model that does not look at its flag, or G2P, which has none."""
    ends: dict[str, EngineError | None] = {}
    before = stalls(work)
    given_up_s: list[float] = []

    async def read() -> None:
        with fake.reading.asked():
            await trio.sleep_forever()

    async def watched(keeper: Keeper) -> None:
        with pytest.RaisesGroup(Hangs):
            await keeper.run()
        given_up_s.append(trio.current_time())
        fake.released.set()

    keeper = keeper_of(fake, settings)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched, keeper)
        await keeper.loaded.wait()
        began_s = trio.current_time()
        doing = partial(speak, keeper, DEAF, ends) if work == "model" else read
        nursery.start_soon(doing)
        await trio.sleep(settings.stall_s + GRACE_S + 5 * LOOK_S)
        nursery.cancel_scope.cancel()
    least_s = settings.stall_s + GRACE_S
    assert least_s <= given_up_s[0] - began_s <= least_s + 3 * LOOK_S
    assert stalls(work) == before + 1


async def test_the_time_is_a_setting(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    async with kept(fake, settings.model_copy(update={"stall_s": 3.0})) as keeper:
        await speak(keeper, HANGS, ends)
        assert trio.current_time() <= 3 + 3 * LOOK_S
        assert isinstance(ends[HANGS], SynthesisFailed)


async def test_a_turn_that_nobody_was_given_is_given_anew() -> None:
    """Should the lane ever forget to hand on: `restart` does it."""
    turns = Turns()
    turns._hand_on_soon = lambda: None  # type: ignore[method-assign]  # the fault
    got = trio.Event()

    async def ask() -> None:
        async with turns.turn(deadline_s=0.0):
            got.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert not got.is_set()
        assert turns.work.waiting == 1
        del turns._hand_on_soon
        turns.restart()
        await trio.testing.wait_all_tasks_blocked()
        assert got.is_set()


# --- a reset -----------------------------------------------------------------------------------


async def test_a_reset_of_an_engine_that_gets_on_loads_nothing(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    async with kept(fake, settings) as keeper, trio.open_nursery() as nursery:
        assert await keeper.reset() == "cancelled"
        nursery.start_soon(speak, keeper, HANGS, ends)
        await trio.sleep(STUCK_S / 2)
        began_s = trio.current_time()
        assert await keeper.reset() == "cancelled"
        assert trio.current_time() - began_s < 1
        assert keeper.report().state in ("ready", "busy")
        await speak(keeper, QUICK, ends)
    assert isinstance(ends[HANGS], SynthesisFailed)
    assert ends[QUICK] is None
    assert fake.reloads == 0


async def test_a_reset_of_one_that_stood_still_loads_the_model_anew(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    async with kept(fake, settings) as keeper, trio.open_nursery() as nursery:
        nursery.start_soon(speak, keeper, HANGS, ends)
        await trio.sleep(STUCK_S + 3 * LOOK_S)
        assert await keeper.reset() == "reloading"
        assert keeper.report().state == "warming"
        assert await keeper.reset() == "reloading"
        await speak(keeper, QUICK, ends)
        assert isinstance(ends[QUICK], NotReady)
        await trio.sleep(fake.reload_s + 1)
        assert (keeper.report().state, fake.reloads) == ("ready", 1)
        await speak(keeper, QUICK, ends)
        assert ends[QUICK] is None


async def test_a_model_that_cannot_be_loaded_anew_stays(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    fake.reload_failure = SetupError("The file is gone.")
    async with kept(fake, settings) as keeper, trio.open_nursery() as nursery:
        nursery.start_soon(speak, keeper, HANGS, ends)
        await trio.sleep(STUCK_S + 3 * LOOK_S)
        assert await keeper.reset() == "reloading"
        await trio.sleep(fake.reload_s + 1)
        await speak(keeper, QUICK, ends)
        assert ends[QUICK] is None


async def test_a_reset_that_does_not_help_ends_the_process(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    given_up_s: list[float] = []
    keeper = keeper_of(fake, settings)

    async def watched() -> None:
        with pytest.RaisesGroup(Hangs):
            await keeper.run()
        given_up_s.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watched)
        await keeper.loaded.wait()
        nursery.start_soon(speak, keeper, DEAF, ends)
        await trio.sleep(1)
        began_s = trio.current_time()
        assert await keeper.reset() == "restarting"
        answered_s = trio.current_time()
        assert answered_s - began_s == pytest.approx(RESET_S, abs=0.1)
        assert not given_up_s, "the answer could not be sent"
        await trio.sleep(2 * LOOK_S)
        assert given_up_s
        fake.released.set()


async def test_a_reload_that_hangs_is_noticed(
    fake: Fake, settings: Settings, autojump_clock: MockClock
) -> None:
    ends: dict[str, EngineError | None] = {}
    fake.reload_s = 1e9
    keeper = keeper_of(fake, settings)
    async with trio.open_nursery() as nursery:

        async def reset() -> None:
            await keeper.loaded.wait()
            nursery.start_soon(speak, keeper, HANGS, ends)
            await trio.sleep(STUCK_S + 3 * LOOK_S)
            assert await keeper.reset() == "reloading"

        nursery.start_soon(reset)
        with trio.fail_after(STUCK_S + settings.stall_s + GRACE_S + 10), pytest.RaisesGroup(Hangs):
            await keeper.run()
