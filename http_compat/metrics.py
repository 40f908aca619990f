"""The counters of this process. Core."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, ProcessCollector

REGISTRY = CollectorRegistry()

# Memory, processor time and open files, where the system tells (Linux). The engine has them too.
ProcessCollector(namespace="kokoro_live_http", registry=REGISTRY)

ANSWERS = Counter(
    "kokoro_live_http_answers",
    "Requests answered, by endpoint, status, and whether the answer was sent, broken off, or its "
    "client gone before it was; a status of 0: gone before there was one",
    ["endpoint", "status", "outcome"],
    registry=REGISTRY,
)


def answered(endpoint: str | None, status: int, outcome: str) -> None:
    """Counts an answer.

    Args:
        endpoint: name of the function that made it; None if there is none for the address.
        status: of HTTP; 0 if it did not come to that.
        outcome: `sent`, `broken` or `gone`.
    """
    ANSWERS.labels(endpoint=endpoint or "none", status=str(status), outcome=outcome).inc()
