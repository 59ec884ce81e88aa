#!/usr/bin/env python3
"""Writes the API reference from the comments of the public headers and the docstrings of the Python package.

    api_doc.py --write FOLDER writes c.md and python.md to it; links to other pages assume a folder in build/
    api_doc.py --check        lists public functions without a description; exits with 1 if there are any
    api_doc.py --undescribed  lists public Python names that have no docstring of their own

Nothing is imported or compiled: the package is read as syntax trees, and the headers as text in the style of this tree.
"""
import argparse
import ast
import pathlib
import re
import sys
import textwrap

from python_source import (
    PROGRAMS,
    decorators,
    described_fields,
    described_parts,
    description_of,
    parameter_names,
    public_bases,
    public_modules,
    public_names,
    signature,
    written,
    written_as,
)

_HEADERS = "pccl pccl_collectives pccl_codecs pccl_loop pccl_sight ccoip_inet ccoip"
HEADERS = [f"include/{name}.h" for name in _HEADERS.split()]
PACKAGE = "python/pccl"
COMMENT_COLUMNS = 117  # without the star and the blank before the text
DOCSTRING_COLUMNS = 120


# ------------------------------------------------------------------------------------------------ words as Markdown


class Words:
    """Converts plain text to Markdown: known names become links, and other code names become code."""

    NAMES = re.compile(
        r"`[^`]*`|(?:\w+/)+\w+\.\w+|\w+->\w+|(?<![\w.`])\*?[A-Za-z_](?:[\w.]*\w)?(?:\(\)|(?<=_)\*)?|[*<>|]"
    )

    def __init__(self, links):
        self.links = links

    def inline(self, text, here=None):
        return self.NAMES.sub(lambda match: self._name(match.group(), here), text)

    def _name(self, word, here):
        if word in "*<>|":
            return "\\" + word
        quoted = word.startswith("`")
        bare = word.strip("`")
        if "->" in bare:
            return f"`{bare}`"
        if not quoted and "/" in bare:
            return f"[{bare}](../../{bare})" if bare.startswith("docs/") else f"`{bare}`"
        key = bare.rstrip("()*")
        target = self.links.get(key) if key != here else None
        looks_like_code = quoted or "_" in bare or bare.endswith("()") or re.match(r"\*|pccl[A-Z]", bare)
        if target and (looks_like_code or re.search(r"[A-Z].*[A-Z]|\.", bare)):
            return f"[`{bare}`]({target})"
        return f"`{bare}`" if looks_like_code else word

    def blocks(self, lines, columns, here=None, parameters=()):
        """Converts lines to Markdown. Understands paragraphs, two-column lists, and code that is indented by four."""
        made = []
        for kind, content in split_blocks(lines, columns, parameters):
            if kind == "code":
                made += ["```", *content, "```", ""]
            elif kind == "pairs":
                made += ["| | |", "|---|---|"]
                made += [f"| {self.inline(name, here)} | {self.inline(text, here)} |" for name, text in content]
                made.append("")
            elif kind == "parameter":
                if made and made[-2].startswith("- "):
                    made.pop()
                name, text = content
                made += [f"- `{name}`: {self.inline(text, here)}", ""]
            else:
                made += [self.inline(content, here), ""]
        return made


def split_blocks(lines, columns, parameters=()):
    """Yields (kind, content) of each block: "text" (a paragraph), "pairs", "parameter" (name, text) or "code"."""
    position = 0
    while position < len(lines):
        line = lines[position]
        if not line.strip():
            position += 1
            continue
        pairs, after = take_pairs(lines, position)
        if pairs:
            yield "pairs", pairs
        elif line.startswith("    "):
            after = position
            while after < len(lines) and (lines[after].startswith("    ") or not lines[after].strip()):
                after += 1
            code = "\n".join(lines[position:after]).rstrip()
            yield "code", textwrap.dedent(code).splitlines()
        else:
            after = end_of_paragraph(lines, position, columns, parameters)
            text = " ".join(part.strip() for part in lines[position:after])
            yield from parts_of_paragraph(text, parameters)
        position = after


def parts_of_paragraph(text, parameters):
    """Splits a paragraph where a sentence begins with the name of a parameter and a colon. Yields (kind, content)."""
    names = "|".join(map(re.escape, parameters)) or "(?!)"
    for part in re.split(rf"(?<=\.) (?=(?:{names}): )", text):
        name, _, rest = part.partition(": ")
        yield ("parameter", (name, rest)) if name in parameters else ("text", part)


