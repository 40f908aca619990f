"""OpenAI-shaped HTTP over the engine's port: POST /v1/audio/speech and what clients ask around it."""
