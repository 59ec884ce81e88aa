"""The house rules that a program can check. docs/HACKING.md says why they exist.

    tidy.py rules   --root R                                sources and documents
    tidy.py purity  --root R --nm NM --objects FILE         objects of the pure modules; FILE has a path a line
    tidy.py exports --root R --nm NM --library L            symbols that the shared library exports
    tidy.py current --root R --file F --command C           F has the output of C

Each finding is one line "path:line: message"; the exit status is 1 if there is any.
"""
import argparse
import ast
import functools
import pathlib
import re
import subprocess
import sys

# Which module may include which. Tests run pure modules under virtual time; only drive knows both
# the pure modules and the others.
PURE = {
    "core": {"core"},
    "wire": {"core", "kernels", "wire"},
    "kernels": {"core", "kernels"},
    "topology": {"core", "topology"},
    "master": {"core", "wire", "kernels", "topology", "master"},
    "peer": {"core", "wire", "kernels", "topology", "peer"},
    "telemetry": {"core", "wire", "kernels", "telemetry"},
    "collective": {"core", "wire", "kernels", "topology", "telemetry", "collective"},
    "state": {"core", "wire", "kernels", "state"},
}
# The pure files of a module that also has others.
PURE_FILES = {"ops": {"token_file", "dump", "http", "json", "metrics", "pages", "shares"}}
ARROWS = dict(PURE)
ARROWS["os"] = {"core", "kernels", "os"}
ARROWS["net"] = {"core", "wire", "os", "net"}
ARROWS["data"] = {"core", "wire", "kernels", "telemetry", "collective", "os", "net", "data"}
ARROWS["device"] = {"core", "os", "device"}
ARROWS["sync"] = {"core", "wire", "kernels", "state", "device", "os", "net", "sync"}
ARROWS["measure"] = {"core", "wire", "topology", "os", "net", "measure"}
ARROWS["log"] = {"core", "os", "net", "log"}
ARROWS["config"] = set(PURE) | {"log", "config"}
ARROWS["ops"] = {"core", "wire", "kernels", "master", "telemetry", "os", "net", "log", "config", "ops"}
ARROWS["drive"] = set(ARROWS) | {"drive"}
ARROWS["api"] = set(ARROWS) | {"api"}
OF_USERS = {"log", "config", "drive", "api"}  # these know the public headers
PURE_SYSTEM_HEADERS = {"stdbool.h", "stddef.h", "stdint.h", "stdarg.h", "inttypes.h", "string.h", "limits.h",
                       "float.h", "xxhash.h"}
# Functions that a compiler may call on its own: clang's bcmp for memcmp, checked copies and stacks
# where a system's compiler makes them, and arithmetic for which it has no instruction.
PURE_SYMBOLS = re.compile(r"^(mem(cpy|move|set|cmp|chr)|__mem(cpy|move|set)_chk|__stack_chk_fail|bcmp|"
                          r"__\w+(ti|di|sf|df)\d|_GLOBAL_OFFSET_TABLE_)$")
# The one mutable thing in the pure modules.
ASSERT_HANDLER = ("core", "installed_handler")
# Where the system is known, and the headers that other sources of src and tools may include: those of ISO C, of
# compilers, of the libraries that are portable, and getopt.h, which the C library of every system has that we build for.
SYSTEM_PLACES = ("src/os/", "tools/system/")
PORTABLE_HEADERS = set("""
    assert.h ctype.h errno.h float.h inttypes.h limits.h math.h setjmp.h signal.h stdarg.h stdatomic.h stdbool.h
    stddef.h stdint.h stdio.h stdlib.h string.h time.h immintrin.h arm_neon.h uv.h xxhash.h getopt.h
    """.split())
SYSTEM_MACRO = re.compile(r"\b(_WIN(?:32|64)|_MSC_VER|__(?:linux|unix|APPLE|MACH|GLIBC|ANDROID|CYGWIN|FreeBSD|MINGW\w+?)_*|"
                          r"_(?:GNU|XOPEN|DEFAULT)_SOURCE|_POSIX_\w+|__has_include)\b")
