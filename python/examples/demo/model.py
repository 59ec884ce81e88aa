"""A small transformer that predicts the next byte, and AdamW, in numpy with hand-written gradients.

The input at each position is the sum of three embeddings: of its byte, of the previous byte and of its position. Then
follow blocks of attention and a layer with ReLU, each after a root-mean-square norm. The output is a score for each of
the 256 bytes.
"""

from dataclasses import dataclass

import numpy as np

BYTES = 256
NORM_EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    width: int = 64
    heads: int = 4
    blocks: int = 2
    context: int = 64

    def parameters(self):
        """Yields (name, shape, scale of the initial values) in memory order."""
        width, inner = self.width, 4 * self.width
        yield "byte", (BYTES, width), 0.5
        yield "byte_before", (BYTES, width), 0.5
        yield "place", (self.context, width), 0.1
        for block in range(self.blocks):
            yield f"{block}.norm", (width,), None
            yield f"{block}.query_key_value", (width, 3 * width), width**-0.5
            yield f"{block}.out", (width, width), 0.5 * width**-0.5
            yield f"{block}.inner_norm", (width,), None
            yield f"{block}.inner", (width, inner), width**-0.5
            yield f"{block}.outer", (inner, width), 0.5 * inner**-0.5
        yield "norm", (width,), None
        yield "score", (width, BYTES), width**-0.5


class Transformer:
    """All parameters are in one array (`flat`), and all gradients in another (`flat_gradient`). The dictionaries
    contain views of them."""

    def __init__(self, shape=Shape(), seed=0, dtype=np.float32):
        self.shape = shape
        layout = list(shape.parameters())
        size = sum(int(np.prod(extents)) for _, extents, _ in layout)
        self.flat, self.flat_gradient = np.zeros(size, dtype), np.zeros(size, dtype)
        self.params, self.gradients = {}, {}
        random = np.random.default_rng(seed)
        begin = 0
        for name, extents, scale in layout:
            end = begin + int(np.prod(extents))
            self.params[name] = self.flat[begin:end].reshape(extents)
            self.gradients[name] = self.flat_gradient[begin:end].reshape(extents)
            self.params[name][...] = 1 if scale is None else scale * random.standard_normal(extents)
            begin = end
        context = shape.context
        self._future = np.where(np.arange(context)[:, None] < np.arange(context)[None, :], -1e9, 0).astype(dtype)

    @property
    def size(self):
        return self.flat.size

    def loss(self, text):
        """Returns the loss in nats per byte. text: bytes of shape (batch, up to context + 1), each of which is
        predicted from the previous ones."""
        scores, _ = self._forward(text[:, :-1], keep=False)
        return float(_cross_entropy(scores, text[:, 1:])[0])

    def train(self, text):
        """Returns the loss, and leaves the gradients in `gradients`."""
        scores, kept = self._forward(text[:, :-1], keep=True)
        loss, odds = _cross_entropy(scores, text[:, 1:])
        self._backward(_subtract_truth(odds, text[:, 1:]), text[:, :-1], kept)
        return float(loss)

    def next_odds(self, text):
        """Returns the probabilities of the byte that follows the text."""
        scores, _ = self._forward(text[None, -self.shape.context :], keep=False)
        return _softmax(scores[0, -1])

    def _forward(self, text, keep):
        params, kept = self.params, []
        x = params["byte"][text] + params["place"][: text.shape[1]]
        x[:, 1:] += params["byte_before"][text[:, :-1]]
        for block in range(self.shape.blocks):
            for part in (self._attend, self._think):
                change, state = part(block, x)
                x = x + change
                if keep:
                    kept.append(state)
        normed, state = _norm(x, params["norm"])
        return normed @ params["score"], (*kept, (state, normed))

    def _attend(self, block, x):
        params = self.params
        normed, norm_state = _norm(x, params[f"{block}.norm"])
        query, key, value = self._split(normed @ params[f"{block}.query_key_value"])
        scale = x.dtype.type(query.shape[-1] ** -0.5)
        length = x.shape[1]
        weights = _softmax(query @ key.swapaxes(-1, -2) * scale + self._future[:length, :length])
        seen = self._join(weights @ value)
        return seen @ params[f"{block}.out"], (norm_state, normed, query, key, value, weights, seen, scale)

    def _think(self, block, x):
        params = self.params
        normed, norm_state = _norm(x, params[f"{block}.inner_norm"])
        inner = np.maximum(normed @ params[f"{block}.inner"], 0)
        return inner @ params[f"{block}.outer"], (norm_state, normed, inner)

    def _backward(self, back, text, kept):
        gradients = self.gradients
        norm_state, normed = kept[-1]
        gradients["score"][...] = _outer(normed, back)
        back = back @ self.params["score"].T
        back, gradients["norm"][...] = _norm_back(back, self.params["norm"], norm_state)
        for block in reversed(range(self.shape.blocks)):
            back = back + self._think_back(block, back, kept[2 * block + 1])
            back = back + self._attend_back(block, back, kept[2 * block])
        _scatter(gradients["byte"], text, back)
        _scatter(gradients["byte_before"], text[:, :-1], back[:, 1:])
        gradients["place"][...] = 0
        gradients["place"][: text.shape[1]] = back.sum(0)

    def _think_back(self, block, back, state):
        params, gradients = self.params, self.gradients
        norm_state, normed, inner = state
        gradients[f"{block}.outer"][...] = _outer(inner, back)
        back = (back @ params[f"{block}.outer"].T) * (inner > 0)
        gradients[f"{block}.inner"][...] = _outer(normed, back)
        back = back @ params[f"{block}.inner"].T
        back, gradients[f"{block}.inner_norm"][...] = _norm_back(back, params[f"{block}.inner_norm"], norm_state)
        return back

    def _attend_back(self, block, back, state):
        params, gradients = self.params, self.gradients
        norm_state, normed, query, key, value, weights, seen, scale = state
        gradients[f"{block}.out"][...] = _outer(seen, back)
        back = self._heads(back @ params[f"{block}.out"].T)
        back_value = weights.swapaxes(-1, -2) @ back
        back_weights = back @ value.swapaxes(-1, -2)
        back_scores = weights * (back_weights - (back_weights * weights).sum(-1, keepdims=True)) * scale
        back_query, back_key = back_scores @ key, back_scores.swapaxes(-1, -2) @ query
        back = np.concatenate([self._join(part) for part in (back_query, back_key, back_value)], -1)
        gradients[f"{block}.query_key_value"][...] = _outer(normed, back)
        back = back @ params[f"{block}.query_key_value"].T
        back, gradients[f"{block}.norm"][...] = _norm_back(back, params[f"{block}.norm"], norm_state)
        return back

    def _heads(self, x):
        """Reshapes (batch, place, width) to (batch, head, place, width of a head)."""
        return x.reshape(*x.shape[:2], self.shape.heads, -1).swapaxes(1, 2)

    def _split(self, x):
        return [self._heads(part) for part in np.split(x, 3, -1)]

    def _join(self, x):
        return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def _norm(x, gain):
    scale = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + x.dtype.type(NORM_EPSILON))
    unit = x * scale
    return unit * gain, (unit, scale)


