#!/usr/bin/env python3
"""Checks what a first visitor reads against what exists.

    front.py --root R [--tests FILE]      FILE: what `ctest --show-only=json-v1` prints

* README.md is short, begins with the commands, and its status says what is true: a line of "Works" names tests that
  exist in a comment, a line of "Not yet" a pattern that no line of some files matches, but each sample does:

    * What works <!-- tests: e2e/kill_* sim/seeds -->
    * What is missing <!-- absent: REGEX like SAMPLE, ... in FILES ... -->

* Each measured row of README.md stands in the section of bench/RESULTS.md that has the commands.
* GitHub and PyPI show the same description and topics; the picture of the dashboard is small.

Each finding is one line "path:line: message"; the exit status is 1 if there is any.
"""
import argparse
import fnmatch
import json
import pathlib
import re
import sys

LINES_MAX = 120
FIRST_SCREEN = 25
COMMANDS = ("make demo", "make test", "pip install .")
PICTURE, PICTURE_BYTES_MAX = "docs/dashboard.png", 150_000
RESULTS, SECTION = "bench/RESULTS.md", "Figures of the README"
MARKER = re.compile(r"<!-- (tests|absent): (.*?) -->")
MEASURED = re.compile(r"\d (ms|µs|s|%)(?= \|)")


def numbered(text, begin, end):
    """(line number, line) of the lines between one that begins with `begin` and one that begins with `end`."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        if inside and line.startswith(end):
            return
        if inside:
            yield number, line
        inside = inside or line.startswith(begin)


def check_size(root, readme):
    lines = readme.splitlines()
    if len(lines) > LINES_MAX:
        yield f"README.md:{LINES_MAX + 1}: {len(lines)} lines, more than {LINES_MAX}"
    for command in COMMANDS:
        if not any(line.startswith(command) for line in lines[:FIRST_SCREEN]):
            yield f"README.md:1: `{command}` is not in the first {FIRST_SCREEN} lines"
    size = (root / PICTURE).stat().st_size
    if size > PICTURE_BYTES_MAX:
        yield f"{PICTURE}:0: {size} bytes, more than {PICTURE_BYTES_MAX}"


def check_works(number, names, tests):
    for name in names.split():
        if tests is not None and not fnmatch.filter(tests, name):
            yield f"README.md:{number}: no test {name}"


def check_absent(root, number, words):
    words, _, places = words.rpartition(" in ")
    pattern, _, samples = words.partition(" like ")
    for sample in samples.split(", "):
        if not re.search(pattern, sample):
            yield f"README.md:{number}: the pattern {pattern!r} does not match {sample!r}"
    for place in places.split():
        files = sorted(root.glob(place))
        if not any(file.stat().st_size for file in files):
            yield f"README.md:{number}: no file {place} with text"
        for file in files:
            found = re.search(pattern, file.read_text(encoding="utf-8"), re.M)
            if found:
                yield f"README.md:{number}: is it missing? {file.relative_to(root)} has {found.group()!r}"


def check_status(root, readme, tests):
    kind, counts = "", {"tests": 0, "absent": 0}
    for number, line in numbered(readme, "## Status", "## "):
        kind = "tests" if line.endswith("Works:") else "absent" if line.startswith("Not yet") else kind
        if not line.startswith("* "):
            continue
        marker = MARKER.search(line)
        if not marker or marker.group(1) != kind:
            yield f"README.md:{number}: a line of the status without <!-- {kind or 'tests'}: ... -->"
            continue
        counts[kind] += 1
        yield from check_works(number, marker.group(2), tests) if kind == "tests" else \
            check_absent(root, number, marker.group(2))
    if not all(counts.values()):
        yield f"README.md:1: the status has {counts['tests']} lines of what works and {counts['absent']} of what does not"


def check_figures(root, readme):
    """Compares whole rows: label and figures."""
    section = list(numbered((root / RESULTS).read_text(encoding="utf-8"), f"## {SECTION}", "## "))
    known = {line for _, line in section}
    if not any("bench/compare.py" in line for line in known):
        yield f"{RESULTS}:1: no section '{SECTION}' with the commands"
    rows = [(number, line) for number, line in enumerate(readme.splitlines(), 1) if MEASURED.search(line)]
    if not rows:
        yield "README.md:1: no measured row"
    for number, line in rows:
        if line not in known:
            yield f"README.md:{number}: not a row of '{SECTION}' in {RESULTS}"


def check_shown(root):
    """Facts about the project on GitHub and PyPI."""
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    settings = (root / ".github/settings.yml").read_text(encoding="utf-8")
    description = re.search(r'^description = "(.*)"$', project, re.M)
    if f"  description: {description.group(1)}\n" not in settings:
        yield ".github/settings.yml:1: not the description of pyproject.toml"
    keywords = re.findall(r'"(.*?)"', re.search(r"^keywords = \[(.*?)\]", project, re.M | re.S).group(1))
    if f"  topics: {', '.join(keywords)}\n" not in settings:
        yield ".github/settings.yml:1: not the keywords of pyproject.toml"


def check(root, tests):
    readme = (root / "README.md").read_text(encoding="utf-8")
    yield from check_size(root, readme)
    yield from check_status(root, readme, tests)
    yield from check_figures(root, readme)
    yield from check_shown(root)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--tests", type=argparse.FileType(encoding="utf-8"))
    options = parser.parse_args()
    tests = [test["name"] for test in json.load(options.tests)["tests"]] if options.tests else None
    findings = list(check(options.root, tests))
    for line in findings:
        print(line)
    print(f"front: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