SYSTEM_TYPE = re.compile(r"\bstruct (?:sockaddr\w*|addrinfo|iovec|msghdr|pollfd|stat|statx|rlimit|rusage)\b")
# path and name, with the reason.
EXCEPTIONS = {
    ("src/api/call.c", "pccl_errors_fail"): "the one way",
    ("src/core/base.c", "stdatomic.h"): "the assert handler's variable",
    ("src/telemetry/flow.h", "stdatomic.h"): "counters that others read while they are counted; relaxed, so no fences",
    ("src/kernels/variant_avx2.c", "immintrin.h"): "instructions by name; the compiler's, no library",
    ("src/kernels/scaled_x86.h", "immintrin.h"): "the same",
    ("src/kernels/variant_avx512.c", "immintrin.h"): "the same",
    ("src/kernels/variant_neon.c", "arm_neon.h"): "the same",
    ("src/os/fork_posix.c", "abort"): "a mutex cannot be made inside uv_once, which has no way to report it",
    ("src/drive/guard.c", "abort"): "a broken invariant in a development build, or where nobody could go on",
}

# (words, where, calls): where is a prefix of the path.
EVERYWHERE = ("src/", "tools/", "tests/", "examples/", "bench/")
BANNED_CALLS = [
    ("unbounded or unchecked", EVERYWHERE, "sprintf vsprintf strcpy stpcpy strcat gets strtok alloca tmpnam mktemp"),
    ("has no way to report an error", EVERYWHERE, "atoi atol atoll atof"),
    ("not seeded, not ours", EVERYWHERE, "rand srand random srandom drand48"),
    ("runs a shell", EVERYWHERE, "system popen"),
    ("waits for time to pass", ("src/", "tests/unit/", "tests/sim/"),
     "sleep usleep nanosleep clock_nanosleep uv_sleep"),
    ("a library does not own standard output", ("src/",), "printf vprintf puts putchar putc"),
    ("a library never ends its host", ("src/",), "exit _exit _Exit quick_exit abort assert"),
    ("a public call has one way to fail, pccl_api_result", ("src/api/", "src/drive/"), "pccl_errors_fail"),
    ("a library leaves signals alone", ("src/",),
     "signal sigaction uv_signal_start setlocale chdir umask setenv putenv"),
]

BANNED = {}  # the same by the name of the call
for _words, _places, _calls in BANNED_CALLS:
    for _name in _calls.split():
        BANNED.setdefault(_name, []).append((_words, _places))
CALL = re.compile(r"(?<![\w.>])(\w+)[ \t]*\(")

LINE_COLUMNS_MAX = 120
FILE_LINES_MAX = 1000
FUNCTION_LINES_MAX = 100
TEXT_SUFFIXES = {".c", ".h", ".cpp", ".py", ".md", ".txt", ".cmake", ".in", ".json", ".toml", ".yaml", ".yml", ".map",
                 ".sh", ".1", ".3", ".7", ""}
SKIPPED_FOLDERS = {".git", "build", "shared", ".cache", "__pycache__", "corpus"}
LEFT_OVER = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
# Tests that must not judge durations: where these tests are, which calls read a clock, and the words
# by which such figures are known.
TIMELESS = ("tests/e2e/", "tests/wan/", "python/tests/")
CLOCKS = {"monotonic", "perf_counter", "process_time", "now_us", "cpu_s"}
MEASURED_NAME = re.compile(r"(took|elapsed)(_\w+)?|\w+_mbit")
UNITS = re.compile(r"\b(ms|milliseconds?|seconds?|[kMG]?bit/s|[kMG]?B/s|CPU|processor)\b")
# "PROTOCOL 6.2, 6.5 and 9" where other files cite the rules; "(6.2, 9.4)" where these pages cite
# themselves or each other.
RULES = "docs/PROTOCOL.md"
RULES_INSIDE = {RULES, "docs/DECISIONS/0011-protocol.md"}
SECTION = r"\d+(?:\.\d+)?"
SECTIONS = rf"({SECTION}(?:(?:,| and)[\s*]+{SECTION}(?![\w.]))*)"
CITATION = re.compile(rf"\bPROTOCOL(?:\.md\]\([^)]*\))?,?[\s*]+(?:rules?[\s*]+)?{SECTIONS}")
CITATION_INSIDE = re.compile(rf"\({SECTIONS}(?=[),;])")
OTHER_CITATION = re.compile(r"\bPROTOCOL,?[\s*]+(F\d+|[Aa]s built)")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home|Users)/\w")


