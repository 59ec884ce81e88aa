"""The direction of calls between the files of a module.

    layers.py --root R --nm NM --objects FILE      FILE has the path of an object a line

tests/tidy/layers.txt has the order. A call is a symbol that the linker resolves, or a call through a member
of a struct that one file fills. Headers have no order, but no header includes itself through others.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

import tidy

ORDER = "tests/tidy/layers.txt"
KNOWN = "tests/tidy/ratchets.json"
# Rooms of a module, which are prefixes of names: NAME.h is the contract of the room NAME, and other headers of it are
# included by its own files only; what it owns of the state, also by the headers that put the state together.
ROOMS = {"src/master/": ("diagnosis", "links", "membership", "operations", "recovery", "rounds", "topology",
                         "verdicts")}
STATE = {"state.h", "group.h", "remote.h"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
STRUCT = re.compile(r"^struct (\w+) \{$(.*?)^\}", re.M | re.S)
MEMBER = re.compile(r"\(\*(\w+)\)\s*\(")
SETTING = re.compile(r"(?:\.|->)(\w+)\s*=\s*&?(\w+)\s*[,;}]")
CALL_OF_MEMBER = re.compile(r"(?:\.|->)(\w+)\(")
IMPORT = re.compile(r"^(?:from (\.*)([\w.]*) import (?:\(([^)]*)\)|(.*))|import ([\w.]+).*)$", re.M)
FUNCTION = re.compile(r"^(static )?(?:\w[\w \*]*[ \*])?(\w+)\([^;{}]*\)\s*\{", re.M)


def module_of(path):
    return path.split("/")[1]


def sources(root):
    """The text of each source of src without its comments, by path."""
    return {path.relative_to(root).as_posix(): tidy.code_only(path.read_text(encoding="utf-8"))
            for path in sorted(root.glob("src/*/*.[ch]"))}


def pointer_calls(texts):
    """(caller, callee, member) of calls through the members of structs that one file sets, each to one function."""
    structs, owners, functions, settings, calls = [], *(collections.defaultdict(set) for _ in range(4))
    for path, text in texts.items():
        for _, body in STRUCT.findall(text):
            structs.append((module_of(path), MEMBER.findall(body)))
            for name in structs[-1][1]:
                owners[name].add(module_of(path))
        for static, name in FUNCTION.findall(text):
            functions[name].add((path, bool(static) and path.endswith(".c")))
        for name in CALL_OF_MEMBER.findall(text):
            calls[name].add(path)
    for path, text in texts.items():
        for name, function in SETTING.findall(text):
            for home, static in functions[function] if name in owners else ():
                if home == path or not static:
                    settings[name].add((path, home, function))
    for module, names in structs:
        # Another module that has a member of this name sets its own.
        found = {name: {one for one in settings[name] if module_of(one[0]) not in owners[name] - {module}}
                 for name in names}
        if len({setter for one in found.values() for setter, _, _ in one}) == 1:
            for name, targets in found.items():
                for _, home, _ in targets if len(targets) == 1 else ():
                    yield from ((path, home, name) for path in sorted(calls[name] - {home})
                                if module_of(path) == module_of(home) == module)


def symbols_of(nm, objects):
    """The symbols of each source of src, by its path."""
    return {tidy.source_of(path): found for path, found in tidy.symbols(nm, objects).items()}


def graph(root, symbols):
    """{caller: {callee: {name in the caller's text}}} between the files of each module."""
    home = {name: path for path, found in symbols.items() for name, kind in found if kind.isupper() and kind != "U"}
    below = {path: collections.defaultdict(set) for path in symbols}
    for path, found in symbols.items():
        for name, kind in found:
            callee = home.get(name, "")
            if kind == "U" and callee and module_of(callee) == module_of(path):
                below[path][callee].add(name)
    for path, callee, member in pointer_calls(sources(root)):
        if path in below and callee in below:
            below[path][callee].add(member)
    return below


def imports(code):
    """{module: modules that it imports, also in functions and for types only} of the package, by path."""
    paths = {}
    for path in code:
        if path.startswith("python/pccl/"):
            paths[path.removeprefix("python/").removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = path
    below = {path: set() for path in paths.values()}
    for path in below:
        folders = path.split("/")[1:-1]
        for dots, base, listed, line, module in IMPORT.findall("\n".join(line for _, line in code[path])):
            base = ".".join(folders[:len(folders) + 1 - len(dots)] * bool(dots) + [base] * bool(base)) or module
            names = [name.split()[0] for name in (listed or line).split(",") if name.strip()]
            found = {f"{base}.{name}" if f"{base}.{name}" in paths else base for name in names} if names else {base}
            below[path] |= {paths[name] for name in found if name in paths} - {path}
    return below


def in_cycles(below):
    """{file: the shortest way from it back to it}."""
    found = {}
    for start in below:
        callers, queue = {}, [start]
        for one in queue:
            for other in sorted(below.get(one, ())):
                if other not in callers:
                    callers[other] = one
                    queue.append(other)
        if start in callers:
            found[start] = [start]
            while found[start][0] != start or len(found[start]) == 1:
                found[start].insert(0, callers[found[start][0]])
    return found


def order(root):
    """{path: its place from below}."""
    places, module = {}, ""
    for line in (root / ORDER).read_text(encoding="utf-8").splitlines():
        line = line.partition("#")[0]
        if line.startswith("["):
            module = line.strip(" []")
        else:
            for name in line.split():
                places[f"src/{module}/{name}.c"] = len(places)
    return places


def check_rooms(root):
    """No file includes a header inside another room."""
    for folder, rooms in ROOMS.items():
        inside = re.compile(re.escape(folder) + "(" + "|".join(rooms) + r")_\w+\.h")
        for path in sorted(root.glob("src/*/*.[ch]")):
            text, user = path.read_text(encoding="utf-8"), path.relative_to(root).as_posix()
            for match in INCLUDE.finditer(text):
                found = inside.fullmatch("src/" + match.group(1))
                if found and not re.match(re.escape(folder + found.group(1)) + r"[_.]", user) and not (
                        user.removeprefix(folder) in STATE and match.group(1).endswith("_state.h")):
                    yield f"{user}:{tidy.line_of(text, match.start())}: {match.group(1)} is inside the room " \
                          f"{found.group(1)}: include {folder[4:]}{found.group(1)}.h"


def check(root, nm, objects):
    symbols = {path: found for path, found in symbols_of(nm, objects).items() if (root / path).exists()}
    below, places = graph(root, symbols), order(root)
    known = json.loads((root / KNOWN).read_text(encoding="utf-8"))["cycles"] if (root / KNOWN).exists() else {}
    for path in sorted(set(below) - set(places)):
        yield f"{path}:1: has no place in {ORDER}"
    for path in sorted(set(places) - set(below)):
        yield f"{ORDER}:1: names {path}, which is not there"
    for path in sorted(set(below) & set(places)):
        text = (root / path).read_text(encoding="utf-8")
        for callee, names in sorted(below[path].items()):
            if places.get(callee, -1) > places[path] and not (path in known and callee in known):
                line = min(tidy.line_of(text, max(text.find(name + "("), 0)) for name in names)
                yield f"{path}:{line}: calls {', '.join(sorted(names))} of {callee}, which is above it in {ORDER}"
    yield from check_rooms(root)
    includes = collections.defaultdict(set)
    for path in sorted(root.glob("src/*/*.h")):
        text = path.read_text(encoding="utf-8")
        includes[path.relative_to(root).as_posix()] = {
            "src/" + name for name in INCLUDE.findall(text)}
    for path, way in in_cycles(includes).items():
        yield f"{path}:1: includes itself: {' -> '.join(way)}"


def main():
    parser = argparse.ArgumentParser(description="Checks the direction of calls.")
    for option in ("root", "nm", "objects"):
        parser.add_argument("--" + option, required=True)
    options = parser.parse_args()
    objects = pathlib.Path(options.objects).read_text(encoding="utf-8").split()
    findings = list(check(pathlib.Path(options.root), options.nm, objects)) if objects else ["src:0: no objects found"]
    for line in findings:
        print(line)
    print(f"tidy: layers: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
