"""The player of kokoro-live: takes speech from a `Speak` and plays it, in order, without holes."""