PAIR = re.compile(r"^( *)(\S+(?: \S+)*?)  +(\S.*)$")
PAIR_NAME_MAX = 40


def pair_at(line, indent, column):
    """Returns (name, text) if the line has a name in the first column and text in the second."""
    name, text = line[indent:column], line[column:]
    begins = line[:indent].isspace() or indent == 0
    if begins and name[:1].strip() and name.endswith(" ") and text[:1].strip():
        return name.strip(), text
    return None


def take_pairs(lines, position):
    """Returns the pairs of a list with at least two lines and an aligned second column, and the position after it."""
    first = PAIR.match(lines[position])
    if not first or len(first.group(2)) > PAIR_NAME_MAX:
        return [], position
    indent, column, pairs = len(first.group(1)), first.start(3), []
    while position < len(lines) and lines[position].strip():
        line = lines[position]
        pair = pair_at(line, indent, column)
        if pair:
            pairs.append(pair)
        elif line.startswith(" " * column):
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]} {line.strip()}")
        else:
            break
        position += 1
    return (pairs, position) if len(pairs) > 1 else ([], position)


def end_of_paragraph(lines, position, columns, parameters):
    """Returns the end of a paragraph. It ends at an empty line, where the next word would have fitted on the line, and
    at an indented line, unless the paragraph describes a parameter, whose description continues on indented lines."""
    hanging = lines[position].partition(":")[0] in parameters
    position += 1
    while position < len(lines):
        before, line = lines[position - 1], lines[position]
        if not line.strip() or line.partition(":")[0] in parameters or (line.startswith("  ") and not hanging):
            break
        if hanging and line.startswith("  "):
            position += 1
            continue
        if len(before) + 1 + len(line.split()[0]) <= columns and before.rstrip()[-1] in ".:":
            break
        position += 1
    return position


# ------------------------------------------------------------------------------------------------ headers


class Item:
    """An item that a header declares. kind: function, enum, struct, type or macro. above: the function directly above
    this one, whose comment describes both."""

    def __init__(self, kind, name, comment, code, line):
        self.kind, self.name, self.comment, self.code, self.line, self.above = kind, name, comment, code, line, None


COMMENT = re.compile(r"/\*(.*?)\*/", re.S)


def comment_lines(text):
    """Returns the lines of a comment without its stars."""
    lines = [re.sub(r"^ \* ?", "", line) for line in text.strip("\n").splitlines()]
    lines = [line.rstrip() for line in lines]
    if lines:
        lines[0] = lines[0].lstrip()
    while lines and not lines[-1]:
        lines.pop()
    return lines


class Header:
    """The contents of a public header, in order."""

    def __init__(self, path, text):
        self.path = path
        self.about = []
        self.sections = [("", [])]  # title, items
        self.free = {}  # comments of a section that do not belong to an item
        self._read(text)

    def items(self):
        return [item for _, items in self.sections for item in items]

    def _read(self, text):
        position, comment, offset = 0, [], 0
        while True:
            match = re.compile(r"\s*").match(text, position)
            position = match.end()
            if position >= len(text):
                break
            if text.startswith("/*", position):
                found = COMMENT.match(text, position)
                offset, position = position, found.end()
                section = re.fullmatch(r"\s*-{8,} (.*?)\s*", found.group(1))
                self._leave(comment)
                comment = [] if section else comment_lines(found.group(1))
                if section:
                    self.sections.append((section.group(1), []))
                continue
            begin = position
            position = self._end_of_declaration(text, begin)
            item = declaration(text[begin:position], comment, text.count("\n", 0, begin) + 1)
            if item:
                items = self.sections[-1][1]
                if match.group() == "\n" and items and items[-1].kind == item.kind == "function" and not comment:
                    item.above = items[-1].name
                items.append(item)
                comment = []
            elif text.startswith("#ifndef", begin) and not self.about:
                self.about, comment = comment, []
        self._leave(comment)

    def _leave(self, comment):
        """Adds a comment without a declaration to its section."""
        if comment:
            self.free.setdefault(self.sections[-1][0], []).append(comment)

    @staticmethod
    def _end_of_declaration(text, begin):
        if text[begin] == "#":
            return re.compile(r"(?:[^\n]*\\\n)*[^\n]*\n?").match(text, begin).end()
        depth, position = 0, begin
        while position < len(text):
            if text.startswith("/*", position):
                position = text.index("*/", position) + 2
                continue
            character = text[position]
            depth += {"{": 1, "}": -1}.get(character, 0)
            position += 1
            if character == ";" and depth == 0:
                break
            if depth == 0 and character == "}" and text[begin] == "}":
                break
            if character == "{" and text[begin:position].startswith('extern "C"'):
                break
        if depth <= 0:  # a remark that follows on the same line
            remark = re.compile(r"[ \t]*/\*[^\n]*\*/").match(text, position)
            position = remark.end() if remark else position
        return position