def text_files(root):
    """(path relative to root, text) of every file a person wrote, in order."""
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED_FOLDERS & set(relative.parts) or not path.is_file() or path.suffix not in TEXT_SUFFIXES:
            continue
        data = path.read_bytes()
        if b"\0" not in data:
            yield relative.as_posix(), data.decode("utf-8", "replace")


@functools.lru_cache(maxsize=1)  # several rules read the same file, one after the other
def code_only(text):
    """C source without comments and literals, lines kept."""
    pattern = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return pattern.sub(lambda match: " " + "\n" * match.group().count("\n"), text)


COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
MENTION = re.compile(r"(?<![\w./<-])([\w-]+(?:/[\w-]+)*\.(?:c|h|py|md))\b|\b(pccl_\w*\w|PCCL_\w*\w)(?![\w*])")


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def is_c(path):
    return path.endswith((".c", ".h", ".cpp"))


def is_pure(path):
    """path: a source, or an object .../<module>/<file>.c.o."""
    module, name = pathlib.PurePath(path).parts[-2:]
    return module in PURE or name.split(".")[0] in PURE_FILES.get(module, ())


def check_includes(path, text):
    parts = path.split("/")
    if parts[0] != "src" or len(parts) < 3:
        return
    module = parts[1]
    if module not in ARROWS:
        yield f"{path}:1: module {module} has no place in the arrows of tests/tidy"
        return
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', text, re.M):
        quote, name = match.groups()
        line = line_of(text, match.start())
        if quote == "<":
            if is_pure(path) and name not in PURE_SYSTEM_HEADERS and (path, name) not in EXCEPTIONS:
                yield f"{path}:{line}: pure module {module} includes <{name}>"
        elif "/" in name:
            target = name.split("/")[0]
            if target not in ARROWS[module]:
                yield f"{path}:{line}: {module} may not include {target} (\"{name}\")"
            elif is_pure(path) and not is_pure("src/" + name):
                yield f"{path}:{line}: a pure file may not include \"{name}\""
        elif module not in OF_USERS:
            users = ", ".join(sorted(OF_USERS))
            yield f"{path}:{line}: include \"{name}\" by its path from src/; public headers only in {users}"


def check_guard(path, text):
    if path.startswith("src/") and path.endswith(".h"):
        guard = "PCCL_" + re.sub(r"\W", "_", path[len("src/"):]).upper()
        if f"#ifndef {guard}\n#define {guard}\n" not in text:
            yield f"{path}:1: include guard {guard} expected"


def check_system(path, text):
    if not path.startswith(("src/", "tools/")) or path.startswith(SYSTEM_PLACES):
        return
    code = code_only(text)
    for match in re.finditer(r"^[ \t]*#[ \t]*include[ \t]*<([^>]+)>", text, re.M):
        if match.group(1) not in PORTABLE_HEADERS:
            yield f"{path}:{line_of(text, match.start())}: <{match.group(1)}> is for {' and '.join(SYSTEM_PLACES)}"
    for pattern, words in ((SYSTEM_MACRO, "tests for a system"), (SYSTEM_TYPE, "is a type of some systems")):
        for match in pattern.finditer(code):
            yield f"{path}:{line_of(code, match.start())}: {match.group()} {words}: only in {' and '.join(SYSTEM_PLACES)}"
    for match in re.finditer(r'^[ \t]*#[ \t]*include[ \t]*"((?:os/|system/)\w*(?:native|_posix|_windows)\.h)"', text, re.M):
        yield f"{path}:{line_of(text, match.start())}: {match.group(1)} is not a contract"


