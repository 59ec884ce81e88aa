"""Does the shared library still serve programs that were linked to the last release?

    library.py LIBRARY           compares its symbols, and the types that its functions speak of, with released.xml
    library.py LIBRARY --write   writes released.xml anew, at a release: `make abi` (by gcc: clang shows private types)

Additions pass: functions, enumerators, types. Says what is gone or changed; the exit status is then 1. Needs libabigail
and a library with debug information, else nothing is checked and the status is 77.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
RELEASED = HERE / "released.xml"
HEADERS = HERE.parent.parent / "include"
SKIPPED = 77
CHANGED = 4  # a bit of abidiff's exit status; the lowest two mean that it could not compare
# What is no matter of the interface stays out: private types, and where things are in the sources.
PUBLIC_ONLY = ["--exported-interfaces-only", "--drop-private-types", "--no-architecture", "--no-corpus-path",
               "--no-comp-dir-path", "--no-show-locs", "--no-parameter-names", "--no-elf-needed"]


def skip_without_tools():
    if not (shutil.which("abidw") and shutil.which("abidiff")):
        print("there is no libabigail (abidw, abidiff)")
        sys.exit(SKIPPED)


def describe(library, headers):
    """The interface of a library as XML."""
    command = ["abidw", *PUBLIC_ONLY, "--headers-dir", headers, library]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return re.sub(r" path='[^']*/", " path='", text)


def breaks(released, current):
    """What breaks programs, in abidiff's words; nothing if nothing does."""
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(current)
        file.flush()
        command = ["abidiff", "--no-added-syms", "--show-bytes", released, file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode & 3:
        sys.exit(f"abidiff failed: {done.stdout}{done.stderr}")
    return done.stdout if done.returncode & CHANGED else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    skip_without_tools()
    current = describe(arguments.library, HEADERS)
    if "<function-decl" not in current:
        print(f"{arguments.library} has no debug information")
        sys.exit(SKIPPED)
    if arguments.write:
        RELEASED.write_text(current, encoding="utf-8")
        return
    if broken := breaks(RELEASED, current):
        sys.exit(f"programs linked to the last release would break:\n{broken}")


if __name__ == "__main__":
    main()
