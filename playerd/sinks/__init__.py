"""Where sound goes: one interface (`base.Sink`), and the sinks that implement it."""