def check_calls(path, text):
    code = code_only(text)
    for match in CALL.finditer(code):
        name = match.group(1)
        for words, places in BANNED.get(name, ()):
            if path.startswith(places) and (path, name) not in EXCEPTIONS:
                yield f"{path}:{line_of(code, match.start())}: {name}: {words}"


def check_sizes(path, text):
    lines = text.splitlines()
    if len(lines) > FILE_LINES_MAX:
        yield f"{path}:{FILE_LINES_MAX + 1}: {len(lines)} lines, at most {FILE_LINES_MAX}"
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_COLUMNS_MAX:
            yield f"{path}:{number}: {len(line)} columns, at most {LINE_COLUMNS_MAX}"
        if line != line.rstrip():
            yield f"{path}:{number}: white space at the end of the line"


def check_functions(path, text):
    depth, start, name = 0, 0, ""
    lines = code_only(text).splitlines()
    for number, line in enumerate(lines, 1):
        if depth == 0:
            called = re.match(r"^(?:\w[\w\s*]*?\b)?(\w+)\(", line)
            if called:
                start, name = number, called.group(1)
        depth += line.count("{") - line.count("}")
        if depth == 0 and line.startswith("}") and name and number - start >= FUNCTION_LINES_MAX:
            yield f"{path}:{start}: {name} has {number - start + 1} lines, at most {FUNCTION_LINES_MAX}"
        if depth == 0 and "}" in line:  # of one line, too
            name = ""


def name_of(node):
    """The name of a variable, a member, or an entry of a table."""
    if isinstance(node, ast.Subscript):
        return getattr(node.slice, "value", None)
    return getattr(node, "attr", getattr(node, "id", None))


