"""Wyoming, the protocol of Home Assistant's voices, over the engine's port."""
