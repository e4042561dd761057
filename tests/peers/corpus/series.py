"""Checkpoints of a real training run in NumPy: a small language model of words, with Adam.

The model predicts a word of Python's standard library from the `CONTEXT` words before it. It has 3.4 million weights
in float32. The same NumPy, Python and processor give the same bits.
"""

import collections
import functools
import pathlib
import re
import sysconfig

import numpy as np

from .changes import SEED
from .layout import checkpoint
from .rounding import to_bytes

VOCABULARY, NEW_WORDS = 4096, 8
CONTEXT, WIDTH, HIDDEN = 8, 128, 512
BATCH = 128
LEARNING_RATE, LAST_RATE = 2e-3, 1e-4
BETAS, EPSILON = (0.9, 0.999), 1e-8
# The share of the old average in the moving average of the weights, after each step.
DECAY = 0.98
STEPS = (120, 140, 160)
# Steps of training after the vocabulary has grown.
MORE_STEPS = 20


@functools.cache
def _words():
    """The text as numbers of words, the most frequent word first."""
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    text = "".join(path.read_text("utf-8", "replace") for path in sorted(folder.glob("*.py")))
    words = re.findall(r"\w+|\s+|[^\w\s]", text)
    counted = sorted(collections.Counter(words).items(), key=lambda word: (-word[1], word[0]))
    number = {word: index for index, (word, _) in enumerate(counted)}
    return np.array([number[word] for word in words])


class Run:
    """A model in training: `weights`, their Adam moments, and the moving average of the weights."""

    def __init__(self):
        self._random = np.random.default_rng(SEED)
        normal = lambda *shape: (self._random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
        self.weights = {
            "embeddings.weight": normal(VOCABULARY, WIDTH),
            "layers.0.weight": normal(HIDDEN, CONTEXT * WIDTH),
            "layers.0.bias": np.zeros(HIDDEN, np.float32),
            "layers.1.weight": normal(HIDDEN, HIDDEN),
            "layers.1.bias": np.zeros(HIDDEN, np.float32),
            "head.weight": normal(VOCABULARY, HIDDEN),
        }
        self.average = dict(self.weights)
        zeros = lambda: {name: np.zeros_like(array) for name, array in self.weights.items()}
        self.first, self.second, self.step = zeros(), zeros(), 0

    def grow(self):
        """Adds new words, whose rows begin as the mean of the others with some noise."""
        for name in ("embeddings.weight", "head.weight"):
            for arrays in (self.weights, self.average, self.first, self.second):
                rows = np.zeros((NEW_WORDS, arrays[name].shape[1]), np.float32)
                if arrays is self.weights or arrays is self.average:
                    noise = self._random.standard_normal(rows.shape).astype(np.float32)
                    rows += arrays[name].mean(axis=0) + np.float32(0.01) * noise
                arrays[name] = np.concatenate([arrays[name], rows])

    def _gradients(self):
        """The gradients of the mean cross entropy over a random batch."""
        weights, words = self.weights, _words()
        starts = self._random.integers(0, len(words) - CONTEXT, BATCH)
        batch = words[starts[:, None] + np.arange(CONTEXT + 1)]
        # The last word stands for all that are not in the vocabulary.
        batch = np.minimum(batch, len(weights["head.weight"]) - 1)
        before, after = batch[:, :CONTEXT], batch[:, CONTEXT]
        states = [weights["embeddings.weight"][before].reshape(BATCH, -1)]
        for layer in range(2):
            sums = states[-1] @ weights[f"layers.{layer}.weight"].T + weights[f"layers.{layer}.bias"]
            states.append(np.maximum(sums, 0))
        scores = states[-1] @ weights["head.weight"].T
        change = np.exp(scores - scores.max(axis=1, keepdims=True))
        change /= change.sum(axis=1, keepdims=True)
        change[np.arange(BATCH), after] -= 1
        change /= np.float32(BATCH)
        found = {"head.weight": change.T @ states[2]}
        change = change @ weights["head.weight"]
        for layer in (1, 0):
            change = change * (states[layer + 1] > 0)
            found[f"layers.{layer}.weight"] = change.T @ states[layer]
            found[f"layers.{layer}.bias"] = change.sum(axis=0)
            change = change @ weights[f"layers.{layer}.weight"]
        found["embeddings.weight"] = np.zeros_like(weights["embeddings.weight"])
        np.add.at(found["embeddings.weight"], before, change.reshape(BATCH, CONTEXT, WIDTH))
        return found

    def train(self, last):
        """Trains until step `last`; the learning rate decreases linearly until the last step of `STEPS`."""
        while self.step < last:
            self.step += 1
            done = min(self.step / STEPS[-1], 1)
            rate = LEARNING_RATE + done * (LAST_RATE - LEARNING_RATE)
            correction = [1 - beta**self.step for beta in BETAS]
            for name, gradient in self._gradients().items():
                self.first[name] += np.float32(1 - BETAS[0]) * (gradient - self.first[name])
                self.second[name] += np.float32(1 - BETAS[1]) * (gradient * gradient - self.second[name])
                size = np.sqrt(self.second[name] / np.float32(correction[1])) + np.float32(EPSILON)
                self.weights[name] = self.weights[name] - np.float32(rate / correction[0]) * self.first[name] / size
                change = self.weights[name] - self.average[name]
                self.average[name] = self.average[name] + np.float32(1 - DECAY) * change

    def moments(self):
        """Name -> array of the optimizer, named by the number of the weight as in PyTorch."""
        kinds = {"exp_avg": self.first, "exp_avg_sq": self.second}
        return {f"state.{i}.{kind}": kinds[kind][name].copy() for i, name in enumerate(self.weights) for kind in kinds}


def _file(arrays):
    return checkpoint([(name, "F32", array.shape, to_bytes(array, "F32")) for name, array in arrays.items()])


@functools.cache
def checkpoints():
    """Step -> (weights, moments), as a safetensors file and as named arrays; "average" and "grown" -> a safetensors
    file of the moving average after the last step, and of the model trained further with a larger vocabulary."""
    run, found = Run(), {}
    for step in STEPS:
        run.train(step)
        found[step] = _file(run.weights), run.moments()
    found["average"] = _file(run.average)
    run.grow()
    run.train(STEPS[-1] + MORE_STEPS)
    return found | {"grown": _file(run.weights)}
