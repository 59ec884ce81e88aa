#!/usr/bin/env python3
"""Writes manual pages from the comments of the public headers: one for each group of functions, one for the types, and
a link with the name of each function and type.

    api_manual.py FOLDER    writes pccl_communicator.3, pcclConnect.3 and so on there
"""
import argparse
import pathlib
import re
import sys

from api_doc import COMMENT_COLUMNS, HEADERS, Header, enumerators, members, split_blocks, split_results

TYPES = "pccl_types"


def escaped(text):
    """Escapes text so that roff prints it unchanged."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


class Group:
    """A page. `parts` contains (header, section title, items) tuples; only the page of types has several."""

    def __init__(self, name, title):
        self.name, self.title, self.parts = name, title, []

    def items(self):
        return [item for _, _, items in self.parts for item in items]


def groups(headers):
    """Returns the pages, in the order of the headers."""
    found = {}
    for header in headers:
        stem = pathlib.PurePath(header.path).stem
        for title, items in header.sections:
            items = [item for item in items if item.kind != "macro" or item.comment or title]
            named = f"pccl_{title.replace(' ', '_')}" if title else stem
            is_page = any(item.kind == "function" for item in items)
            name, heading = (named, title or "loop") if is_page else (TYPES, "types and results")
            if any(item.kind != "macro" for item in items):
                found.setdefault(name, Group(name, heading)).parts.append((header, title, items))
    return list(found.values())


class Manual:
    def __init__(self, root):
        headers = [Header(path, (root / path).read_text(encoding="utf-8")) for path in HEADERS]
        self.codes = enumerators(headers[0], "pcclResult_t")
        self.groups = groups(headers)
        self.names = {item.name for group in self.groups for item in group.items()} | set(self.codes)
        numbers = re.findall(r"#define PCCL_VERSION_\w+ (\d+)", (root / HEADERS[0]).read_text(encoding="utf-8"))
        self.version = ".".join(numbers)

    def pages(self):
        """Yields (file name, contents) for each page and link."""
        for group in self.groups:
            yield f"{group.name}.3", "\n".join(self._page(group)) + "\n"
            for item in group.items():
                if item.kind != "macro":
                    yield f"{item.name}.3", f".so man3/{group.name}.3\n"

    def _page(self, group):
        items = group.items()
        functions = [item for item in items if item.kind == "function"]
        types = [item for item in items if item.kind != "function"]
        yield f'.TH {group.name.upper()} 3 "" "PCCL {self.version}" "PCCL"'
        yield from [".nh", ".ad l", ".SH NAME"]
        shown = ", ".join(item.name for item in functions or types if item.kind != "macro")
        yield f"{shown} \\- PCCL: {group.title}"
        yield ".SH SYNOPSIS"
        yield ".nf"
        for header in dict.fromkeys(header.path for header, _, _ in group.parts):
            yield f".B #include <{pathlib.PurePath(header).name}>"
        for item in functions:
            yield ".PP"
            yield from map(escaped, item.code.splitlines())
        yield ".fi"
        yield ".SH DESCRIPTION"
        for header, title, _ in group.parts:
            comments = header.free.get(title, []) if title else [header.about]
            for comment in comments:
                yield from self._blocks(comment)
        for index, item in enumerate(functions):
            if not item.above:
                yield ".SS " + ", ".join(self._described_with(functions, index))
                yield from self._function(item)
        if types:
            yield ".SH TYPES AND CONSTANTS"
            for item in types:
                yield from self._type(item)
        yield ".SH SEE ALSO"
        yield ".BR pccl (3),"
        yield ".BR pccl (7)"

    @staticmethod
    def _described_with(functions, index):
        names = [functions[index].name]
        for item in functions[index + 1:]:
            if not item.above:
                break
            names.append(item.name)
        return names

    def _function(self, item):
        before, results = split_results(item.comment, self.codes)
        parameters = re.findall(r"(\w+)(?:\[\w*\])?[,)]", item.code)
        yield from self._blocks(before, parameters)
        if results:
            yield ".PP"
            yield "Results:"
            for code, when in results:
                if code:
                    yield from [".TP", f".B {code}", self._inline(when) if when else "\\&"]
                else:
                    yield from [".PP", self._inline(when)]

    def _type(self, item):
        if item.kind in ("macro", "type"):
            yield from [".PP", ".nf", *map(escaped, item.code.splitlines()), ".fi"]
            yield from self._blocks(item.comment)
            return
        yield f".SS {item.name}"
        yield from self._blocks(item.comment)
        for text, said in members(item.code):
            if text is None:
                yield from self._blocks(said)
            else:
                yield from [".TP", f".B {escaped(text)}", self._inline(said) if said else "\\&"]

    def _blocks(self, lines, parameters=()):
        for kind, content in split_blocks(lines, COMMENT_COLUMNS, parameters):
            if kind == "code":
                yield from [".PP", ".RS 4", ".nf", *map(escaped, content), ".fi", ".RE"]
            elif kind == "pairs":
                for name, text in content:
                    yield from [".TP", f".B {escaped(name)}", self._inline(text)]
            elif kind == "parameter":
                yield from [".TP", f".I {escaped(content[0])}", self._inline(content[1])]
            else:
                yield from [".PP", self._inline(content)]

    def _inline(self, text):
        """Returns the text with known names and quoted code in bold."""
        made = ""
        for quoted, name, other in re.findall(r"`([^`]*)`|(\w+)|([^`\w]+|`)", text):
            bold = quoted or (name if name in self.names else "")
            made += f"\\fB{escaped(bold)}\\fP" if bold else escaped(name or other).removeprefix("\\&")
        return "\\&" + made if made[:1] in ".'" else made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name, text in Manual(options.root).pages():
        (options.folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
