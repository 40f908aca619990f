"""From original text to phonemes, in segments that know their characters."""