def declaration(code, comment, line):
    """Returns the item that a piece of a header declares, or None for include guards, includes and the export macro."""
    macro = re.match(r"#define (\w+)(?:[ \t]+(.*))?", code, re.S)
    if macro:
        name, value = macro.group(1), (macro.group(2) or "").strip()
        if name.endswith("_H") or name == "PCCL_EXPORT":
            return None
        if not comment and not value:
            return None
        value = " ".join(value.replace("\\\n", " ").split())
        return Item("macro", name, comment, f"#define {name} {value}".rstrip(), line)
    if code.startswith("PCCL_EXPORT"):
        export = "PCCL_EXPORT "
        signature = code[len(export) :].replace("\n" + " " * len(export), "\n")
        name = re.search(r"(\w+)\s*\(", signature).group(1)
        return Item("function", name, comment, signature, line)
    callback = re.match(r"typedef \w+ \(\*(\w+)\)", code)
    if callback:
        return Item("type", callback.group(1), comment, code, line)
    body = re.match(r"typedef (enum|struct) (\w+) \{.*\} (\w+);", code, re.S)
    if body:
        return Item(body.group(1), body.group(3), comment, code, line)
    handle = re.match(r"typedef struct \w+ (\w+);", code)
    return Item("type", handle.group(1), comment, code, line) if handle else None


def members(code):
    """Returns the members of an enumeration or struct: (text, remark) each, and (None, lines) for comments."""
    inner = code[code.index("{") + 1 : code.rindex("}")]
    position, made = 0, []
    while True:
        position = re.compile(r"\s*").match(inner, position).end()
        if position >= len(inner):
            return made
        between = COMMENT.match(inner, position)
        if between:
            made.append((None, [" ".join(part.strip(" *") for part in between.group(1).splitlines()).strip()]))
            position = between.end()
            continue
        end = re.compile(r"[^,;/]*[,;]?").match(inner, position).end()
        text = " ".join(inner[position:end].rstrip(",; \n").split())
        remark = re.compile(r"[ \t]*/\*(.*?)\*/", re.S).match(inner, end)
        said = " ".join(part.strip(" *") for part in remark.group(1).splitlines()).strip() if remark else ""
        made.append((text, said))
        position = remark.end() if remark else end


RESULT = re.compile(r"^(pccl[A-Z]\w+)(?:\s+(\S.*))?$")


def split_results(comment, codes):
    """Splits a function's comment into the lines before the result codes, which are at the end, and [(code, when)]."""
    start = len(comment)
    for position in range(len(comment) - 1, -1, -1):
        line = comment[position]
        match = RESULT.match(line)
        if match and match.group(1) in codes:
            start = position
        elif not line.startswith("    ") and not (line.startswith("and the ") and position == len(comment) - 1):
            break
    results = []
    for line in comment[start:]:
        match = RESULT.match(line)
        if match:
            results.append((match.group(1), match.group(2) or ""))
        elif line.startswith("and the "):
            results.append(("", line))
        elif results:
            results[-1] = (results[-1][0], f"{results[-1][1]} {line.strip()}".strip())
    return comment[:start], results


def enumerators(header, name):
    codes = [item.code for item in header.items() if item.kind == "enum" and item.name == name]
    return [text.split(" = ")[0] for code in codes for text, _ in members(code) if text]


