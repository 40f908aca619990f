"""`python -m bench.roads NAME`: runs one of the experiments."""

from __future__ import annotations

from bench.roads import app

if __name__ == "__main__":
    app()