def _norm_back(back, gain, state):
    unit, scale = state
    gain_back = (back * unit).sum((0, 1))
    back = back * gain
    return (back - unit * (back * unit).mean(-1, keepdims=True)) * scale, gain_back


def _softmax(x):
    odds = np.exp(x - x.max(-1, keepdims=True))
    odds /= odds.sum(-1, keepdims=True)
    return odds


def _cross_entropy(scores, truth):
    odds = _softmax(scores)
    right = np.take_along_axis(odds, truth[..., None].astype(np.int64), -1)
    return -np.log(right + np.finfo(odds.dtype).tiny).mean(), odds


def _subtract_truth(odds, truth):
    """Computes the gradient of the mean cross entropy with respect to the scores, in place."""
    flat = odds.reshape(-1, odds.shape[-1])
    flat[np.arange(len(flat)), truth.ravel()] -= 1
    odds /= len(flat)
    return odds


def _outer(x, back):
    """Returns the gradient of a matrix: input times output gradient, summed over all positions."""
    return x.reshape(-1, x.shape[-1]).T @ back.reshape(-1, back.shape[-1])


def _scatter(gradient, rows, back):
    """Sums the rows of `back` into the rows of the gradient given by `rows`."""
    chosen = np.zeros((rows.size, len(gradient)), gradient.dtype)
    chosen[np.arange(rows.size), rows.ravel()] = 1
    gradient[...] = chosen.T @ back.reshape(-1, back.shape[-1])


class AdamW:
    """AdamW for a flat array."""

    def __init__(self, size, betas=(0.9, 0.95), decay=0.1, clip=1.0):
        self.betas, self.decay, self.clip = betas, decay, clip
        self.mean, self.square, self.steps = np.zeros(size, np.float32), np.zeros(size, np.float32), 0

    def step(self, values, gradient, rate):
        self.steps += 1
        norm = float(np.sqrt(gradient @ gradient))
        if norm > self.clip:
            gradient *= np.float32(self.clip / norm)
        first, second = self.betas
        self.mean += np.float32(1 - first) * (gradient - self.mean)
        self.square += np.float32(1 - second) * (gradient * gradient - self.square)
        size = np.sqrt(self.square / np.float32(1 - second**self.steps)) + np.float32(1e-8)
        change = self.mean / (np.float32(1 - first**self.steps) * size)
        change += np.float32(self.decay) * values
        values -= np.float32(rate) * change


def rate_at(step, steps, top, warm_up=50, floor=0.1):
    """Returns the learning rate of the inner optimizer: warm-up, followed by half a cosine down to `floor` times `top`.
    """
    if step < warm_up:
        return top * (step + 1) / warm_up
    done = min(1.0, (step - warm_up) / max(1, steps - warm_up))
    return top * (floor + (1 - floor) * 0.5 * (1 + float(np.cos(np.pi * done))))
