"""Converts a manual page (with the subset of man(7) macros that ours use) to Markdown. An unknown macro or escape is an
error."""
import re

TOKEN = re.compile(r"\\(?:f(.)|(.))")
PLAIN = {"-": "-", "e": "\\", "&": "", " ": "\N{NO-BREAK SPACE}"}
TAGS = {"B": "b", "I": "i"}
ARGUMENT = re.compile(r'"([^"]*)"|((?:\\.|\S)+)')
FONTS = ("B", "I", "BR", "BI", "IR", "RB", "RI", "IB")


class BadManual(Exception):
    pass


def escaped(text):
    """Escapes the characters that have a special meaning in Markdown."""
    text = text.replace("&", "&amp;").replace("<", "&lt;")
    return re.sub(r"([\\`*_\[\]|#~])", r"\\\1", text)


def plain(text):
    """Returns the text without font changes, for a code block."""
    return TOKEN.sub(lambda match: "" if match.group(1) else PLAIN[match.group(2)], text)


def inline(text, font="R"):
    """Converts text with font changes to Markdown."""
    parts, position, current = [], 0, font
    for match in [*TOKEN.finditer(text), None]:
        piece = text[position:match.start() if match else len(text)]
        if match and match.group(2):
            if match.group(2) not in PLAIN:
                raise BadManual(f"unknown escape {match.group()}")
            piece += PLAIN[match.group(2)]
        if parts and parts[-1][0] == current:
            parts[-1] = (current, parts[-1][1] + piece)
        else:
            parts.append((current, piece))
        if match:
            position = match.end()
            if match.group(1):
                current = font if match.group(1) in "PR" else match.group(1)
    made = ""
    for one, piece in parts:
        tag = TAGS.get(one) if piece.strip() else None
        made += f"<{tag}>{escaped(piece)}</{tag}>" if tag else escaped(piece)
    return made


def in_fonts(macro, rest):
    """Converts the arguments of .B, .BR and similar macros."""
    words = [quoted or bare for quoted, bare in ARGUMENT.findall(rest)]
    if len(macro) == 1:
        return inline(" ".join(words), macro)
    return "".join(inline(word, macro[index % 2]) for index, word in enumerate(words))


class Page:
    def __init__(self):
        self.lines = []
        self.words = []  # words of the current paragraph
        self.code = None  # lines of the current code block, or None
        self.depth = 0  # nesting depth of .RS
        self.item = False  # true inside a definition
        self.first = False  # true until the definition has its first paragraph
        self.term = False  # true if the next line is a term

    def end_paragraph(self):
        text = " ".join(self.words).strip()
        self.words = []
        if text:
            self.add([text])

    def add(self, block):
        """Adds the lines of a paragraph or code block, indented according to the enclosing definitions."""
        prefix = "  " * (self.depth + self.item)
        if self.first:
            first, self.first = prefix[2:] + ": " + block[0], False
            self.lines += [first, *(prefix + line for line in block[1:]), ""]
        else:
            self.lines += [*((prefix + line).rstrip() for line in block), ""]

    def heading(self, marks, text):
        self.end_paragraph()
        self.item, self.depth, text = False, 0, plain(text)
        if text.isupper() and text != "HTTP":
            text = text.capitalize()
        self.lines += [f"{marks} {escaped(text)}", ""]

    def text(self, made):
        if self.term:
            self.lines.append("  " * self.depth + made)
            self.term, self.item, self.first = False, True, True
        else:
            self.words.append(made)

    def line(self, line):
        macro, _, rest = line[1:].partition(" ") if line.startswith(".") else ("", "", line)
        rest = rest.strip() if macro else rest
        if self.code is not None:
            self.code_line(macro, rest)
        elif not macro:
            self.text(inline(rest))
        elif macro in FONTS:
            self.text(in_fonts(macro, rest))
        elif macro == "TH":
            name, section = rest.split()[:2]
            self.lines += [f"# {plain(name).lower()}({section})", ""]
        elif macro in ("SH", "SS"):
            self.heading("##" if macro == "SH" else "###", rest.strip('"'))
        elif macro == "br":
            self.words.append("<br>")
        else:
            self.end_paragraph()
            self.structure(macro)

    def structure(self, macro):
        if macro == "TP":
            self.term, self.item = True, False
        elif macro == "PP":
            self.item = False
        elif macro in ("nf", "EX"):
            self.code = []
        elif macro == "RS":
            self.depth += 1
        elif macro == "RE":
            self.depth -= 1
        else:
            raise BadManual(f"unknown macro .{macro}")

    def code_line(self, macro, rest):
        if macro in ("fi", "EE"):
            block, self.code = ["```text", *self.code, "```"], None
            self.add(block)
        elif macro == "PP":
            self.code.append("")
        elif macro and macro not in FONTS:
            raise BadManual(f"unknown macro .{macro} in a block of code")
        else:
            self.code.append(plain(rest))


def markdown(text, others=()):
    """Converts a page to Markdown. `others`: names such as "pccl.7" that become links."""
    page = Page()
    for line in text.splitlines():
        page.line(line)
    page.end_paragraph()

    def link(match):
        name = f"{match.group(1)}.{match.group(2)}"
        return f"[{match.group(1)}({match.group(2)})]({name})" if name in others else match.group()

    made = "\n".join(page.lines)
    return re.sub(r"<b>([\w-]+)</b>\s?\((\d)\)", link, made).rstrip() + "\n"
