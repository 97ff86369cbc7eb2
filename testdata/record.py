"""Records what PyTorch computes, for tests that run without Python.

    python testdata/record.py ops        # writes ops.bin.gz
    python testdata/record.py more       # writes more.bin.gz
    python testdata/record.py training   # writes training.bin.gz

recorder.py says how samples are made and written; ops.py, kinks.py, more.py and
training.py hold them. The version of PyTorch is in the files.
"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    for what in sys.argv[1:] or ["ops", "more", "training"]:
        if what in ("ops", "more"):
            import recorder
            import ops, kinks  # noqa: F401  fill the table

            first = len(recorder.OPS)
            import more  # noqa: F401

            first = getattr(more, "FIRST", first)
            more.FIRST = first
            recorder.record_ops(os.path.join(HERE, what + ".bin.gz"), recorder.OPS[:first] if what == "ops" else recorder.OPS[first:])
        elif what == "training":
            import training

            training.record(os.path.join(HERE, "training.bin.gz"))
        else:
            sys.exit(f"record.py: ops, more or training, not {what}")
