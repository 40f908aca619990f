"""The Kokoro-82M model: its files, and what runs them."""
