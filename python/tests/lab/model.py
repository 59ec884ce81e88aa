"""The model (12 characters of 12 numbers each, 128 ReLU, a residual 128 ReLU, 64 classes) and AdamW, all in f32."""

import math

import numpy as np

from . import text

WIDTH, EMBEDDED = 128, 12
SHAPES = {
    "embedding": (text.CLASSES, EMBEDDED),
    "w1": (text.CONTEXT * EMBEDDED, WIDTH),
    "b1": (WIDTH,),
    "w2": (WIDTH, WIDTH),
    "b2": (WIDTH,),
    "w3": (WIDTH, text.CLASSES),
    "b3": (text.CLASSES,),
}
SIZE = sum(int(np.prod(shape)) for shape in SHAPES.values())


def named(flat):
    """Returns views of the array with all parameters."""
    found, begin = {}, 0
    for name, shape in SHAPES.items():
        end = begin + int(np.prod(shape))
        found[name] = flat[begin:end].reshape(shape)
        begin = end
    return found


def initial(seed):
    flat = np.zeros(SIZE, np.float32)
    dice = np.random.default_rng(seed)
    for part in named(flat).values():
        if part.ndim == 2:
            part[:] = dice.standard_normal(part.shape) / math.sqrt(part.shape[0])
    named(flat)["embedding"][:] *= 0.3 * math.sqrt(text.CLASSES)
    return flat


class Model:
    def __init__(self, flat):
        self.flat = flat
        self.gradient = np.zeros_like(flat)
        self.parts = named(flat)
        self._gradients = named(self.gradient)
        self._unit = np.eye(text.CLASSES, dtype=np.float32)

    def _forward(self, contexts):
        p = self.parts
        embedded = p["embedding"][contexts].reshape(len(contexts), -1)
        first = np.maximum(embedded @ p["w1"] + p["b1"], 0)
        second = np.maximum(first @ p["w2"] + p["b2"], 0)
        top = first + second
        logits = top @ p["w3"] + p["b3"]
        logits -= logits.max(1, keepdims=True)
        return embedded, first, second, top, logits

    def loss(self, contexts, wanted):
        *_, logits = self._forward(contexts)
        picked = logits[np.arange(len(wanted)), wanted]
        return float(np.mean(np.log(np.exp(logits).sum(1)) - picked))

    def factors(self, contexts, wanted, parts=1):
        """Returns the input of each matrix, and the gradient of its output, of each example: their outer product is the
        gradient of the example's loss, divided by `parts`."""
        p = self.parts
        embedded, first, second, top, logits = self._forward(contexts)
        above = np.exp(logits)
        above /= above.sum(1, keepdims=True)
        above[np.arange(len(wanted)), wanted] -= 1
        above /= parts
        into_top = above @ p["w3"].T
        into_second = into_top * (second > 0)
        into_first = (into_top + into_second @ p["w2"].T) * (first > 0)
        return {"w1": (embedded, into_first), "w2": (first, into_second), "w3": (top, above)}

    def backward(self, contexts, wanted):
        """Computes the gradient of the mean loss in self.gradient."""
        p, g = self.parts, self._gradients
        factors = self.factors(contexts, wanted, len(wanted))
        for layer, (into, above) in factors.items():
            np.matmul(into.T, above, out=g[layer])
            above.sum(0, out=g["b" + layer[1:]])
        into_embedded = (factors["w1"][1] @ p["w1"].T).reshape(-1, EMBEDDED)
        np.matmul(self._unit[contexts.ravel()].T, into_embedded, out=g["embedding"])

    def validate(self):
        return self.loss(*text.validation())


class AdamW:
    """AdamW with warm-up, a cosine down to a tenth, and gradients clipped to length 1."""

    def __init__(self, model, steps, rate=2e-3, decay=0.1, warm_up=50):
        self._model, self._steps = model, steps
        self._rate, self._decay, self._warm_up = rate, decay, warm_up
        self._first, self._second = np.zeros_like(model.flat), np.zeros_like(model.flat)
        self._count = 0

    def share_of(self, step):
        """Returns the rate of a step, relative to the highest."""
        if step < self._warm_up:
            return (step + 1) / self._warm_up
        along = (step - self._warm_up) / max(1, self._steps - self._warm_up)
        return 0.1 + 0.45 * (1 + math.cos(math.pi * min(1.0, along)))

    def step(self, step):
        """Makes one step with model.gradient, at the rate of the run's step of that number."""
        gradient, flat = self._model.gradient, self._model.flat
        length = float(np.sqrt(np.dot(gradient, gradient)))
        if length > 1:
            gradient *= np.float32(1 / length)
        self._count += 1
        self._first += np.float32(0.1) * (gradient - self._first)
        self._second += np.float32(0.05) * (gradient * gradient - self._second)
        rate = self._rate * self.share_of(step)
        flat *= np.float32(1 - rate * self._decay)
        size = np.sqrt(self._second * np.float32(1 / (1 - 0.95**self._count))) + np.float32(1e-8)
        flat -= np.float32(rate / (1 - 0.9**self._count)) * self._first / size


class Worker:
    """One of several workers, with its part of the text. Trains in place."""

    def __init__(self, number, workers, seed, steps):
        self.model = Model(initial(seed))
        self._optimizer = AdamW(self.model, steps)
        self._where = number, workers, seed

    def train(self, step, count):
        for at, batch in enumerate(text.batches(*self._where, step, count), step):
            self.model.backward(*batch)
            self._optimizer.step(at)