def is_measured(node):
    """Whether it is a duration or a rate. A clock compared with a deadline only limits what hangs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
        for part in ast.walk(node):
            is_clock = isinstance(part, ast.Call) and name_of(part.func) in CLOCKS
            if is_clock or isinstance(part, ast.Subscript) and name_of(part) == "at":
                return True
    if MEASURED_NAME.fullmatch(str(name_of(node))):
        return True
    return any(is_measured(child) for child in ast.iter_child_nodes(node))


def upper_bounds(condition):
    """The operands that this condition requires to be below something else."""
    for node in ast.walk(condition):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for i, operator in enumerate(node.ops):
                if isinstance(operator, (ast.Lt, ast.LtE)):
                    yield sides[i]
                elif isinstance(operator, (ast.Gt, ast.GtE)):
                    yield sides[i + 1]


def judges_time(node):
    if isinstance(node, ast.Assert):
        return any(map(is_measured, upper_bounds(node.test)))
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if name_of(node.func) == "within":
        return is_measured(node.args[0]) or bool(UNITS.search(ast.unparse(node.args[-1])))
    return name_of(node.func) == "check" and any(map(is_measured, upper_bounds(node.args[0])))


def check_judged_times(path, text):
    """A test may check that nothing is early, which holds on any machine, but not how late or fast it is."""
    if path.startswith(TIMELESS) and path.endswith(".py"):
        for node in ast.walk(ast.parse(text, path)):
            if judges_time(node):
                yield f"{path}:{node.lineno}: judges a time or a rate, which a busy machine changes: figure() prints it"


def check_left_overs(path, text):
    for found in LEFT_OVER.finditer(text):
        yield f"{path}:{line_of(text, found.start())}: {found.group()}: do it, or write it down as an issue"
    for found in MACHINE_PATH.finditer(text):
        yield f"{path}:{line_of(text, found.start())}: a path of somebody's machine"


@functools.lru_cache(maxsize=None)  # many links lead to the same pages
def anchors(markdown):
    headings = re.findall(r"^#+\s+(.*?)\s*$", markdown, re.M)
    plain = [re.sub(r"[`*]|\[([^]]*)\]\([^)]*\)", r"\1", heading).lower() for heading in headings]
    return {re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", one)) for one in plain}


def check_links(root, path, text):
    prose = re.sub(r"^```.*?^```", lambda match: re.sub(r"[^\n]", " ", match.group()), text, flags=re.S | re.M)
    prose = re.sub(r"`[^`\n]*`", lambda match: " " * len(match.group()), prose)
    for match in re.finditer(r"\[[^]]*\]\(([^)\s]+)\)", prose):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        line = line_of(prose, match.start())
        file = (root / path).parent / target if target else root / path
        if not file.exists():
            yield f"{path}:{line}: dead link {match.group(1)}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{path}:{line}: dead link {match.group(1)}: no such heading"
        elif anchor and file.suffix in (".h", ".py"):
            text_there = file.read_text(encoding="utf-8")
            if not all(re.search(rf"\b{re.escape(name)}\b", text_there) for name in anchor.split(".")):
                yield f"{path}:{line}: dead link {match.group(1)}: no such name"


def check_mentions(texts):
    """What comments of C sources mention exists: files, by a path or its end, and our identifiers."""
    ends = {path[place:] for path in texts for place in [0] + [m.end() for m in re.finditer("/", path)]}
    folders = set(ARROWS) | {path.split("/")[0] for path in texts}
    sources = {path: text for path, text in texts.items() if is_c(path)}
    known = {name for text in sources.values() for name in re.findall(r"\w+", COMMENT.sub(" ", text))}
    for path, text in sources.items():
        for comment in COMMENT.finditer(text):
            for match in MENTION.finditer(comment.group()):
                file, name = match.groups()
                gone = file not in ends and ("/" not in file or file.split("/")[0] in folders) if file \
                    else name not in known and not name.endswith("_")
                if gone:
                    line = line_of(text, comment.start() + match.start())
                    yield f"{path}:{line}: a comment names {match.group()}, which is not there"


def check_citations(sections, path, text):
    """Every cited section of the rules exists."""
    if not sections or not path.endswith((".c", ".h", ".py", ".md")):
        return
    for match in (CITATION_INSIDE if path in RULES_INSIDE else CITATION).finditer(text):
        for section in re.findall(SECTION, match.group(1)):
            if section not in sections:
                yield f"{path}:{line_of(text, match.start())}: cites PROTOCOL {section}, which is not there"
    for match in OTHER_CITATION.finditer(text):
        yield f"{path}:{line_of(text, match.start())}: cites PROTOCOL by {match.group(1)}: by the number of a section"


def check_manual(root):
    """The manual names every parameter with its default and range."""
    table, parameters = root / "src/config/params.h", root / "man/pccl.7"
    if table.exists() and parameters.exists():
        manual = parameters.read_text(encoding="utf-8")
        pattern = r'X\(\w+, (\w+), \w+, "(\w+)", "([^"]*)", (\d+), (\d+),'
        rows = re.findall(pattern, table.read_text(encoding="utf-8"))
        for kind, env, default, low, high in re.findall(
                r'(NUMBER|TEXT)\(X, \w+, "(\w+)", "?([^",]*)"?, (\d+), (\d+),',
                "".join(path.read_text(encoding="utf-8") for path in sorted(root.glob("src/*/params.h")))):
            rows.append(("U32" if kind == "NUMBER" else kind, env, default, low, high))
        for kind, env, default, low, high in rows:
            value = f"Default {default or 'empty'}" + (f", range {low} to {high}." if kind == "U32" else "")
            entry = re.search(rf"^\.TP\n\.B {env}\n[^\n]*\n([^\n]*)", manual, re.M)
            if not entry or not entry.group(1).startswith(value):
                yield f"man/pccl.7:1: {env} is missing, or without \"{value}\""


def rules(root):
    """Findings about everything that can be read."""
    findings = []
    texts = dict(text_files(root))
    sections = set(re.findall(rf"^#+ ({SECTION})\.? ", texts.get(RULES, ""), re.M))
    for path, text in texts.items():
        if path.startswith("tests/tidy/"):
            continue
        findings += check_left_overs(path, text)
        if is_c(path):
            findings += check_includes(path, text)
            findings += check_guard(path, text)
            findings += check_calls(path, text)
            findings += check_system(path, text)
            findings += check_functions(path, text)
        findings += check_judged_times(path, text)
        if is_c(path) or path.endswith(".py"):
            findings += check_sizes(path, text)
        if path.endswith(".md"):
            findings += check_links(root, path, text)
        findings += check_citations(sections, path, text)
    findings += check_mentions(texts)
    findings += check_manual(root)
    return findings


def symbols(nm, paths):
    """Of each object the (name, type) of its symbols."""
    found = {path: [] for path in paths}
    # --print-file-name: the object stands before each of its symbols.
    command = [nm, "--format=sysv", "--print-file-name", *paths]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout if paths else ""
    for line in output.splitlines():
        columns = [column.strip() for column in line.split("|")]
        if len(columns) == 7 and len(columns[2]) == 1:
            (path, _, name), _, kind, *_, section = columns[0].rpartition(":"), *columns[1:]
            if section.startswith(".data.rel.ro"):  # constants with addresses in them, which the loader writes
                kind = "R" if kind.isupper() else "r"
            found[path].append((name, kind))
    return found


def source_of(path):
    """The source of an object: .../<module>/<file>.c.o."""
    return "src/" + "/".join(pathlib.Path(path).parts[-2:]).removesuffix(".o")


def purity(nm, objects):
    """Forbidden references and forbidden variables of pure objects: paths with /<module>/<file>.c.o."""
    modules = {path: pathlib.Path(path).parent.name for path in objects}
    yield from (f"{path}:0: {module} is not a pure module" for path, module in modules.items()
                if module not in PURE and module not in PURE_FILES and not module.endswith(".dir"))  # generated
    pure = symbols(nm, [path for path in modules if is_pure(path)])
    table = [(modules[path], path, found) for path, found in pure.items()]
    defined = {module: set() for module in ARROWS}
    for module, _, found in table:
        defined[module] |= {name for name, kind in found if kind.isupper() and kind != "U"}
    for module, path, found in table:
        source = source_of(path) + ":0"
        known = set().union(*(defined[other] for other in ARROWS[module]))
        for name, kind in found:
            if kind in "Uw" and name not in known and not PURE_SYMBOLS.match(name):
                yield f"{source}: pure module {module} refers to {name}"
            if kind in "bBdDC" and (module, name) != ASSERT_HANDLER:
                yield f"{source}: pure module {module} keeps state between calls in {name}"


def exports(root, nm, library):
    output = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    exported = set()
    for line in output.splitlines():
        *_, kind, name = line.split()
        if kind != "A":
            exported.add(name.split("@")[0])
    declared = set()
    for header in sorted((root / "include").glob("*.h")):
        text = code_only(header.read_text(encoding="utf-8"))
        declared |= set(re.findall(r"^PCCL_EXPORT\b[^;(]*?\b(\w+)\s*\(", text, re.M))
    for name in sorted(exported - declared):
        yield f"{library}:0: exports {name}, which no public header declares"
    for name in sorted(declared - exported):
        yield f"{library}:0: does not export {name}"
    for name in sorted(declared | exported):
        if not name.startswith("pccl"):
            yield f"{library}:0: {name} does not begin with pccl"


def current(root, file, command):
    output = subprocess.run([command], capture_output=True, text=True, check=True).stdout
    path = root / file
    if not path.exists() or path.read_text(encoding="utf-8") != output:
        yield f"{file}:1: not what {pathlib.Path(command).name} prints; `make wiredoc` writes it anew"


def main():
    parser = argparse.ArgumentParser(description="Checks the house rules.")
    parser.add_argument("what", choices=("rules", "purity", "exports", "current"))
    parser.add_argument("--root", type=pathlib.Path, required=True)
    for option in ("nm", "objects", "library", "file", "command"):
        parser.add_argument("--" + option)
    options = parser.parse_args()
    if options.what == "rules":
        findings = rules(options.root)
    elif options.what == "purity":
        objects = pathlib.Path(options.objects).read_text(encoding="utf-8").split()
        findings = list(purity(options.nm, objects)) if objects else ["src:0: no objects found"]
    elif options.what == "exports":
        findings = list(exports(options.root, options.nm, options.library))
    else:
        findings = list(current(options.root, options.file, options.command))
    for line in findings:
        print(line)
    print(f"tidy: {options.what}: {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