class CPage:
    """The reference of the C interface."""

    def __init__(self, root):
        self.headers = [Header(path, (root / path).read_text(encoding="utf-8")) for path in HEADERS]
        self.codes = enumerators(self.headers[0], "pcclResult_t")
        shown = [item for header in self.headers for item in header.items() if item.kind != "macro" or item.comment]
        links = {item.name: "#" + item.name.lower() for item in shown}
        links.update({code: "#pcclresult_t" for code in self.codes})
        self.words = Words(links)

    def text(self):
        lines = [
            "# C interface",
            "",
            "Generated from " + ", ".join(f"`{path}`" for path in HEADERS) + " by `tools/api_doc.py`. "
            "The same for Python: [python.md](python.md).",
            "",
        ]
        lines += self.words.blocks(self.headers[0].about, COMMENT_COLUMNS)
        lines += self._contents()
        for header in self.headers:
            lines += [f"## {pathlib.PurePath(header.path).name}", ""]
            if header is not self.headers[0]:
                lines += self.words.blocks(header.about, COMMENT_COLUMNS)
            for title, items in header.sections:
                lines += self._section(header, title, items)
        return "\n".join(lines).rstrip() + "\n"

    def places(self):
        """Maps "header#name" and "header" to their anchors on this page."""
        found = {header.path: "#" + pathlib.PurePath(header.path).name.replace(".", "") for header in self.headers}
        items = [(header.path, item.name) for header in self.headers for item in header.items()]
        return {**found, **{f"{path}#{name}": "#" + name.lower() for path, name in items if name in self.words.links}}

    def _contents(self):
        lines = ["| | |", "|---|---|"]
        for title, items in [section for header in self.headers for section in header.sections]:
            shown = [f"[`{item.name}`](#{item.name.lower()})" for item in items if item.kind != "macro"]
            if title and shown:
                lines.append(f"| [{title.capitalize()}](#{title.replace(' ', '-')}) | {', '.join(shown)} |")
        return lines + [""]

    def _section(self, header, title, items):
        lines = [f"## {title.capitalize()}", ""] if title else []
        for comment in header.free.get(title, []):
            lines += self.words.blocks(comment, COMMENT_COLUMNS)
        macros = [item for item in items if item.kind == "macro"]
        plain = [item for item in macros if not item.comment]
        if plain:
            lines += ["```c", *(item.code for item in plain), "```", ""]
        for item in items:
            if item not in plain:
                lines += self._item(item)
        return lines

    def _item(self, item):
        lines = [f"### {item.name}", ""]
        if item.kind in ("enum", "struct"):
            lines += self.words.blocks(item.comment, COMMENT_COLUMNS, item.name)
            return lines + self._members(item)
        lines += ["```c", item.code, "```", ""]
        if item.kind != "function":
            return lines + self.words.blocks(item.comment, COMMENT_COLUMNS, item.name)
        if item.above:
            return lines + [f"Described at [`{item.above}`](#{item.above.lower()}).", ""]
        before, results = split_results(item.comment, self.codes)
        lines += self.words.blocks(before, COMMENT_COLUMNS, item.name)
        if results:
            lines += ["| result | when |", "|---|---|"]
            for code, when in results:
                name = self.words.inline(code, item.name) if code else ""
                lines.append(f"| {name} | {self.words.inline(when, item.name)} |")
            lines.append("")
        return lines

    def _members(self, item):
        enumeration = item.kind == "enum"
        head = ["| name | value | |" if enumeration else "| member | type | |", "|---|---|---|"]
        lines, open_table = [], False
        for text, said in members(item.code):
            if text is None:
                lines += ([""] if open_table else []) + self.words.blocks(said, COMMENT_COLUMNS, item.name)
                open_table = False
                continue
            if not open_table:
                lines += head
                open_table = True
            if enumeration:
                name, _, value = text.partition(" = ")
            else:
                value, name = re.match(r"(.*?)(\w+(?:\[\w+\])*)$", text).groups()
            lines.append(f"| `{name}` | {self._shown(value.strip())} | {self.words.inline(said, item.name)} |")
        return lines + [""]

    def _shown(self, text):
        """Returns a value or type as Markdown, with a link if it is documented here."""
        name = text.rstrip(" *").split()[-1]
        return self.words.inline(text) if name in self.words.links or text.isdigit() else f"`{text}`"

    def findings(self):
        """Yields the functions whose comments do not describe the result that they return."""
        for header in self.headers:
            for item in header.items():
                if item.kind != "function" or item.above:
                    continue
                before, results = split_results(item.comment, self.codes)
                place = f"{header.path}:{item.line}: {item.name}"
                if not before:
                    yield f"{place} has no description"
                elif item.code.startswith("pcclResult_t") and not results and "codes" not in " ".join(before):
                    yield f"{place}: its description has no list of results at its end"


