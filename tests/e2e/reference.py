"""The expected results of reductions, computed independently of the library: exact for values
chosen so that every order of addition gives the same."""

import math
import struct

INTEGERS = {
    "u8": (1, False),
    "i8": (1, True),
    "i16": (2, True),
    "u16": (2, False),
    "u32": (4, False),
    "i32": (4, True),
    "u64": (8, False),
    "i64": (8, True),
}
FLOATS = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
TYPES = list(INTEGERS) + list(FLOATS)
OPS = ["sum", "avg", "prod", "max", "min"]


def every_case():
    """Tag, type, operation and options of the scripted peer: all types and operations, the options
    in turn."""
    tag = 0
    for dtype in TYPES:
        for op in OPS:
            options = [[], ["inplace"], ["offset=1"], ["inplace", "offset=3"]][tag % 4]
            tag += 1
            yield tag, dtype, op, options


def size(dtype):
    return INTEGERS[dtype][0] if dtype in INTEGERS else FLOATS[dtype]


def _bf16(value):
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    return (bits + 0x7FFF + (bits >> 16 & 1)) >> 16  # to nearest even


def pack(dtype, values):
    if dtype in INTEGERS:
        width, signed = INTEGERS[dtype]
        return b"".join(value.to_bytes(width, "little", signed=signed) for value in values)
    if dtype == "bf16":
        return b"".join(_bf16(value).to_bytes(2, "little") for value in values)
    return struct.pack(f"<{len(values)}{ {'f16': 'e', 'f32': 'f', 'f64': 'd'}[dtype] }", *values)


def unpack(dtype, data):
    if dtype in INTEGERS:
        width, signed = INTEGERS[dtype]
        return [int.from_bytes(data[i : i + width], "little", signed=signed) for i in range(0, len(data), width)]
    if dtype == "bf16":
        return [
            struct.unpack("<f", bytes(2) + data[i : i + 2])[0] for i in range(0, len(data), 2)
        ]
    width = FLOATS[dtype]
    return list(struct.unpack(f"<{len(data) // width}{ {'f16': 'e', 'f32': 'f', 'f64': 'd'}[dtype] }", data))


def _wrap(dtype, value):
    width, signed = INTEGERS[dtype]
    value &= (1 << 8 * width) - 1
    return value - (1 << 8 * width) if signed and value >> (8 * width - 1) else value


def reduce(dtype, op, operands):
    """operands: one list of values for each peer. Returns the bytes of the result."""
    results = []
    for column in zip(*operands):
        if op == "max":
            result = max(column)
        elif op == "min":
            result = min(column)
        elif dtype in INTEGERS:
            result = _wrap(dtype, math.prod(column) if op == "prod" else sum(column))
            if op == "avg":
                result = abs(result) // len(column) * (1 if result >= 0 else -1)
        else:
            result = math.prod(column) if op == "prod" else sum(column)
            if op == "avg":
                result /= len(column)
        results.append(result)
    if dtype == "f32":  # struct rounds once, as the library does
        results = [struct.unpack("<f", struct.pack("<f", value))[0] for value in results]
    return pack(dtype, results)


def operand(dtype, op, peer, count):
    """Values whose sums and products of up to eight peers are exact in any order."""
    if dtype in INTEGERS:
        width, signed = INTEGERS[dtype]
        low = -(1 << 8 * width - 1) if signed else 0
        return [low + ((peer + 1) * 2654435761 + i * 40503 + i * i * 977) % (1 << 8 * width) for i in range(count)]
    if op == "prod":
        return [[1.0, 2.0, -0.5, -1.0, 4.0][(peer * 7 + i) % 5] for i in range(count)]
    return [float((peer * 31 + i * 7) % 17 - 8) for i in range(count)]
