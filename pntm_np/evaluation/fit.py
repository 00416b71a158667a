"""The fit of a model on inputs of the training lengths, with the right answers given (teacher forcing).

Every token of an answer is predicted from the right tokens before it, all at once. If all predictions are right, greedy
decoding finds the same answer, at much higher cost; and the loss reveals mistakes that are too rare to occur.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from autodiff import array_module, softmax_cross_entropy, to_host
from pntm_np.evaluation.context import Context
from pntm_np.evaluation.score import tokens_of
from pntm_np.models import Options
from pntm_np.models.checkpoint import Model
from pntm_np.runtime.randomness import generator
from pntm_np.runtime.signals import Stopped
from tasks import Batch, Task, batch

LENGTHS = 40  # at most, spread over the training lengths
TOKENS = 8192  # in the rows that are computed together
RARE = 1e-3  # expected mistakes per answer


@dataclass(frozen=True)
class Fit:
    right: dict[int, float]  # by length, the share of answers that are right in every token
    loss: float  # total: minus the logarithm of the joint probability of all right answers
    tokens: int  # in all answers
    answers: int

    @property
    def exact_match(self) -> float:
        return sum(self.right.values()) / len(self.right)

    @property
    def token_loss(self) -> float:
        """The mean cross-entropy per token, as in training."""
        return self.loss / max(self.tokens, 1)

    @property
    def certain(self) -> bool:
        """No mistake, and less than one expected in a thousand answers: a loss of 0.001 is a probability of 0.999 that
        an answer drawn from the model's distribution is right."""
        return self.exact_match == 1 and self.loss < RARE * self.answers


def spread(longest: int, count: int) -> list[int]:
    """At most ``count`` lengths, evenly spread up to ``longest``."""
    return sorted({max(1, round(longest * k / count)) for k in range(1, count + 1)})


def training_samples(task: Task, max_length: int, samples: int, purpose: int, seed: int) -> Iterator[tuple[int, Batch]]:
    """Pairs of a length and a few of its samples, ``samples`` for each length, or fewer if they are very long."""
    for length in spread(max_length, LENGTHS):
        count = max(1, min(samples, samples * TOKENS // tokens_of(task, length)))
        drawn = batch(task, generator(purpose, seed, length), length, count)
        rows = max(1, TOKENS // drawn.tokens.shape[1])
        for k in range(0, count, rows):
            yield length, Batch(*(part[k : k + rows] for part in drawn))


def fit(model: Model, samples: list[tuple[int, Batch]], memory_size: int, options: Options, context: Context) -> Fit:
    xp = array_module(model.params["embed.weight"])
    if options.form not in ("chunked", "fused"):
        options = replace(options, form="chunked")  # as exact as decoding, and fast

    def one(sample: tuple[int, Batch]) -> tuple[int, int, float]:
        if context.stop():
            raise Stopped
        tokens, targets, mask = map(xp.asarray, sample[1])
        logits = model.forward(tokens, memory_size, options)
        right = xp.all((xp.argmax(logits, axis=-1) == targets) | ~mask, axis=1)
        loss = softmax_cross_entropy(logits, targets, mask, total=1)
        return sample[0], int(to_host(xp.sum(right))), float(to_host(loss))

    right, loss = dict.fromkeys((length for length, _ in samples), 0), 0.0
    for length, count, lost in context.workers.map(one, samples):
        right[length] += count
        loss += lost
    inputs = dict.fromkeys(right, 0)
    for length, drawn in samples:
        inputs[length] += len(drawn.tokens)
    tokens = sum(int(drawn.mask.sum()) for _, drawn in samples)
    return Fit({n: count / inputs[n] for n, count in right.items()}, loss, tokens, sum(inputs.values()))
