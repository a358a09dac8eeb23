#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR MIT
"""Runs two small networks with tinygrad on the GPU and on its CPU backend: the training of a
perceptron, and a transformer that generates tokens. tinygrad's AMD backend opens /dev/kfd itself:
it makes PM4 and SDMA queues, their memory and their events, without ROCr.

usage: tinygrad-nn.py [--tokens]
--tokens: only generate tokens on the GPU, and print when each was
"""

import math
import os
import random
import sys
import time

# The first is the default. Both generate code with LLVM's library, for a processor that is named:
# LLVM does not know the emulated one.
os.environ.setdefault("DEV", "KFD+AMD:LLVM;CPU:LLVM:x86_64,x86-64-v2")
# The CPU backend compiles its thread loop with clang.
os.environ.setdefault("CC", "clang")
# Kernels are interpreted under emulation.
os.environ.setdefault("HCQDEV_WAIT_TIMEOUT_MS", "300000")

# pylint: disable=wrong-import-position
from tinygrad import Context, Device, Tensor, TinyJit
from tinygrad.nn.optim import SGD

from ktap import Report

SEED = 3
STEPS = 6
# Both backends sum in different orders, of at most INPUTS, HIDDEN or WIDTH products.
TOLERANCE = 1e-4
BATCH, INPUTS, HIDDEN, OUTPUTS = 16, 8, 16, 4
TOKENS, CONTEXT, WIDTH, HEADS, LAYERS = 24, 16, 32, 2, 2
PROMPT, GENERATED = [3, 1, 4, 1, 5], 8


def near(left, right):
    """Returns whether two lists of numbers are equal within the tolerance."""
    return len(left) == len(right) and all(
        math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=TOLERANCE) for a, b in zip(left, right))


class Numbers:
    """Tensors of the same random numbers on each device."""

    def __init__(self, device):
        self.device, self.random = device, random.Random(SEED)

    def normal(self, rows, columns, deviation):
        """Returns a matrix of normally distributed numbers."""
        values = [[self.random.gauss(0, deviation) for _ in range(columns)] for _ in range(rows)]
        return Tensor(values, device=self.device)


def train(device):
    """Trains a perceptron; returns the loss before each step and the weights of the output."""
    numbers = Numbers(device)
    inputs = numbers.normal(BATCH, INPUTS, 1).realize()
    wanted = (inputs @ numbers.normal(INPUTS, OUTPUTS, 1)).tanh().realize()
    first = numbers.normal(INPUTS, HIDDEN, INPUTS ** -0.5)
    second = numbers.normal(HIDDEN, OUTPUTS, HIDDEN ** -0.5)
    for weights in (first, second):
        weights.requires_grad = True
    optimizer = SGD([first, second], lr=0.2)

    def step():
        optimizer.zero_grad()
        loss = (((inputs @ first).relu() @ second) - wanted).square().mean()
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Context(TRAINING=1):
        losses = [step().item() for _ in range(STEPS)]
    return losses, [value for row in second.tolist() for value in row]


class Transformer:
    """A decoder with pre-normalization; its attention covers the whole context, masked."""

    def __init__(self, device):
        numbers = Numbers(device)
        self.device = device
        self.embedding = numbers.normal(TOKENS, WIDTH, 1).realize()
        self.positions = numbers.normal(CONTEXT, WIDTH, 0.5).realize()
        self.layers = [[numbers.normal(rows, columns, rows ** -0.5).realize() for rows, columns in (
            (WIDTH, 3 * WIDTH), (WIDTH, WIDTH), (WIDTH, 2 * WIDTH), (2 * WIDTH, WIDTH))]
            for _ in range(LAYERS)]
        self.output = numbers.normal(WIDTH, TOKENS, WIDTH ** -0.5).realize()
        mask = [[0.0 if column <= row else -1e9 for column in range(CONTEXT)]
                for row in range(CONTEXT)]
        self.mask = Tensor(mask, device=device).realize()
        self.run = TinyJit(self.logits)

    def logits(self, tokens, last):
        """Returns the logits at a position; both arguments are one-hot rows."""
        x = tokens @ self.embedding + self.positions
        for attention, projection, up, down in self.layers:
            parts = (x.layernorm() @ attention).reshape(CONTEXT, 3, HEADS, WIDTH // HEADS)
            query, key, value = (parts[:, i].transpose(0, 1) for i in range(3))
            scores = query @ key.transpose(1, 2) * (WIDTH // HEADS) ** -0.5 + self.mask
            heads = (scores.softmax() @ value).transpose(0, 1).reshape(CONTEXT, WIDTH)
            x = x + heads @ projection
            x = x + (x.layernorm() @ up).relu() @ down
        return (last @ x.layernorm() @ self.output).realize()

    def next_logits(self, sequence):
        """Returns the logits of the token that follows a sequence."""
        rows = [[float(token == column) for column in range(TOKENS)] for token in sequence]
        rows += [[0.0] * TOKENS for _ in range(CONTEXT - len(sequence))]
        last = [[float(row == len(sequence) - 1) for row in range(CONTEXT)]]
        tokens = Tensor(rows, device=self.device).contiguous().realize()
        return self.run(tokens, Tensor(last, device=self.device).contiguous().realize()).tolist()[0]


def generate(device, done=lambda token, start: None):
    """Generates tokens; returns them and the logits of each. Calls `done` with each token and the
    time in ns at which its generation started."""
    model, sequence, logits = Transformer(device), list(PROMPT), []
    for _ in range(GENERATED):
        start = time.monotonic_ns()
        logits.append(model.next_logits(sequence))
        sequence.append(max(range(TOKENS), key=logits[-1].__getitem__))
        done(sequence[-1], start)
    return sequence[len(PROMPT):], logits


def timed(function, device):
    """Calls a function with a device, and prints the duration."""
    start = time.monotonic()
    result = function(device)
    print(f"# {function.__name__} on {device}: {time.monotonic() - start:.1f} s", flush=True)
    return result


def main():
    if sys.argv[1:] == ["--tokens"]:
        generate("AMD", lambda token, start: print(
            f"token {token}: from {start} ns to {time.monotonic_ns()} ns", flush=True))
        return 0
    report = Report("tinygrad-nn", 3)

    device = Device["AMD"]
    print(f"# {device.arch}, interface {type(device.iface).__name__}, AQL {device.is_aql}")
    report.expect(type(device.iface).__name__ == "KFDIface", "not the interface of KFD")
    report.expect(device.has_sdma_queue, "no SDMA queue")
    total = Tensor(list(range(64)), device="AMD").sum().item()
    report.expect(total == 2016, f"sum {total}")
    report.done("queues_of_kfd")

    losses, weights = timed(train, "AMD")
    print(f"# losses {' '.join(f'{loss:.6f}' for loss in losses)}")
    report.expect(all(b < a for a, b in zip(losses, losses[1:])), "the loss does not fall")
    wanted = timed(train, "CPU")
    report.expect(near(losses, wanted[0]), f"losses of the CPU backend {wanted[0]}")
    report.expect(near(weights, wanted[1]), "weights differ from those of the CPU backend")
    report.done("training")

    tokens, logits = timed(generate, "AMD")
    print(f"# tokens {tokens}")
    wanted = timed(generate, "CPU")
    report.expect(len(set(tokens)) > 2, "the tokens do not vary")
    report.expect(tokens == wanted[0], f"tokens of the CPU backend {wanted[0]}")
    report.expect(all(near(a, b) for a, b in zip(logits, wanted[1])), "logits differ")
    report.done("tokens")
    return report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