# ------------------------------------------------------------------------------------------------ Python


class PythonPage:
    """The reference of the Python interface."""

    # Special methods that users call through syntax. Documented if they have a docstring.
    SPECIAL = {"__await__": "await handle"}
    # Classes that users do not construct, because other calls return them.
    RESULTS = ("AsyncReduceHandle", "Member", "Method", "TrainingState")
    # Enumerations that have a different name in the C interface.
    C_NAMES = {"ReduceOp": "pcclRedOp_t"}

    def __init__(self, root):
        self.c_links = CPage(root).words.links
        self.package = package = root / PACKAGE
        self.parts = [("pccl", *public_names(package, "pccl."))]
        for name in public_modules(package):
            self.parts.append((f"pccl.{name}", *public_names(package / name, f"pccl.{name}.")))
        links, methods = {}, {}
        for title, _, publics in self.parts:
            if title.split(".")[-1] in PROGRAMS:
                continue
            for public in publics:
                links.setdefault(public.name, public.anchor)
                links[public.full] = public.anchor
                for one in public_methods(public.node):
                    methods.setdefault(one.name, []).append(method_anchor(public, one))
                    links[f"{public.name}.{one.name}"] = method_anchor(public, one)
        for name, anchors in methods.items():
            if len(set(anchors)) == 1:
                links.setdefault(name, anchors[0])
        for title, *_ in self.parts[1:]:
            links[title] = "#" + title.replace(".", "")
        self.words = Words(links)

    def text(self):
        lines = [
            "# Python interface",
            "",
            "Generated from the docstrings and signatures of `python/pccl` by `tools/api_doc.py`. "
            "The same for C: [c.md](c.md).",
            "",
        ]
        for title, module, publics in self.parts:
            lines += [f"## {title}", "", *self._doc(module.tree, title)]
            if title.split(".")[-1] in PROGRAMS:
                continue
            lines += self._contents(publics)
            for public in sorted(publics, key=lambda one: KINDS.index(kind_of(one))):
                lines += self._public(public)
        return "\n".join(lines).rstrip() + "\n"

    def places(self):
        """Maps "file#name", "file#class.method" and "package/__init__.py" to their anchors on this page."""
        found = {}
        for title, module, publics in self.parts:
            found[f"{PACKAGE}/{module.path.relative_to(self.package).as_posix()}"] = "#" + title.replace(".", "")
            for public in publics if title.split(".")[-1] not in PROGRAMS else []:
                file = f"{PACKAGE}/{public.path.relative_to(self.package).as_posix()}"
                found[f"{file}#{public.name}"] = public.anchor
                for one in public_methods(public.node):
                    found[f"{file}#{public.name}.{one.name}"] = method_anchor(public, one)
        return found

    def _doc(self, node, here=None, parameters=()):
        lines = (ast.get_docstring(node) or "").splitlines()
        return self.words.blocks(lines, DOCSTRING_COLUMNS - node.body[0].col_offset, here, parameters)

    @staticmethod
    def _contents(publics):
        if len(publics) < 3:
            return []
        kinds = {kind: [] for kind in KINDS}
        for public in publics:
            kinds[kind_of(public)].append(f"[`{public.name}`]({public.anchor})")
        rows = [f"| {kind} | {', '.join(names)} |" for kind, names in kinds.items() if names]
        return ["| | |", "|---|---|", *rows, ""]

    def _public(self, public):
        lines = [f"### {public.full}", ""]
        if isinstance(public.node, ast.FunctionDef):
            return lines + self._callable(public.node, public.full, public.name, False)
        return lines + self._class(public)

    def _callable(self, node, shown, here, skip_self):
        parts, returns = signature(node, node.name, skip_self)
        code = ["```python", *written(shown, parts, returns), "```", ""]
        return code + self._doc(node, here, parameter_names(node))

    def _class(self, public):
        node, kind = public.node, kind_of(public)
        lines = []
        methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
        initial = next((one for one in methods if one.name == "__init__"), None)
        fields = [one for one in node.body if isinstance(one, ast.AnnAssign) and not one.target.id.startswith("_")]
        names = parameter_names(initial) if initial else {one.target.id for one in fields}
        if description_of(node):
            names = {field.target.id for fields in described_fields(node) for field, _ in fields}
        if public.name in self.RESULTS:
            pass
        elif description_of(node):
            lines += ["```python", *written(public.full, described_parts(node), ""), "```", ""]
        elif initial:
            parts, _ = signature(initial, "__init__", True)
            lines += ["```python", *written(public.full, parts, ""), "```", ""]
        elif fields and "dataclass" in decorators(node):
            parts = [f"{one.target.id}: {written_as(one.annotation)}" + default_of(one) for one in fields]
            lines += ["```python", *written(public.full, parts, ""), "```", ""]
        bases = list(public_bases(node))
        if bases:
            lines += ["Derives from " + ", ".join(self.words.inline(f"`{base}`") for base in bases) + ".", ""]
        lines += self._doc(node, public.name, names)
        if kind == "enumerations":
            lines += self._enumerators(node)
            name = self.C_NAMES.get(public.name, f"pccl{public.name}_t")
            lines += [f"Meaning: [`{name}`](c.md{self.c_links[name]}).", ""] if name in self.c_links else []
        for one in methods:
            lines += self._method(public, one, methods)
        return lines

    @staticmethod
    def _enumerators(node):
        values = [one for one in node.body if isinstance(one, ast.Assign)]
        lines = ["| name | value |", "|---|---|"]
        lines += [f"| `{one.targets[0].id}` | {written_as(one.value)} |" for one in values]
        return lines + [""]

    def _method(self, public, node, methods):
        kinds = decorators(node)
        if node.name in self.SPECIAL:
            return ["```python", self.SPECIAL[node.name], "```", "", *self._doc(node)]
        if node not in public_methods(public.node):
            return []
        lines = [f"#### {public.name}.{node.name}", ""]
        if "property" in kinds:
            writable = any(f"{node.name}.setter" in decorators(other) for other in methods)
            note = "property, can be set" if writable else "property"
            returns = f": {written_as(node.returns)}" if node.returns else ""
            return lines + ["```python", f"{node.name}{returns}  # {note}", "```", "", *self._doc(node, node.name)]
        how = "class method" if "classmethod" in kinds else "static method" if "staticmethod" in kinds else ""
        lines += self._callable(node, node.name, node.name, "staticmethod" not in kinds)
        if how:
            end = lines.index("```")
            lines[end - 1] += f"  # {how}"
        return lines

    def undescribed(self):
        for title, module, publics in self.parts:
            if title.split(".")[-1] in PROGRAMS:
                continue
            for public in publics:
                if not ast.get_docstring(public.node):
                    yield public.full
                for one in public_methods(public.node):
                    if not ast.get_docstring(one):
                        yield f"{public.full}.{one.name}"


