"""Records what PyTorch computes, for tests that run without Python.

    python testdata/record.py ops        # writes ops.bin.gz
    python testdata/record.py training   # writes training.bin.gz

recorder.py says how samples are made and written; ops.py, kinks.py and
training.py hold them. The version of PyTorch is in the files.
"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    for what in sys.argv[1:] or ["ops", "training"]:
        if what == "ops":
            import ops, kinks  # noqa: F401  fill the table
            import recorder

            recorder.record_ops(os.path.join(HERE, "ops.bin.gz"))
        elif what == "training":
            import training

            training.record(os.path.join(HERE, "training.bin.gz"))
        else:
            sys.exit(f"record.py: ops or training, not {what}")
