"""Who goes first: in processes of their own, for a priority cannot always be taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from playerd import priority

ROOT = Path(__file__).parent.parent.parent
linux = pytest.mark.skipif(
    sys.platform != "linux" or os.getpriority(os.PRIO_PROCESS, 0) != 0,
    reason="looks at Linux's threads, which must not be niced already",
)

#: a thread that was there before; then the nice values of all threads
THREADS = """
import os, threading
from pathlib import Path
def nices():
    return {os.getpriority(os.PRIO_PROCESS, int(t.name)) for t in Path("/proc/self/task").iterdir()}
leave = threading.Event()
threading.Thread(target=leave.wait).start()
"""

RAISE_PROCESS = f"""{THREADS}
from playerd.priority import raise_process
print(raise_process(), *nices())
print(raise_process(), *nices())
leave.set()
"""

RAISE_THREAD = """
import os, threading
from playerd.priority import raise_thread
def audio():
    how = raise_thread()
    policy = os.sched_getscheduler(0)
    nice = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    print(how, policy == os.SCHED_RR | os.SCHED_RESET_ON_FORK, nice)
    print(raise_thread() == how)
thread = threading.Thread(target=audio)
thread.start()
thread.join()
print(os.sched_getscheduler(0) == os.SCHED_OTHER, os.getpriority(os.PRIO_PROCESS, 0))
"""

GIVE_WAY = f"""{THREADS}
import sys
from wsproto_api.__main__ import give_way
os.nice(int(sys.argv[1]))
give_way(int(sys.argv[2]))
print(*nices())
leave.set()
"""


def child(code: str, *args: str, privileged: bool = True) -> list[str]:
    """Runs code in a process of its own; gives its lines.

    Without privileges it is what a user's program is: root lowers its own first.
    """
    if not privileged:
        # Only after the imports, for a folder of root's can be read by nobody else.
        imports = [line for line in code.splitlines() if line.startswith(("import", "from"))]
        drop = "os.geteuid() or os.setresuid(65534, 65534, 65534)"
        code = "\n".join([*imports, drop, code])
    done = subprocess.run(
        [sys.executable, "-c", code, *args],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def may_raise() -> bool:
    """Whether this process may lower a nice value."""
    done = subprocess.run([sys.executable, "-c", "import os; os.nice(-11)"], capture_output=True)
    return done.returncode == 0


@linux
def test_a_process_that_may_goes_first_with_all_its_threads() -> None:
    if not may_raise():
        pytest.skip("this user may not raise a priority; root may")
    assert child(RAISE_PROCESS) == ["True -11", "True -11"]


@linux
def test_a_process_that_may_not_stays_as_it_is() -> None:
    assert child(RAISE_PROCESS, privileged=False) == ["False 0", "False 0"]


@linux
def test_the_audio_thread_alone_goes_first() -> None:
    if not may_raise():
        pytest.skip("this user may not raise a priority; root may")
    raised, again, main = child(RAISE_THREAD)
    # A control group may have no time for real-time threads, even for root.
    assert raised in ("real-time True 0", "nice False -11")
    assert again == "True"
    assert main == "True 0"


@linux
def test_an_audio_thread_that_may_not_stays_as_it_is() -> None:
    assert child(RAISE_THREAD, privileged=False) == ["no False 0", "True", "True 0"]


@pytest.mark.parametrize(("answer", "how"), [(0, "interactive"), (1, "no")])
def test_macos_is_asked_for_the_quality_of_service(
    monkeypatch: pytest.MonkeyPatch, answer: int, how: str
) -> None:
    asked: list[tuple[int, int]] = []

    def qos(quality: int, relative: int) -> int:
        asked.append((quality, relative))
        return answer

    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(priority, "_qos", qos)
    assert priority.raise_thread() == how
    assert asked == [(0x21, 0)]


def test_a_mac_without_that_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(priority, "_qos", None)
    assert priority.raise_thread() == "no"


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS has the call")
def test_the_call_of_macos_is_not_elsewhere() -> None:
    assert priority._load_qos() is None


@linux
@pytest.mark.parametrize(
    ("before", "setting", "after"),
    [
        ("0", "10", {10}),
        ("3", "19", {19}),
        ("0", "0", {0}),
        ("15", "10", {0, 15}),  # as far already: left alone, with the thread that is not
    ],
)
@pytest.mark.parametrize("privileged", [True, False])  # to give way needs no privilege
def test_the_engine_gives_way_with_all_its_threads(
    before: str, setting: str, after: set[int], privileged: bool
) -> None:
    (line,) = child(GIVE_WAY, before, setting, privileged=privileged)
    assert set(map(int, line.split())) == after
