"""The messages of docs/WIRE.md, encoded from its tables, so that every change of them applies here. An attacker may
give any value for any field; the other fields get valid values."""

import ctypes
import os
import pathlib
import re
import struct

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "WIRE.md"
INTEGERS = {"u8": "<B", "u16": "<H", "u32": "<I", "u64": "<Q"}
ZERO = bytes(16)
TAG = 0x2067617420796E61  # a placeholder for another tag in a body
HEADER = struct.Struct("<IHHQQII")
CHECKED = 24  # header bytes under the checksum

_xxhash = ctypes.CDLL(os.environ["ATTACK_XXHASH"])  # the standard library has no XXH3
_xxhash.XXH3_64bits.restype = ctypes.c_uint64
_xxhash.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def identity():
    return os.urandom(15) + b"\x01"


def address(port, host="127.0.0.1"):
    return bytes(10) + b"\xff\xff" + bytes(int(part) for part in host.split(".")) + struct.pack("<H", port)


def port_of(candidate):
    return struct.unpack_from("<H", candidate, 16)[0]


def default(kind, valid):
    if kind in INTEGERS:
        least = re.match(r"0x[0-9a-f]+|\d+", valid)
        return int(least[0], 0) if least else 0
    if kind in ("id", "secret"):
        return identity() if valid == "not zero" else ZERO
    if kind.startswith("list"):
        return []
    return {"text": "", "bytes": b"", "address": bytes(18)}.get(kind, {})


def read_page(text):
    """Returns ({struct or message: [(field, kind, default)]}, {message: number})."""
    layouts, numbers, fields = {}, {}, None
    for line in text.splitlines():
        title = re.match(r"### (?:(\d+) )?(\w+)$", line)
        row = re.match(r"\| (\w+) \| (.+?) \| (.*?) ?\|$", line)
        if title:
            fields = layouts.setdefault(title[2], [])
            if title[1]:
                numbers[title[2]] = int(title[1])
        elif line.startswith("## "):
            fields = None
        elif row and fields is not None and row[1] not in ("field", "value"):
            kind = re.sub(r"\[(\w+)\]\(#\w+\)", r"\1", row[2])
            fields.append((row[1], kind, default(kind, row[3])))
    return layouts, numbers


LAYOUTS, NUMBERS = read_page(PAGE.read_text(encoding="utf-8"))
NAMES = {number: name for name, number in NUMBERS.items()}


def pack(kind, value):
    if kind in INTEGERS:
        return struct.pack(INTEGERS[kind], value)
    if kind in ("id", "secret", "address"):
        return value
    if kind in ("text", "bytes"):
        raw = value.encode() if isinstance(value, str) else value
        return struct.pack("<I", len(raw)) + raw
    if kind.startswith("list of "):
        return struct.pack("<I", len(value)) + b"".join(pack(kind[8:], item) for item in value)
    return body(kind, **value)


def body(layout, **values):
    unknown = set(values) - {name for name, _, _ in LAYOUTS[layout]}
    if unknown:
        raise KeyError(f"{layout} has no field {', '.join(sorted(unknown))}")
    return b"".join(pack(kind, values.get(name, otherwise)) for name, kind, otherwise in LAYOUTS[layout])


def bodies(layout, tags, **values):
    """Returns the body with each of these tags in place of TAG; fast, for floods."""
    before, after = body(layout, **values).split(struct.pack("<Q", TAG))
    return (before + struct.pack("<Q", tag) + after for tag in tags)


def unpack(kind, raw, at):
    """Returns (value, offset of the next value)."""
    if kind in INTEGERS:
        return struct.unpack_from(INTEGERS[kind], raw, at)[0], at + struct.calcsize(INTEGERS[kind])
    if kind in ("id", "secret", "address"):
        end = at + (18 if kind == "address" else 16)
        return raw[at:end], end
    if kind in ("text", "bytes"):
        end = at + 4 + struct.unpack_from("<I", raw, at)[0]
        return raw[at + 4 : end].decode() if kind == "text" else raw[at + 4 : end], end
    if kind.startswith("list of "):
        count, at, items = struct.unpack_from("<I", raw, at)[0], at + 4, []
        for _ in range(count):
            item, at = unpack(kind[8:], raw, at)
            items.append(item)
        return items, at
    fields = {}
    for name, inner, _ in LAYOUTS[kind]:
        fields[name], at = unpack(inner, raw, at)
    return fields, at


def parse(layout, raw):
    return unpack(layout, raw, 0)[0]


def frame(layout, sequence=0, acknowledged=0, **values):
    return seal(NUMBERS[layout], body(layout, **values), sequence, acknowledged)


def seal(number, raw, sequence=0, acknowledged=0):
    header = HEADER.pack(len(raw), number, 0, sequence, acknowledged, 0, 0)[:CHECKED]
    checked = header + raw
    return header + struct.pack("<II", _xxhash.XXH3_64bits(checked, len(checked)) & 0xFFFFFFFF, 0) + raw
