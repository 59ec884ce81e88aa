#!/usr/bin/env python3
"""A model of the sparse codec, written from docs/CODECS.md and not from the C: it sorts, and makes one
large number of the bits. Prints known answers, which test_sparse.c compares with what the kernels do:

    sparse_model.py > sparse_answers.txt      after a change of the format
    sparse_model.py --check sparse_answers.txt

Each line: of a chunk so many elements are kept; and in hexadecimal the elements (f32), the bytes, what
they decode to, and what the elements become."""

import math
import pathlib
import random
import struct
import sys

CHUNK = 4096


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def floats(values):
    return b"".join(struct.pack("<f", value) for value in values)


def bits(numbers, width):
    """So many bits of each, the first one lowest, filled up with zeros to bytes."""
    whole = sum(number << index * width for index, number in enumerate(numbers))
    return whole.to_bytes((len(numbers) * width + 7) // 8, "little")


def mean(values):
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


def encode(elements, kept):
    """The bytes, what they decode to, and what is left."""
    coded, decoded = b"", [0.0] * len(elements)
    for begin in range(0, len(elements), CHUNK):
        chunk = elements[begin : begin + CHUNK]
        count = -(-len(chunk) * kept // CHUNK)
        by_size = sorted(range(len(chunk)), key=lambda index: (-abs(chunk[index]), index))
        indices = sorted(by_size[:count])
        middle = mean([abs(chunk[index]) for index in indices])
        parts = [[abs(chunk[i]) for i in indices if (abs(chunk[i]) > middle) == upper] for upper in (False, True)]
        levels = [f32(mean(part) if part else middle) for part in parts]
        codes = [2 * (math.copysign(1, chunk[i]) < 0) + (abs(chunk[i]) > middle) for i in indices]
        coded += floats(levels) + bits(indices, 12) + bits(codes, 2)
        for index, code in zip(indices, codes):
            decoded[begin + index] = -levels[code & 1] if code & 2 else levels[code & 1]
    return coded, decoded, [f32(x - y) for x, y in zip(elements, decoded)]


def data():
    """(how many are kept, elements)"""
    generator = random.Random(31)
    yield 64, [generator.gauss(0, 1e-3) for _ in range(300)]
    yield 512, [generator.gauss(0, 1) ** 3 for _ in range(CHUNK + 2)]
    yield 1, [-2.5]
    yield CHUNK, [generator.gauss(0, 1) for _ in range(7)]
    yield 2000, [0.0] * 20
    yield 1000, [generator.choice((1.0, -1.0)) for _ in range(50)]
    yield 2048, [generator.choice((0.25, -0.25, 3.0, -3.0, -0.0)) for _ in range(61)]
    yield 900, [generator.randrange(-9, 10) * 2.0**-149 for _ in range(77)]
    yield 1200, [generator.choice((3.4028234e38, -3.4028234e38, 1e38, 1e-39)) for _ in range(40)]


def answers():
    yield "# written by sparse_model.py"
    for kept, elements in data():
        elements = [f32(x) for x in elements]
        coded, decoded, left = encode(elements, kept)
        yield f"{kept} {floats(elements).hex()} {coded.hex()} {floats(decoded).hex()} {floats(left).hex()}"


def main():
    text = "\n".join(answers()) + "\n"
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text)
    elif pathlib.Path(sys.argv[2]).read_text(encoding="ascii") != text:
        sys.exit(f"{sys.argv[2]} is not what the model prints")


if __name__ == "__main__":
    main()
