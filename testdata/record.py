"""Records what PyTorch computes, for tests that run without Python.

    python testdata/record.py ops        # writes ops.bin.gz
    python testdata/record.py more       # writes more.bin.gz
    python testdata/record.py volumes    # writes volumes.bin.gz
    python testdata/record.py linalg     # writes linalg.bin.gz
    python testdata/record.py training   # writes training.bin.gz

recorder.py says how samples are made and written; ops.py, kinks.py, more.py,
volumes.py, linalg.py and training.py hold them. The version of PyTorch is in the files.
"""

import os
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    for what in sys.argv[1:] or ["ops", "more", "volumes", "linalg", "training"]:
        if what in ("ops", "more", "volumes"):
            import recorder
            import ops, kinks  # noqa: F401  fill the table

            ends = [len(recorder.OPS)]
            import more  # noqa: F401

            ends.append(len(recorder.OPS))
            import volumes  # noqa: F401

            # A module that is here already has filled the table before.
            recorder.ENDS = ends = getattr(recorder, "ENDS", [0] + ends + [len(recorder.OPS)])
            at = ("ops", "more", "volumes").index(what)
            recorder.record_ops(os.path.join(HERE, what + ".bin.gz"), recorder.OPS[ends[at]:ends[at + 1]])
        elif what == "linalg":
            import recorder

            before = len(recorder.OPS)
            import linalg  # noqa: F401

            recorder.record_ops(os.path.join(HERE, "linalg.bin.gz"), recorder.OPS[before:])
        elif what == "training":
            import training

            training.record(os.path.join(HERE, "training.bin.gz"))
        else:
            sys.exit(f"record.py: ops, more, volumes, linalg or training, not {what}")
