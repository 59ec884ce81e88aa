"""Adds up the results of a CI run: <stage>.status files, and the JUnit file <stage>.xml that ctest wrote for some.

The last line printed is "N passed, N failed, N skipped". The exit status is 1 if anything failed, if a stage failed
without a failing test (the stage then counts as one), or, where CI is set, if a test was skipped whose name does not
begin with gpu/.
"""
import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def outcome(case):
    """passed, failed or skipped. A test whose program is missing is "notrun" to ctest, but nobody chose to skip it."""
    status = case.get("status")
    if status == "run":
        return "passed"
    if status == "disabled":
        return "skipped"
    skipped = case.find("skipped")
    if status == "notrun" and skipped is not None and skipped.get("message", "").startswith("SKIP_"):
        return "skipped"
    return "failed"


def count(path, in_ci):
    """[passed, failed, skipped] and the words about what needs words, of one JUnit file."""
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    words = []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        result = outcome(case)
        if result == "skipped" and in_ci and not name.startswith("gpu/"):
            result = "failed"
            words.append(f"{path.stem}: {name} was skipped, which CI does not accept")
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
    sys.exit(main(sys.argv[1]))
