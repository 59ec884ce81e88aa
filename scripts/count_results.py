"""Adds up the results of a CI run: <stage>.status files and the JUnit file <stage>.xml that ctest wrote for some of them.

The last line printed is "N passed, N failed, N skipped". The exit status is 1 if anything failed, if a stage failed
without a failing test (the stage then counts as one), or, where CI is set, if a test without the label gpu was skipped.
"""
import os
import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def labels(case):
    found = case.find("properties/property[@name='cmake_labels']")
    return found.get("value", "").split(";") if found is not None else []


def count(path, in_ci):
    """(passed, failed, skipped, words about what needs words) of one JUnit file."""
    passed, failed, skipped, words = 0, 0, 0, []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if case.get("status") == "run":
            passed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
            if "gpu" in labels(case):
                words.append(f"{path.stem}: {name} skipped (needs a GPU)")
            elif in_ci:
                skipped -= 1
                failed += 1
                words.append(f"{path.stem}: {name} was skipped, which CI does not accept")
            else:
                words.append(f"{path.stem}: {name} skipped")
        else:
            failed += 1
            words.append(f"{path.stem}: {name} failed")
    return passed, failed, skipped, words


def main(folder):
    in_ci = os.environ.get("CI", "") not in ("", "0", "false")
    total = [0, 0, 0]
    statuses = sorted(pathlib.Path(folder).glob("*.status"))
    for status_path in statuses:
        status = int(status_path.read_text())
        xml_path = status_path.with_suffix(".xml")
        counts = [0, 0, 0]
        if xml_path.exists():
            *counts, words = count(xml_path, in_ci)
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