def public_methods(node):
    """Returns the public methods and properties of a class."""
    if not isinstance(node, ast.ClassDef):
        return []
    functions = [one for one in node.body if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
    return [one for one in functions if not any(kind.endswith(".setter") for kind in decorators(one))]


def method_anchor(public, node):
    return "#" + f"{public.name}{node.name}".lower()


def default_of(field):
    return f" = {written_as(field.value)}" if field.value is not None else ""


KINDS = ["classes", "functions", "enumerations", "exceptions"]


def kind_of(public):
    if isinstance(public.node, ast.FunctionDef):
        return "functions"
    bases = " ".join(written_as(base) for base in public.node.bases)
    if "_Code" in bases or "Enum" in bases:
        return "enumerations"
    return "exceptions" if public.path.name == "_errors.py" else "classes"


# ------------------------------------------------------------------------------------------------ the program


PAGES = {"c.md": CPage, "python.md": PythonPage}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FOLDER", type=pathlib.Path, help="write c.md and python.md there")
    what.add_argument("--check", action="store_true", help="list public functions without a description")
    what.add_argument("--undescribed", action="store_true", help="list Python names without a docstring")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    if options.write:
        options.write.mkdir(parents=True, exist_ok=True)
        for name, page in PAGES.items():
            (options.write / name).write_text(page(options.root).text(), encoding="utf-8")
        return 0
    lines = list((PythonPage(options.root).undescribed if options.undescribed else CPage(options.root).findings)())
    sys.stdout.writelines(line + "\n" for line in lines)
    return 1 if lines and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
