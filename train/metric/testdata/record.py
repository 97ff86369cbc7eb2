"""Records what scikit-learn computes, for tests that run without Python.

    python train/metric/testdata/record.py   # writes sklearn.json beside it

Scores are multiples of a power of two, so that float32 holds them exactly.
"""

import json
import os
import warnings

import numpy as np
import sklearn
from sklearn import metrics as m

warnings.simplefilter("ignore")  # of classes without examples, whose value is tested
rng = np.random.default_rng(7)
sets = []


def grid(x, step):
    return np.round(x / step) * step


def add(name, output, target, values, table=None):
    sets.append({"name": name, "shape": list(output.shape), "output": output.ravel().tolist(), "targets": list(target.shape), "target": target.ravel().tolist(),
                 "values": {k: float(v) for k, v in values.items()}, "table": None if table is None else table.tolist()})


def classes(name, n, c, present):
    """Scores of c classes; only those in present are targets."""
    logits = grid(rng.normal(size=(n, c)) * 2, 2**-20)
    target = rng.choice(present, size=n)
    logits[np.arange(n), target] += 1.5
    got, labels = logits.argmax(1), np.arange(c)
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    values = {"accuracy": m.accuracy_score(target, got), "perplexity": np.exp(m.log_loss(target, p, labels=labels))}
    for k in 2, 3:
        values[f"top_{k}_accuracy"] = m.top_k_accuracy_score(target, logits, k=k, labels=labels)
    for average in "macro", "micro", "weighted":
        f = dict(average=average, zero_division=0)
        values[f"{average}_precision"] = m.precision_score(target, got, **f)
        values[f"{average}_recall"] = m.recall_score(target, got, **f)
        values[f"{average}_f1"] = m.f1_score(target, got, **f)
    add(name, logits, target, values, m.confusion_matrix(target, got, labels=labels))


def binary(name, n, step, columns, share=0.4):
    """Logits of class 1, or scores of both classes. A large step makes ties."""
    target = (rng.random(n) < share).astype(int)
    logits = grid(rng.normal(size=n) * 2 + target * 1.5, step)
    output = logits.reshape(n, 1)
    if columns == 2:
        other = grid(rng.normal(size=n), step)
        output = np.stack([other, logits], 1)
        logits = logits - other
    got = (logits > 0).astype(int)
    add(name, output, target, {
        "accuracy": m.accuracy_score(target, got), "auc": m.roc_auc_score(target, logits), "binary_precision": m.precision_score(target, got),
        "binary_recall": m.recall_score(target, got), "binary_f1": m.f1_score(target, got)}, m.confusion_matrix(target, got))


def regression(name, n, outputs, offset, scale):
    target = grid(rng.normal(size=(n, outputs)) * scale + offset, 2**-8)
    output = grid(target + rng.normal(size=(n, outputs)) * scale / 3, 2**-8)
    add(name, output, target, {
        "mae": m.mean_absolute_error(target, output), "mse": m.mean_squared_error(target, output), "rmse": np.sqrt(m.mean_squared_error(target, output)),
        "r2": m.r2_score(target, output)})


classes("five classes", 137, 5, [0, 1, 2, 3, 4])
classes("two classes never occur", 61, 7, [0, 2, 3, 4, 6])
classes("one example", 1, 4, [2])
binary("a logit", 211, 2**-20, 1)
binary("a logit with many ties", 300, 0.5, 1)
binary("scores of two classes", 97, 2**-18, 2)
binary("few of class 1", 400, 2**-18, 1, 0.02)
regression("one output", 83, 1, 0, 1)
regression("three outputs far from zero", 59, 3, 1000, 8)

here = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(here, "sklearn.json"), "w") as f:
    json.dump({"scikit-learn": sklearn.__version__, "sets": sets}, f, separators=(",", ":"))
    f.write("\n")
