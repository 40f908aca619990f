"""How the vocoder's tensors lie over the samples. Core.

A column of features is 300 samples; stage one makes ten rows of it; the harmonic source has sixty
steps a column, and one more at the end.
"""

from __future__ import annotations

COLUMN_SAMPLES, COLUMN_STEPS, COLUMN_ROWS = 300, 60, 10

#: Columns on either side that matter to stage one and to stage two. With them, and the statistics
#: of the whole segment, windows put together are the whole segment's audio to 105 dB (measured);
#: one column less is 75 dB in stage one and 65 dB in stage two.
CONTEXT_ONE, CONTEXT_TWO = 6, 2
