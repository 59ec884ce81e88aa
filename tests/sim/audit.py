#!/usr/bin/env python3
"""Plants known bugs, one after another, into a copy of the sources; the simulator must catch each
(docs/SIMULATION.md).

A simulator finds only what a checker says: a planted bug that nothing catches means that a checker
is missing. Each is tried on all scenarios and on seeds. The tables are in plants/; their texts must
be found exactly once, so they have to follow the code.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from plants import AREAS, PLANTS  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODULES = ["src/core", "src/wire", "src/master", "src/peer", "src/topology", "src/kernels", "tests/sim"]
# Files that the simulator links beside these folders, and their objects in the library of tests/support.
SUPPORT = {"tests/support/master_check.c": "master_check.c", "tests/support/peer_check.c": "peer_check.c",
           "tests/support/wire_print.c": "wire_print.c", "tools/perf/report_parse.c": "__/__/tools/perf/report_parse.c"}
COMPILE = ["gcc", "-std=gnu11", "-O1", "-w", "-D_GNU_SOURCE"]
LIMIT_S = 240  # of processor time: a busy machine makes no bug hang
DETOURS = 400  # seeds that fail otherwise than expected
FAILURE = re.compile(r"^FAILED (?:(?P<scenario>\S+): )?seed (?P<seed>\d+) at \S+ s: (?P<code>\S+) (?P<words>.*)$", re.M)

Found = collections.namedtuple("Found", "code where words")  # of the first violation; code None: there was none


class Wrong(Exception):
    """The table, or the build, is wrong: not a bug that got away."""


def run(command):
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S + 1))
        try:
            output = process.communicate(timeout=10 * LIMIT_S)[0]
        except subprocess.TimeoutExpired:  # it waits for something
            process.kill()
            output = process.communicate()[0]
    return process.returncode, output.decode("utf-8", "replace")


def must(command):
    code, output = run([str(part) for part in command])
    if code != 0:
        raise Wrong("%s\n%s" % (" ".join(str(part) for part in command), output))


def copy_sources(out):
    """What is being edited meanwhile does not disturb us."""
    tree = out / "tree"
    shutil.rmtree(out, ignore_errors=True)
    for folder in MODULES + ["tests/support", "tools/perf", "include"]:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    return tree


def object_of(source):
    return source.replace("/", "_")[:-2] + ".o"


def compile_one(tree, source, *how):
    includes = ["-I%s" % (tree / folder) for folder in ("src", "include", "tests", "tests/sim", "tools")]
    must(COMPILE + includes + [source, *how])


def already_built(build):
    """What this build has of the simulator, as it was compiled there."""
    objects = {}
    for module in MODULES:
        name = module.split("/")[1]
        made = build / ("tests/sim/CMakeFiles/sim.dir" if name == "sim" else f"src/CMakeFiles/pccl_{name}.dir/{name}")
        for source in (ROOT / module).glob("*.c"):
            objects[f"{module}/{source.name}"] = made / (source.name + ".o")
    for source, made in SUPPORT.items():
        objects[source] = build / f"tests/support/CMakeFiles/pccl_test_support.dir/{made}.o"
    return objects


def build_clean(out, tree, pool):
    objects = out / "objects"
    objects.mkdir()
    sources = sorted(str(path.relative_to(tree)) for folder in MODULES for path in (tree / folder).glob("*.c"))
    sources += SUPPORT
    list(pool.map(lambda source: compile_one(tree, tree / source, "-c", "-o", objects / object_of(source)), sources))
    must(["gcc", "-o", out / "sim"] + [objects / object_of(source) for source in sources])
    return {source: objects / object_of(source) for source in sources}


def pattern_of(text):
    """How it is broken into lines does not matter."""
    return re.compile(r"\s*".join(re.escape(token) for token in re.findall(r"\w+|[^\w\s]", text)))


def planted(tree, bug):
    """The texts of the files that it touches, with this bug."""
    texts = {}
    for source, old, new in bug.edits:
        if not source.endswith(".c"):
            raise Wrong("%s: %s is no source file; only what is compiled again has the bug" % (bug.name, source))
        if source not in texts:
            texts[source] = (tree / source).read_text()
        found = list(pattern_of(old).finditer(texts[source]))
        if len(found) != 1:
            raise Wrong("%s: the text is there %d times in %s, not once:\n%s" % (bug.name, len(found), source, old))
        texts[source] = texts[source][:found[0].start()] + new + texts[source][found[0].end():]
    return texts


def write(tree, bug):
    """The changed files of this bug, in their folder."""
    folder = tree.parent / bug.name
    folder.mkdir(exist_ok=True)
    files = {}
    for source, text in planted(tree, bug).items():
        files[source] = folder / source.replace("/", "_")  # two modules may have files of one name
        files[source].write_text(text)
    return files


def check_syntax(tree, bug):
    for changed in write(tree, bug).values():
        compile_one(tree, changed, "-fsyntax-only", "-Werror=implicit-function-declaration")


def check_sample(tree, pool, sample):
    """Applies all plants, and compiles those that are chosen."""
    for bug in PLANTS:
        planted(tree, bug)
    list(pool.map(lambda bug: check_syntax(tree, bug), PLANTS[sample % 5::5]))


def plant(tree, objects, bug):
    """The simulator with this bug: only the files it touches are compiled again."""
    folder = tree.parent / bug.name
    linked = dict(objects)
    for source, changed in write(tree, bug).items():
        linked[source] = folder / object_of(source)
        compile_one(tree, changed, "-c", "-o", linked[source])
    program = folder / "sim"
    must(["gcc", "-o", program] + list(linked.values()))
    return program


def options_of(bug):
    """The rules of the machines' states would be the first to see most bugs: they are for those
    that name them."""
    return bug.options + ([] if "STATE" in bug.seeds else ["--mute-state"])


def hunt(program, arguments):
    code, output = run([str(program)] + arguments)
    if code == -signal.SIGXCPU:
        return Found("HANG", None, "%d s were not enough" % LIMIT_S)
    found = FAILURE.search(output)
    if found:
        return Found(found["code"].rstrip(":"), found["scenario"] or found["seed"], found["words"])
    if code != 0:
        return Found("CRASH", None, "exit status %d: %s" % (code, output[-300:].strip()))
    return Found(None, None, "")


def search_seeds(program, bug, last):
    """Other checkers may be faster than the one that the bug is for: then it searches on for a
    while."""
    first, best = 1, Found(None, None, "")
    for _ in range(DETOURS):
        found = hunt(program, ["--first", str(first), "--seeds", str(last + 1 - first)] + options_of(bug))
        if found.code in bug.seeds:
            return found
        best = best if best.code else found
        if found.where is None or int(found.where) >= last:
            break
        first = int(found.where) + 1
    return best


def run_scenarios(program, bug):
    """How each ended, and whether that is as the table says: "name" fails, "name=CODE" fails with this code."""
    ended = {}
    for entry in bug.scenarios:
        name, _, code = entry.partition("=")
        how = hunt(program, ["--scenario", name] + options_of(bug))
        ended[entry] = how, how.where and code in ("", how.code)
    return ended


def audit(tree, objects, bug, seeds):
    """(good, line of the table). Only the scenarios that have to catch the bug are run."""
    began = time.monotonic()
    try:
        program = plant(tree, objects, bug)
    except Wrong as wrong:
        return False, "FAILED %-40s %s" % (bug.name, wrong)
    ended = run_scenarios(program, bug)
    scenarios = [name for name, (_, good) in ended.items() if good]
    found = search_seeds(program, bug, max(seeds, bug.last)) if bug.seeds else Found(None, None, "")
    missed = [f"{name} {how.code or ''} {how.words}".strip() for name, (how, good) in ended.items() if not good]
    good = (not bug.seeds or found.code in bug.seeds) and not missed and bool(bug.seeds or bug.scenarios)
    said = []
    if bug.seeds:
        said.append("seed %s: %s %s" % (found.where, found.code, found.words) if found.code else "NO SEED finds it")
        if found.code and found.code not in bug.seeds:
            said.append("expected %s" % " or ".join(bug.seeds))
    if scenarios:
        said.append("by " + " ".join(scenarios))
    if missed:
        said.append("NOT BY %s" % " ".join(missed))
    seconds = time.monotonic() - began
    return good, "%-6s %-40s %5.1f s  %s" % ("ok" if good else "FAILED", bug.name, seconds, "; ".join(said))


def check_clean(program, pool, seeds, jobs):
    """The sources as they are pass the same seeds, and the scenarios."""
    each = (seeds + jobs - 1) // jobs
    tasks = [["--first", str(1 + i * each), "--seeds", str(each)] for i in range(jobs)] + [["--scenario", "all"]]
    for arguments, found in zip(tasks, pool.map(lambda task: hunt(program, task), tasks)):
        if found.code is not None:
            print("FAILED with nothing planted: sim %s: %s" % (" ".join(arguments), " ".join(map(str, found))))
            return False
    print("ok     nothing planted: %d seeds and all scenarios pass" % seeds, flush=True)
    return True


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=4000, help="seeds to search for each bug (default %(default)s)")
    parser.add_argument("--only", action="append", metavar="NAME", help="plant only this bug (may be given again)")
    parser.add_argument("--sample", action="store_true",
                        help="plant a bug that is found fast in half of the areas, and compile one in five of all; "
                             "the other texts only have to apply. TEST_SAMPLE chooses")
    parser.add_argument("--skip-clean", action="store_true", help="do not run the sources as they are first")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build" / "audit",
                        help="a folder of its own, emptied first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--built", type=pathlib.Path,
                        help="compile only what is planted; the rest is that of this build, made of the same sources")
    options = parser.parse_args()
    if options.built and not options.skip_clean:
        parser.error("--built goes with --skip-clean")
    bugs = [bug for bug in PLANTS if not options.only or bug.name in options.only]
    if options.sample:
        sample = int(os.environ.get("TEST_SAMPLE", "0"))
        print("TEST_SAMPLE=%d" % sample, flush=True)
        areas = AREAS[sample % 2::2]
        bugs = [min(area.PLANTS, key=lambda bug: (not bug.scenarios, bug.last)) for area in areas]
    began = time.monotonic()
    good = bool(bugs)
    with concurrent.futures.ThreadPoolExecutor(max(1, options.jobs)) as pool:
        try:
            tree = copy_sources(options.out)
            if options.sample:
                check_sample(tree, pool, sample)
            objects = already_built(options.built) if options.built else build_clean(options.out, tree, pool)
            if not options.skip_clean:
                last = max([options.seeds] + [bug.last for bug in bugs])
                good = check_clean(options.out / "sim", pool, last, max(1, options.jobs)) and good
            tasks = [pool.submit(audit, tree, objects, bug, options.seeds) for bug in bugs]
            for task in concurrent.futures.as_completed(tasks):
                caught, line = task.result()
                good = good and caught
                print(line, flush=True)
        except Wrong as wrong:
            pool.shutdown(wait=False, cancel_futures=True)
            print("FAILED %s" % wrong)
            good = False
    seconds = time.monotonic() - began
    print("%d planted bugs, %.0f s: %s" % (len(bugs), seconds, "all caught" if good else "NOT all is well"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
