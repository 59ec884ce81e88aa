"""What is in a page: its fenced blocks, and what the marker before each of them says.

A marker is a comment on the line just above the fence, which nobody sees in the rendered page:

    <!-- test: sh -->                       typed into a terminal, a shell; all commands must succeed
    <!-- test: sh terminal=2 -->            into another terminal
    <!-- test: file=train.py -->            saved under that name; a later block must use it
    <!-- test: peers=2 around=connected --> run as so many peers at once, with a master of their own, inside the program
                                            around/connected.py (or .c): each must end with status 0
    <!-- test: output -->                   lines that the block above prints, in this order and maybe among others;
                                            "..." stands for anything, and all is waited for. Each
                                            peer prints them
    <!-- test: output peers=1 -->           one of the peers at least does
    <!-- test: output times=3 -->           each line so often, in all terminals together, and each time the same
    <!-- test: none: why not -->            not executed, for that reason

A block without a marker is an error, so that nobody adds one that is not tested.
"""

import re
import shlex

_FENCE = re.compile(r"^( *)(`{3,}|~{3,})(.*)$")
_MARKER = re.compile(r"^ *<!-- test: *(.*?) *-->$")
_KINDS = {
    "sh": {"terminal"},
    "file": set(),
    "peers": {"around"},
    "output": {"times", "peers"},
    "none": set(),
}


class BadPage(Exception):
    pass


class Block:
    def __init__(self, page, line, language, text, kind, value, options):
        self.where = f"{page}:{line}"
        self.line = line
        self.language = language
        self.text = text
        self.kind = kind
        self.value = value
        self.options = options

    def number(self, option, default):
        value = self.options.get(option, str(default))
        if not value.isdigit() or int(value) < 1:
            raise BadPage(f"{self.where}: {option}={value} is not a number")
        return int(value)


def _read_marker(where, text):
    """(kind, value, options)"""
    if text.startswith("none"):
        reason = text[len("none"):].lstrip(":").strip()
        if not reason:
            raise BadPage(f"{where}: none needs a reason: <!-- test: none: why -->")
        return "none", reason, {}
    words = shlex.split(text)
    if not words:
        raise BadPage(f"{where}: the marker is empty")
    kind, _, value = words[0].partition("=")
    if kind not in _KINDS or bool(value) != (kind in ("file", "peers")):
        raise BadPage(f"{where}: unknown marker {text!r}; tests/docs/pages.py lists them")
    options = {}
    for word in words[1:]:
        name, equals, setting = word.partition("=")
        if name not in _KINDS[kind] or not equals or name in options:
            raise BadPage(f"{where}: {word!r} is no option of {kind}")
        options[name] = setting
    return kind, value, options


def _blocks(page, lines):
    marker, index = None, 0  # (line number, text)
    while index < len(lines):
        number, line = index + 1, lines[index]
        index += 1
        fence, marked = _FENCE.match(line), _MARKER.match(line)
        if marker and not fence:
            raise BadPage(f"{page}:{marker[0]}: a marker without a block below it")
        if marked:
            marker = number, marked.group(1)
        if not fence:
            continue
        indent, ticks, info = fence.groups()
        body = []
        while index < len(lines) and lines[index].strip() != ticks:
            body.append(lines[index][len(indent):] if lines[index].startswith(indent) else lines[index])
            index += 1
        if index == len(lines):
            raise BadPage(f"{page}:{number}: the block does not end")
        index += 1
        if marker is None:
            raise BadPage(f"{page}:{number}: a block that says not how it is tested (tests/docs/pages.py says how)")
        kind, value, options = _read_marker(f"{page}:{marker[0]}", marker[1])
        language = info.split()[0] if info.split() else ""
        yield Block(page, number, language, "\n".join(body) + "\n", kind, value, options)
        marker = None
    if marker:
        raise BadPage(f"{page}:{marker[0]}: a marker without a block below it")


def read(name, text):
    """The blocks of a page, checked."""
    blocks = list(_blocks(name, text.splitlines()))
    before = None
    for index, block in enumerate(blocks):
        if block.kind == "output" and (before is None or before.kind not in ("sh", "peers", "output")):
            raise BadPage(f"{block.where}: output of what? It stands behind a block that is run")
        if block.kind == "file" and not any(block.value in b.text for b in blocks[index + 1:] if b.kind == "sh"):
            raise BadPage(f"{block.where}: nothing uses {block.value}")
        before = block
    return blocks
