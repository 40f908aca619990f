"""The wire of kokoro-live: the `kokoro.v1` protocol and both WebSocket ends of it."""
