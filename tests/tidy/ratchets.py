"""Measures of the sources that no change makes worse. tests/tidy/ratchets.json has their present values.

    ratchets.py check --root R --nm NM --objects FILE      FILE has the path of an object a line
    ratchets.py write ... --raise NAME...                  records the present values if none is worse, except of these
                                                           measures, and prints them

Values are compared for each folder. A list of offenders is recorded as digests, so that messages name the new ones.
Some measures have limits with room above the present value; without --raise a limit never rises.
"""
import argparse
import ast
import collections
import dataclasses
import json
import pathlib
import re
import sys
import typing
import zlib

import layers
import tidy

KNOWN = layers.KNOWN
FOLDERS = ("src", "include", "tools", "tests", "bench", "examples", "python")
PROSE = ("README.md", "docs/guide/*.md", "man/*.[1-9]")
SHORT = ("src/", "tools/", "python/pccl/")
SHORT_LINES_MAX = 600
FLAGS_MAX = 4
EQUAL_LINES_MAX = 5
DOCSTRING = re.compile(r'(\A|:[ \t]*(?:#[^\n]*)?\n)(\s*[rR]?)"""(.*?)"""', re.S)
STRUCT = re.compile(r"^(?:(?:typedef|static|const) )*struct(?: (\w+))? \{$(.*?)^\}(?: (\w+))?", re.M | re.S)
FLAG = re.compile(r"(?:^|[;{])\s*(?:const |volatile )*(?:atomic_b|_B|b)ool ([^;(]*)(?=;)|\w\s*:\s*1\s*(?=[,;])", re.M)
MARKS = [("opens with a relative clause",
          r"^(What|Who|Whose|Whom|Which|Whether|How|Of|That|Those|To whom|For whom|By whom|From whom|Where|So many)\b"),
         ("what", r"\b[Ww]hat\b(?! if)"),
         ("that of, of its own", r"\b(that|those) of\b|\bof (its|their|his) own\b"),
         ("so many, none of", r"\b(so many|such a|is none|are none|as it is|meanwhile|anew|thereby)\b"),
         ("nobody, whoever", r"\b([Nn]obody|[Aa]nybody|[Ss]omebody|[Ee]verybody|[Ww]hoever|[Aa]nyone)\b"),
         ("goes, comes, lies, stands", r"\b(goes|comes|lies|stands|went|came)\b")]
MESSAGE_MARKS = [*MARKS, ("any more", r"\b(any more|is to be|are to be|is wanted|are wanted|whom|bad value)\b")]
WITH_MESSAGES = ("src/", "tools/", "python/pccl/")
LITERAL = re.compile(r"""/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])*'
                     |"(?:\\.|[^"\\\n])*"(?:\s+(?:PRI\w+\s*)?"(?:\\.|[^"\\\n])*")*""", re.S | re.X)
WORD = re.compile(r"[A-Za-z_]\w*")
ANY_MARK = re.compile("|".join(pattern for _, pattern in MARKS))


@dataclasses.dataclass
class Tree:
    """All sources by path: the text, the code without comments, the symbols of the object, and the calls or imports."""

    texts: dict
    code: dict
    symbols: dict
    below: dict
    prose: dict  # the pages that users read, by path


def read(root, nm, objects):
    texts = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            relative = path.relative_to(root)
            if path.suffix in (".c", ".h", ".py") and not tidy.SKIPPED_FOLDERS & set(relative.parts):
                texts[relative.as_posix()] = path.read_text(encoding="utf-8")
    symbols = {path: found for path, found in layers.symbols_of(nm, objects).items() if path in texts}
    code = {path: without_comments(path, text) for path, text in texts.items()}
    prose = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8")
             for pattern in PROSE for path in sorted(root.glob(pattern))}
    return Tree(texts, code, symbols, {**layers.graph(root, symbols), **layers.imports(code)}, prose)


