#!/usr/bin/env python3
"""A model of the scaled codecs, written from docs/CODECS.md and not from the C: it looks numbers up
in tables of all codes. Prints known answers, which test_scaled.c compares with what the kernels do:

    scaled_model.py > scaled_answers.txt      after a change of the formats: a new protocol version
    scaled_model.py --check scaled_answers.txt

Each line: format, scale, rounding, block, place of the first element, seed, and in hexadecimal the
elements (f32), the bytes, and the elements that they decode to."""

import math
import pathlib
import random
import struct
import sys

FORMATS = {"e4m3": (4, 3, 7), "e5m2": (5, 2, 15), "int4": None, "e3m0": (3, 0, 1), "e2m1": (2, 1, 1)}
MASK, GOLDEN = 2**64 - 1, 0x9E3779B97F4A7C15
FLT_MAX = (2 - 2**-23) * 2.0**127


def f32(x):
    """Rounded to float: the double that holds it. Products and quotients of floats are rounded
    once, because double has more than twice the digits."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def from_bits(b):
    return struct.unpack("<f", struct.pack("<I", b))[0]


def numbers(name):
    """The magnitudes of a format, by code."""
    if name == "int4":
        return [float(i) for i in range(8)]
    exponent, mantissa, bias = FORMATS[name]
    found = []
    for code in range(2 ** (exponent + mantissa)):
        e, m = code >> mantissa, code & (2**mantissa - 1)
        found.append((m * 2.0**-mantissa if e == 0 else 1 + m * 2.0**-mantissa) * 2.0 ** (max(e, 1) - bias))
    if name == "e3m0":  # no mantissa: code 1 is 2^0
        found = [0.0] + [2.0**i for i in range(7)]
    return {"e4m3": found[:0x7F], "e5m2": found[:0x7C]}.get(name, found)


def step_to(top, largest):
    step = f32(largest / top)
    return step if f32(step * top) >= largest else from_bits(bits(step) + 1)


def scale_of(kind, top, largest):
    """What travels, the step and the largest result."""
    if kind == "power":
        exponent = -126
        while largest > 0 and f32(2.0**exponent * top) < largest:
            exponent += 1
        step = 2.0**exponent if largest > 0 else 0.0
        return bytes([exponent + 127 if largest > 0 else 0]), step, min(f32(step * top), FLT_MAX)
    b = bits(largest)
    if kind == "bf16":
        b = min((b + 0xFFFF) & 0xFFFF0000, 0x7F7F0000)
    reach = from_bits(b)
    return struct.pack("<I", b)[0 if kind == "f32" else 2 :], step_to(top, reach) if reach else 0.0, reach


def noise(seed, index):
    """In steps."""
    x = (seed + ((index >> 32) + 1) * GOLDEN) & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    x ^= x >> 31
    y = (index + x) & 0xFFFFFFFF
    y = (y ^ y >> 16) * 0x7FEB352D & 0xFFFFFFFF
    y ^= x >> 32
    y = (y ^ y >> 15) * 0x846CA68B & 0xFFFFFFFF
    return (2 * (y >> 16) + 1 - 65536) * 2.0**-17


def code_of(x, table, inverse, shift):
    """The nearest number, after a shift by `shift` steps between its neighbors; of two that are as
    near the one that is an even number of steps."""
    y = min(f32(f32(abs(x)) * inverse), table[-1])
    below = max(i for i, number in enumerate(table) if number <= y)
    if below + 1 == len(table):
        return below
    step = table[below + 1] - table[below]
    y = f32(y + shift * step)
    part = (y - table[below]) / step
    even = (table[below] / step) % 2 == 0
    return below + (part > 0.5 or (part == 0.5 and not even))


def encode(name, kind, stochastic, block, first, seed, elements):
    table, coded, decoded = numbers(name), b"", []
    eight = name in ("e4m3", "e5m2")
    for begin in range(0, len(elements), block):
        part = elements[begin : begin + block]
        largest = max([abs(x) for x in part if math.isfinite(x)], default=0.0)
        head, step, reach = scale_of(kind, table[-1], largest)
        unit = 2.0**64 if 0 < step < 2.0**-100 else 1.0
        inverse = f32(1 / (step * unit)) if step else 0.0
        codes = []
        for i, x in enumerate(part):
            sign = math.copysign(1, x) < 0
            if math.isnan(x) or (math.isinf(x) and name != "e5m2"):
                codes.append(0x7F - (name == "e5m2") + 0x80 * sign if eight else 8)
                decoded.append(math.nan)
            elif math.isinf(x):
                codes.append(0x7C + 0x80 * sign)
                decoded.append(x)
            else:
                code = code_of(x * unit, table, inverse, noise(seed, first + begin + i) if stochastic else 0)
                value = min(f32(table[code] * step), reach)
                sign = sign and (eight or code != 0)
                decoded.append(-value if sign else value)
                codes.append(code + (0x80 if eight else 8) * sign)
        codes += [0] * (-len(codes) % 16)
        half = len(codes) // 2
        coded += head + bytes(codes if eight else [codes[i] | codes[half + i] << 4 for i in range(half)])
    return coded, decoded


def data():
    generator = random.Random(21)
    yield [0.0] * 20
    yield [-0.1] * 16
    yield [generator.gauss(0, 1e-3) for _ in range(72)]
    yield [-generator.random() - 3 for _ in range(33)]
    yield [generator.randrange(-9, 10) * 2.0**-149 for _ in range(31)]
    yield [generator.gauss(0, 1) * 2.0**-120 for _ in range(16)]
    yield [generator.choice((FLT_MAX, -FLT_MAX, 1e38, 3e-39, 1.0)) for _ in range(16)]
    yield [1.0, math.nan, -math.inf, math.inf, -0.0, -7.0, 0.25, 1e-3, -3.5, 2.5]
    yield [i / 8 for i in range(57)]


def answers():
    yield "# written by scaled_model.py"
    for name in FORMATS:
        for kind in ("f32", "bf16", "power"):
            for rounding in ("nearest", "stochastic"):
                for i, elements in enumerate(data()):
                    elements = [f32(x) for x in elements]
                    block, first = 16 << i % 3, (i % 2 << 33) + 256 * i
                    stochastic = rounding == "stochastic"
                    coded, decoded = encode(name, kind, stochastic, block, first, 77 + i, elements)
                    packed = b"".join(struct.pack("<I", 0x7FC00000 if x != x else bits(x)) for x in decoded)
                    raw = b"".join(struct.pack("<f", x) for x in elements)
                    yield f"{name} {kind} {rounding} {block} {first} {77 + i} {raw.hex()} {coded.hex()} {packed.hex()}"


def main():
    text = "\n".join(answers()) + "\n"
    if sys.argv[1:2] != ["--check"]:
        sys.stdout.write(text)
    elif pathlib.Path(sys.argv[2]).read_text(encoding="ascii") != text:
        sys.exit(f"{sys.argv[2]} is not what the model prints")


if __name__ == "__main__":
    main()
