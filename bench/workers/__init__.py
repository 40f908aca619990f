"""One process for each engine that is compared; `protocol.py` says how they are spoken to."""
