#!/usr/bin/env python3
"""Plants known bugs, one after another, into a copy of the sources; the simulator must catch each (docs/SIMULATION.md).

A simulator finds only what a checker says. A planted bug that nothing catches means that a checker is missing.
The texts to be replaced must be found exactly once, so this list has to follow the code.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from plants import PLANTS

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "build" / "audit"
MODULES = ["src/core", "src/wire", "src/master", "src/peer", "src/topology", "src/kernels", "tests/sim"]
COMPILE = ["gcc", "-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE"]
SEED_LIMIT_S = 240
FAILURE = re.compile(r"^FAILED (?:(?P<scenario>\S+): )?seed (?P<seed>\d+) at \S+ s: (?P<code>\S+) (?P<words>.*)$", re.M)


class Wrong(Exception):
    """The table, or the build, is wrong: not a bug that got away."""


def run(command, limit_s=300):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s, check=False)
    return done.returncode, done.stdout.decode("utf-8", "replace")


def must(command):
    code, output = run([str(part) for part in command])
    if code != 0:
        raise Wrong("%s\n%s" % (" ".join(str(part) for part in command), output))


def copy_sources():
    """What is being edited meanwhile does not disturb us."""
    tree = OUT / "tree"
    shutil.rmtree(OUT, ignore_errors=True)
    for folder in MODULES + ["include"]:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return tree


def object_of(source):
    return source.replace("/", "_")[:-2] + ".o"


def compile_one(tree, source, to):
    must(COMPILE + ["-I%s" % (tree / folder) for folder in ("src", "include", "tests/sim")] + ["-c", source, "-o", to])


def build_clean(tree, pool):
    objects = OUT / "objects"
    objects.mkdir()
    sources = sorted(str(path.relative_to(tree)) for folder in MODULES for path in (tree / folder).glob("*.c"))
    list(pool.map(lambda source: compile_one(tree, tree / source, objects / object_of(source)), sources))
    must(["gcc", "-o", OUT / "sim"] + [objects / object_of(source) for source in sources])
    return {source: objects / object_of(source) for source in sources}


def plant(tree, objects, bug):
    """The simulator with this bug: only the files it touches are compiled again."""
    folder = OUT / bug.name
    folder.mkdir()
    texts = {}
    for source, old, new in bug.edits:
        if source not in texts:
            texts[source] = (tree / source).read_text()
        found = texts[source].count(old)
        if found != 1:
            raise Wrong("%s: the text is there %d times in %s, not once:\n%s" % (bug.name, found, source, old))
        texts[source] = texts[source].replace(old, new)
    linked = dict(objects)
    for source, text in texts.items():
        changed = folder / pathlib.Path(source).name
        changed.write_text(text)
        linked[source] = folder / object_of(source)
        compile_one(tree, changed, linked[source])
    program = folder / "sim"
    must(["gcc", "-o", program] + list(linked.values()))
    return program


def hunt(program, arguments):
    """(what was found, words): the first violation, a crash, a hang, or None."""
    try:
        code, output = run([str(program)] + arguments, SEED_LIMIT_S)
    except subprocess.TimeoutExpired:
        return "HANG", "%d s were not enough" % SEED_LIMIT_S, None
    found = FAILURE.search(output)
    if found:
        return found["code"], found["words"], found["scenario"] or found["seed"]
    if code != 0:
        return "CRASH", "exit status %d: %s" % (code, output[-300:].strip()), None
    return None, "", None


class Verdict:
    def __init__(self, bug, code, words, where, seconds):
        self.bug, self.code, self.words, self.where, self.seconds = bug, code, words, where, seconds
        self.good = code in bug.expected

    def line(self):
        said = "%s: %s" % (self.code, self.words) if self.code else "NOTHING caught it"
        if self.code and not self.good:
            said += "  (expected %s)" % ", ".join(self.bug.expected)
        return "%-6s %-34s %-22s %6.1f s  %s" % ("ok" if self.good else "FAILED", self.bug.name, self.where or "-", self.seconds,
                                                 said[:150])


def audit(tree, objects, bug, seeds):
    began = time.monotonic()
    program = plant(tree, objects, bug)
    code, words, where = None, "", None
    if bug.scenario is None:
        code, words, where = hunt(program, ["--first", "1", "--seeds", str(max(seeds, bug.seeds))])
    else:
        code, words, where = hunt(program, ["--scenario", bug.scenario])
    return Verdict(bug, code, words, where, time.monotonic() - began)


def check_clean(pool, seeds, jobs):
    """The sources as they are pass the same seeds, and the scenarios."""
    each = (seeds + jobs - 1) // jobs
    tasks = [["--first", str(1 + i * each), "--seeds", str(each)] for i in range(jobs)] + [["--scenario", "all"]]
    for arguments, (code, words, where) in zip(tasks, pool.map(lambda task: hunt(OUT / "sim", task), tasks)):
        if code is not None:
            print("FAILED without a planted bug: sim %s: %s at %s: %s" % (" ".join(arguments), code, where, words))
            return False
    print("ok     nothing planted: %d seeds and all scenarios pass" % seeds, flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4000, help="seeds to search for each bug (default %(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="plant only this bug (may be given again)")
    parser.add_argument("--skip-clean", action="store_true", help="do not run the sources as they are first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    options = parser.parse_args()
    bugs = [bug for bug in PLANTS if not options.only or bug.name in options.only]
    began = time.monotonic()
    good = bool(bugs)
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        try:
            tree = copy_sources()
            objects = build_clean(tree, pool)
            if not options.skip_clean:
                good = check_clean(pool, max([options.seeds] + [bug.seeds for bug in bugs]), max(1, options.jobs)) and good
            tasks = [pool.submit(audit, tree, objects, bug, options.seeds) for bug in bugs]
            for task in concurrent.futures.as_completed(tasks):
                verdict = task.result()
                good = good and verdict.good
                print(verdict.line(), flush=True)
        except Wrong as wrong:
            pool.shutdown(cancel_futures=True)
            print("FAILED %s" % wrong)
            good = False
    print("%d planted bugs, %.0f s: %s" % (len(bugs), time.monotonic() - began, "all caught" if good else "NOT all is well"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
