"""Adds up the results of a CI run: <stage>.status files, and the JUnit file <stage>.xml that ctest
wrote for some.

The last line printed is "N passed, N failed, N skipped". Before it stands each test that did not
pass, with the line of its output that says why. The exit status is 1 if anything failed, if a stage
failed without a failing test (the stage then counts as one), or, where CI is set, if a test was
skipped whose name does not begin with gpu/.

With --show and the name of a stage it prints instead the beginning and the end of what that stage's
failed tests printed, and with --slowest and a number those that took longest.
"""
import os
import pathlib
import re
import sys
import xml.etree.ElementTree as ElementTree

SHOWN_LINES = 30  # of the beginning, where causes are, and of the end, where consequences are
SHOWN_COLUMNS = 400
TELLING = [  # what a line that says why looks like; the first kind that is found, its last line
    r"^FAILED ",
    r"ERROR: \w+Sanitizer|WARNING: ThreadSanitizer|runtime error:",
    r"^(terminate called|FATAL: exception not rethrown)",
    r"\w*(Error|Failure|Exception): ",
    r"\b([Ee]rror|FAILED|failed|FAIL|Assertion)\b",
]


def outcome(case):
    """passed, failed or skipped. A test whose program is missing is "notrun" to ctest, but nobody
    chose to skip it."""
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    skipped = case.find("skipped")
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def cases(path):
    """None of them if ctest was cut off while it wrote the file."""
    try:
        return list(ElementTree.parse(path).getroot().iter("testcase"))
    except ElementTree.ParseError:
        return []


def output(case):
    """Its lines, without the empty ones at the end; none that is endless."""
    lines = (case.findtext("system-out") or "").rstrip().splitlines()
    return [line if len(line) <= SHOWN_COLUMNS else line[:SHOWN_COLUMNS] + " ..." for line in lines]


def verdict(case):
    """What ctest says of a test that failed: Failed, Timeout, SEGFAULT ..."""
    for kind in ("failure", "error", "skipped"):
        found = case.find(kind)
        if found is not None and found.get("message"):
            return found.get("message")
    return "failed"


def reason(case):
    """The line that says why, and how ctest calls it if that tells more than that it failed."""
    lines = output(case)
    telling = lines
    for kind in TELLING:
        found = [line for line in lines if re.search(kind, line)]
        if found:
            telling = found
            break
    why = telling[-1].strip().removeprefix("FAILED ") if telling else ""
    how = verdict(case)
    if how.lower() == "failed" or how in why:
        return why or "without a word"
    return f"{how}: {why}" if why else how


def show(folder, stage):
    """The first and the last lines of every test of this stage that failed."""
    path = pathlib.Path(folder) / f"{stage}.xml"
    for case in cases(path) if path.exists() else ():
        if outcome(case) != "failed":
            continue
        lines = output(case)
        print(f"--- {stage}: {case.get('name')} FAILED: {reason(case)}")
        left_out = len(lines) - 2 * SHOWN_LINES
        if left_out > 0:
            lines[SHOWN_LINES:-SHOWN_LINES] = [f"... {left_out} lines left out"]
        for line in lines:
            print(f"    {line}")


def show_slowest(folder, count):
    """The tests of all stages that took longest, with their seconds."""
    taken = [(float(case.get("time", 0)), path.stem, case.get("name"))
             for path in pathlib.Path(folder).glob("*.xml") for case in cases(path)]
    for seconds, stage, name in sorted(taken, reverse=True)[:count]:
        print(f"{seconds:7.1f} s  {stage}: {name}")


def count(path, in_ci):
    """[passed, failed, skipped] and the words about what needs words, of one JUnit file."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    words = []
    for case in cases(path):
        name = case.get("name")
        result = outcome(case)
        if result == "skipped" and in_ci and not name.startswith("gpu/"):
            result = "failed"
            words.append(f"{path.stem}: {name} was skipped, which CI does not accept")
        elif result == "failed":
            words.append(f"{path.stem}: {name} FAILED: {reason(case)}")
        elif result != "passed":
            words.append(f"{path.stem}: {name} {result}")
        counts[result] += 1
    return list(counts.values()), words


def main(folder):
    in_ci = os.environ.get("CI", "") not in ("", "0", "false")
    total = [0, 0, 0]
    statuses = sorted(pathlib.Path(folder).glob("*.status"))
    for status_path in statuses:
        status = int(status_path.read_text())
        xml_path = status_path.with_suffix(".xml")
        counts = [0, 0, 0]
        if xml_path.exists():
            counts, words = count(xml_path, in_ci)
            print(*words, sep="\n", end="\n" if words else "")
        elif status == 0:
            counts[0] = 1
        if status != 0 and counts[1] == 0:
            print(f"{status_path.stem}: ended with status {status}")
            counts[1] = 1
        total = [a + b for a, b in zip(total, counts)]
    if not statuses:
        total[1] = 1
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "--show":
        sys.exit(show(sys.argv[3], sys.argv[2]))
    if len(sys.argv) == 4 and sys.argv[1] == "--slowest":
        sys.exit(show_slowest(sys.argv[3], int(sys.argv[2])))
    sys.exit(main(sys.argv[1]))