def without_comments(path, text):
    """The lines of code, with their numbers; spaces do not count."""
    def blank(match):
        return " " + "\n" * match.group().count("\n")
    text = re.sub(r"^\s*#.*", "", DOCSTRING.sub(blank, text), flags=re.M) if path.endswith(".py") \
        else tidy.COMMENT.sub(blank, text)
    return [(number, " ".join(line.split())) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def cycles(tree):
    for path, way in layers.in_cycles(tree.below).items():
        yield path, path, 1, f"in a cycle: {' -> '.join(way)}"


def single_users(tree):
    home = external(tree)
    users = collections.defaultdict(set)
    for path, found in tree.symbols.items():
        for name, kind in found:
            if kind == "U" and home.get(name, path) != path:
                users[name].add(path)
    elsewhere = set()  # words of C sources that the objects do not have
    for path, lines in tree.code.items():
        if path.endswith((".c", ".h")) and not path.startswith(("src/", "include/")):
            elsewhere.update(WORD.findall("\n".join(line for _, line in lines)))
    for name, paths in users.items():
        if len(paths) == 1 and name not in elsewhere:
            text = tree.texts[home[name]]
            yield home[name], name, tidy.line_of(text, max(text.find(name + "("), 0)), \
                f"only {min(paths)} uses {name}"


def external(tree):
    return {name: path for path, found in tree.symbols.items() for name, kind in found if kind in "TDBRVW"}


def flags(tree):
    for path, text in tree.texts.items():
        if path.endswith((".c", ".h")) and path.startswith("src/"):
            code = tidy.code_only(text)
            for struct in STRUCT.finditer(code):
                name = struct.group(1) or struct.group(3)
                count = sum(names.count(",") + 1 for names in FLAG.findall(struct.group(2)))
                if count > FLAGS_MAX:
                    yield path, name, tidy.line_of(code, struct.start()), \
                        f"struct {name} has {count} flags, more than {FLAGS_MAX}"


def duplicates(tree):
    """Equal blocks of code, as pairs; a pair counts where its second block is."""
    blocks = collections.defaultdict(list)
    code = {path: [line for line in lines if not line[1].startswith(("#include", "import ", "from "))]
            for path, lines in tree.code.items()}
    size = EQUAL_LINES_MAX + 1
    for path, lines in code.items():
        hashes = [hash(line) for _, line in lines]
        for i, block in enumerate(zip(*(hashes[k:] for k in range(size)))):
            blocks[block].append((path, i))
    for places in blocks.values():
        for second in range(1, len(places)):
            path, j = places[second]
            for other, i in places[:second]:
                if path == other and j - i < size or i and j and code[path][j - 1][1] == code[other][i - 1][1]:
                    continue  # an overlap, or the pair begins before
                yield path, other + code[path][j][1], code[path][j][0], \
                    f"{size} lines and more are those at {other}:{code[other][i][0]}"


def marks(tree):
    for path, text in [*tree.texts.items(), *tree.prose.items()]:
        for offset, comment in (sentences if path in tree.prose else comments)(path, text):
            if ANY_MARK.search(comment):
                found = ", ".join(name for name, pattern in MARKS if re.search(pattern, comment))
                yield path, comment, tidy.line_of(text, offset), f"{comment[:60]!r}: plain English has no '{found}'"


def comments(path, text):
    """(offset, text) of C's comments and of the sentences of docstrings."""
    if path.endswith(".py"):
        for match in DOCSTRING.finditer(text) if not path.endswith("_test.py") else ():
            for sentence in re.split(r"(?<=[.:])\s+", match.group(3).strip()):
                if len(sentence.split()) >= 4:
                    yield match.start(3), " ".join(sentence.split())
        return
    for match in tidy.COMMENT.finditer(text):
        comment = " ".join(re.sub(r"\n\s*\*\s?", " ", match.group().strip("/")).split()).strip(" *-/")
        if len(comment.split()) >= 4 and not comment.startswith(("Copyright", "SPDX")):
            yield match.start(), comment


def sentences(path, text):
    """(offset, text) of the sentences of a page but questions, and of the cells of its tables, without code."""
    for offset, block in manual_blocks(text) if path.startswith("man/") else markdown_blocks(text):
        for sentence in re.split(r"(?<=[.:?!])\s+", " ".join(block.split())):
            if len(sentence.split()) >= 4 and not sentence.endswith("?"):
                yield offset, sentence


def markdown_blocks(text):
    """(offset, text) of the paragraphs, list items, headings and cells."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group())
    text = re.sub(r"^( *)(```|~~~).*?^ *\2|<!--.*?-->", blank, text, flags=re.S | re.M)
    text = re.sub(r"`[^`]*`", lambda match: re.sub(r"[^\s]", "x", match.group()), text)
    text = re.sub(r"(?<=\])\([^)\s]*\)|\]\[[^]]*\]", lambda match: " " * len(match.group()), text)
    row, item = r"^ *\|.*", r"^ *(?:[*-]|\d+\.|#+) "
    for match in re.finditer(rf"{row}|(?:(?!{row}).+\n?)+", text, re.M):
        part = r"[^|]+" if re.match(row, match.group()) else rf"(?:\A|{item}).*?(?={item}|\Z)"
        for part in re.finditer(part, match.group(), re.S | re.M):
            yield match.start() + part.start(), re.sub(r"[*\[\]#!]", "", part.group()).strip(" -")


def manual_blocks(text):
    """(offset, text) of the paragraphs of a manual page."""
    text = re.sub(r"^\.(nf|EX)$.*?^\.(fi|EE)$", lambda match: ".PP" + "\n" * match.group().count("\n"), text,
                  flags=re.S | re.M)
    for match in re.finditer(r"(?:^(?!\.(?:TH|SH|SS|PP|P|TP|IP|RS|RE|SY|YS|OP|br|\\)).*\n?)+", text, re.M):
        words = re.sub(r'^\.[A-Z]+ |\\f[A-Z]|\\&|"', "", match.group(), flags=re.M)
        yield match.start(), words.replace("\\-", "-")


def messages(tree):
    """Literals of two words or more in programs and libraries, which users read."""
    for path, text in tree.texts.items():
        for offset, message in literals(path, text) if path.startswith(WITH_MESSAGES) else ():
            words = re.sub(r"`[^`]*`", "", message).strip()
            found = ", ".join(name for name, pattern in MESSAGE_MARKS if re.search(pattern, words))
            if found and " " in words:
                yield path, message, tidy.line_of(text, offset), f"{message[:60]!r}: plain English has no '{found}'"


def literals(path, text):
    """(offset, text) of adjacent literals of C, and of literals of Python that are not statements."""
    if path.endswith(".py"):
        starts = [0, *(at.end() for at in re.finditer("\n", text))]
        nodes = list(ast.walk(ast.parse(text)))
        statements = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in statements:
                yield starts[node.lineno - 1], node.value
        return
    for match in LITERAL.finditer(text):
        if match.group()[0] == '"' and not text[text.rfind("\n", 0, match.start()) + 1:].startswith("#include"):
            yield match.start(), "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', match.group())).replace("\\n", " ")


def long_files(tree):
    return {path: len(text.splitlines()) for path, text in tree.texts.items()
            if path.startswith(SHORT) and len(text.splitlines()) > SHORT_LINES_MAX}


def share(count, whole):
    """In percent, rounded up."""
    return -(-100 * count // whole)


def one_more(count, whole):
    """The share after one more offender."""
    return share(count + 1, whole + 1)


def next_hundred(count, _):
    """At least 50 above the count."""
    return -(-(count + 50) // 100) * 100


def folder_of(path):
    folder, _, name = path.rpartition("/")
    return folder or path if "." in name else path


def area_of(path):
    return path.partition("/")[0]


def per_folder(paths, count=lambda path: 1):
    total = collections.Counter()
    for path in paths:
        total[folder_of(path)] += count(path)
    return total


@dataclasses.dataclass
class Measure:
    words: str
    find: typing.Callable  # offenders (path, key, line, message), or {folder or file: number}
    limit: typing.Callable = None  # (number, number of `of`) -> limit with room; it is recorded
    of: str = ""  # the measure that this one is a share of, in percent
    group: typing.Callable = folder_of
    floor: int = 0  # a value that is always allowed


MEASURES = {
    "cycles": Measure("files in cycles", cycles),
    "single_users": Measure("% of external symbols have one user", single_users, one_more, of="external"),
    "external": Measure("external symbols", lambda tree: per_folder(external(tree).values()), floor=sys.maxsize),
    "flags": Measure(f"structs with more than {FLAGS_MAX} flags", flags),
    "duplicates": Measure(f"pairs of blocks with more than {EQUAL_LINES_MAX} equal lines", duplicates),
    "marks": Measure("comments or sentences with marks of non-native English", marks),
    "messages": Measure("messages with marks of non-native English", messages),
    "long": Measure("lines", long_files, group=str, floor=SHORT_LINES_MAX),
    "lines": Measure("lines", lambda tree: per_folder(tree.texts, lambda path: tree.texts[path].count("\n")),
                     next_hundred),
    "code": Measure("lines without comments and blanks",
                    lambda tree: per_folder(tree.code, lambda path: len(tree.code[path])), next_hundred),
}


def digest(key):
    return f"{zlib.crc32(key.encode()) & 0xffff:04x}"


def measure(tree):
    """(values to record, {path: [(digest, message)]} for each measure)"""
    values, offenders = {}, {}
    for name, one in MEASURES.items():
        found, offenders[name] = one.find(tree), collections.defaultdict(list)
        if not isinstance(found, dict):
            for path, key, line, message in found:
                offenders[name][path].append((digest(key), f"{path}:{line}: {message}"))
            found = {path: " ".join(sorted(key for key, _ in some)) for path, some in offenders[name].items()}
        values[name] = dict(sorted(found.items()))
    return values, offenders


def totals(name, values, row=str, value=None):
    """{folder: compared value, or value(number, number of `of`)}; `row` maps a folder to the row of a table."""
    one, sums = MEASURES[name], collections.Counter()
    for path, some in values.get(name, {}).items():
        sums[row(one.group(path))] += len(some.split()) if isinstance(some, str) else some
    wholes = totals(one.of, values, row) if one.of else sums
    value = value or (share if one.of else lambda count, _: count)
    return {path: value(sums[path], whole) for path, whole in wholes.items()}


def limits_of(name, known, values):
    """A share has no limit without new symbols (a removal raised it); in a new folder it is the average of the area."""
    one = MEASURES[name]
    limits = known.get("limits", {}).get(name, {}) if one.limit else totals(name, known)
    if not one.of:
        return limits
    averages, before = totals(name, values, area_of), known.get(one.of, {})
    return {group: sys.maxsize if whole <= before.get(group, 0) else limits.get(group, averages[area_of(group)])
            for group, whole in totals(one.of, values).items()}


def recorded(known, values, accepted):
    """The values and the limits; a limit that is not accepted does not rise."""
    limits = {}
    for name, one in MEASURES.items():
        if one.limit:
            old = known.get("limits", {}).get(name, {}) if name not in accepted else {}
            limits[name] = {group: min(limit, old.get(group, limit))
                            for group, limit in totals(name, values, value=one.limit).items()}
    kept = {name: some for name, some in values.items() if MEASURES[name].of or not MEASURES[name].limit}
    return {**kept, "limits": limits}


def compare(known, values, offenders, accepted=()):
    """Yields the values that are worse than the recorded ones, each with its new offenders."""
    for name, one in MEASURES.items():
        limits = limits_of(name, known, values)
        for group, value in totals(name, values).items() if name not in accepted else ():
            limit = max(limits.get(group, 0), one.floor)
            if value > limit:
                yield f"{group}:1: {name}: {value} {one.words}, at most {limit}"
                old = collections.Counter(" ".join(value for path, value in known.get(name, {}).items()
                                                   if one.group(path) == group and isinstance(value, str)).split())
                for path, some in offenders[name].items():
                    for key, message in some if one.group(path) == group else ():
                        old[key] -= 1
                        if old[key] < 0:
                            yield "    new: " + message


def table(values):
    print(f"{'':22}" + "".join(f"{name:>13}" for name in MEASURES))
    for row in (folder_of, area_of):
        columns = [totals(name, values, row) for name in MEASURES]
        for path in sorted({path for column in columns for path in column}):
            print(f"{path:22}" + "".join(f"{column.get(path, 0):13}" for column in columns))


def main():
    parser = argparse.ArgumentParser(description="Compares measures of the sources with their recorded values.")
    parser.add_argument("what", choices=("check", "write"))
    parser.add_argument("--raise", dest="accepted", nargs="*", choices=list(MEASURES), default=[])
    for option in ("root", "nm", "objects"):
        parser.add_argument("--" + option, required=True)
    options = parser.parse_args()
    root = pathlib.Path(options.root)
    listed = pathlib.Path(options.objects)
    tree = read(root, options.nm, listed.read_text(encoding="utf-8").split() if listed.exists() else [])
    if not tree.symbols:
        print(f"{listed}:0: names no object of src")
        return 1
    values, offenders = measure(tree)
    file = root / KNOWN
    known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    findings = list(compare(known, values, offenders, options.accepted))
    for line in findings:
        print(line)
    if options.what == "write" and not findings:
        new = recorded(known, values, options.accepted)
        file.write_text(json.dumps(new, indent=0, sort_keys=True) + "\n", encoding="utf-8")
        table(values)
    else:
        print(f"tidy: ratchets: {len(findings)} findings")
    if findings:
        print("Make it better, or record it and say why: `make ratchets RAISE=<measure>` (docs/HACKING.md).")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
