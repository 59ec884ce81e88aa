#!/usr/bin/env python3
"""Prepares the pages of the documentation site, and checks the built site.

    site_pages.py --write FOLDER   writes the pages for Sphinx
    site_pages.py --built FOLDER   lists resources that a built site loads from other hosts; exits with 1 if any

The pages are those in docs/site/navigation.txt, the API reference, the manual, and every file to which one of them
links: Markdown becomes a page, a picture is copied, and any other text becomes a page with its source. Comments are
removed. Links are changed to point to the files on the site; a link to a name in a header or in the Python package
points to the reference. A dead link, or a page under docs/ that is not in the navigation, is an error.
"""
import argparse
import os
import pathlib
import re
import shutil
import sys

import api_doc
import man_page

NAVIGATION = "docs/site/navigation.txt"
START = "docs/README.md"
API = "build/api/"
LEXERS = {".py": "python", ".c": "c", ".h": "c", ".sh": "sh", ".sbatch": "sh", ".yaml": "yaml", ".yml": "yaml",
          ".json": "json", ".toml": "toml", ".cmake": "cmake"}
PICTURES = (".png", ".svg")
CODE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]* *$|`[^`\n]+`", re.S | re.M)
COMMENT = re.compile(r"<!--.*?-->", re.S)
LINK = re.compile(r"\[([^]]*)\]\(([^)\s]+)\)")
LOADED = re.compile(r"""<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc\s*=\s*["']?(?:https?:)?//[^"'\s>]+"""
                    r"""|<link\b(?![^>]*rel="(?:canonical|next|prev)")[^>]*\bhref\s*=\s*["']?(?:https?:)?//[^"'\s>]+"""
                    r"""|(?:url\(|@import)\s*["']?(?:https?:)?//[^"')\s]+""")


class BadPages(Exception):
    pass


def site_path(origin):
    """Returns the path of a repository file on the site. A page has no suffix .html."""
    if origin == START:
        return "index"
    if origin.startswith(API):
        return "api/" + origin[len(API):-len(".md")]
    if origin.startswith("man/"):
        return origin
    path = origin[len("docs/"):] if origin.startswith("docs/") else origin
    if origin.endswith(".md"):
        return path[:-len(".md")]
    return path if origin.endswith(PICTURES) else "source/" + path


def replace_in_prose(pattern, change, text):
    """Replaces matches outside code. `change` is called with the groups of a match."""
    masked = CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    parts, position = [], 0
    for match in pattern.finditer(masked):
        found = [text[slice(*match.span(group))] for group in range(pattern.groups + 1)]
        parts += [text[position:match.start()], change(found)]
        position = match.end()
    return "".join([*parts, text[position:]])


def without_comments(text):
    return replace_in_prose(COMMENT, lambda found: "\n" * found[0].count("\n"), text)


def read_navigation(root):
    """Returns [(title of a group, its pages)]. A page may be missing if its line begins with "?"."""
    groups = []
    for number, line in enumerate((root / NAVIGATION).read_text(encoding="utf-8").splitlines(), 1):
        path = line.strip().lstrip("? ")
        if not path or line.startswith("#"):
            continue
        if not line.startswith(" "):
            groups.append((path, []))
        elif not groups:
            raise BadPages(f"{NAVIGATION}:{number}: a page before the first group")
        elif path.startswith(API) or (root / path).is_file():
            groups[-1][1].append(path)
        elif not line.strip().startswith("?"):
            raise BadPages(f"{NAVIGATION}:{number}: {path} does not exist")
    return groups


class Site:
    def __init__(self, root, reference=api_doc.PAGES):
        self.root = root
        self.groups = read_navigation(root)
        self.generated = {}
        self.places = {}  # maps a name in the sources to (page of the reference, anchor)
        for name, page_of in reference.items():
            page = page_of(root)
            self.generated[API + name] = page.text()
            self.places.update({place: (API + name, anchor) for place, anchor in page.places().items()})
        manuals = sorted(path.name for path in (root / "man").iterdir())
        for name in manuals:
            text = (root / "man" / name).read_text(encoding="utf-8")
            self.generated["man/" + name] = man_page.markdown(text, manuals)
        self.errors = []
        self.wanted = []  # files of the repository, in the order in which they were found
        self.in_navigation = [path for _, paths in self.groups for path in paths]

    def write(self, folder):
        self.check_navigation()
        self.wanted = list(dict.fromkeys([*self.in_navigation, *self.generated]))
        for origin in self.wanted:  # the list grows in the loop
            target = folder / site_path(origin)
            target.parent.mkdir(parents=True, exist_ok=True)
            if origin.endswith(PICTURES):
                shutil.copyfile(self.root / origin, target)
            else:
                target.with_name(target.name + ".md").write_text(self.page(origin), encoding="utf-8")
        if self.errors:
            raise BadPages("\n".join(self.errors))

    def check_navigation(self):
        for path in sorted({one for one in self.in_navigation if self.in_navigation.count(one) > 1}):
            self.errors.append(f"{NAVIGATION}:1: {path} is listed twice")
        for file in sorted(self.root.glob("docs/**/*.md")):
            path = file.relative_to(self.root).as_posix()
            if path not in self.in_navigation:
                self.errors.append(f"{NAVIGATION}:1: {path} is not listed")

    def page(self, origin):
        if origin in self.generated:
            text = self.generated[origin]
        elif origin.endswith(".md"):
            text = without_comments((self.root / origin).read_text(encoding="utf-8"))
        else:
            return self.source_page(origin)
        text = replace_in_prose(LINK, lambda found: self.link(origin, *found), text)
        if origin == START:
            return text + self.contents()
        return text if origin in self.in_navigation else f"---\norphan: true\n---\n\n{text}"

    def source_page(self, origin):
        text = (self.root / origin).read_text(encoding="utf-8")
        lexer = LEXERS.get(pathlib.PurePath(origin).suffix, "text")
        return f"---\norphan: true\n---\n\n# {origin}\n\n`````{lexer}\n{text.rstrip()}\n`````\n"

    def contents(self):
        lines = []
        for title, paths in self.groups:
            lines += ["", "````{toctree}", ":hidden:", f":caption: {title}", ""]
            lines += ["self" if path == START else "/" + site_path(path) for path in paths]
            lines += ["````"]
        return "\n".join(lines) + "\n"

    def title(self, origin):
        text = self.generated.get(origin) or (self.root / origin).read_text(encoding="utf-8")
        return re.search(r"^# (.*)$", text, re.M).group(1)

    def link(self, origin, whole, text, target):
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or not path:
            return whole
        file = pathlib.PurePosixPath(os.path.normpath(pathlib.PurePosixPath(origin).parent / path)).as_posix()
        if (self.root / file).is_dir() and not (self.root / file / "README.md").exists():
            file = next((one for one in self.in_navigation if one.startswith(file + "/")), file)
        elif (self.root / file).is_dir():
            file += "/README.md"
        place = self.places.get(f"{file}#{anchor}" if anchor else file)
        if place:
            file, anchor = place[0], place[1].lstrip("#")
        elif anchor and not file.endswith(".md"):
            self.errors.append(f"{origin}:1: dead link {target}: the reference has no such name")
        if file not in self.generated and not (self.root / file).is_file():
            self.errors.append(f"{origin}:1: dead link {target}")
            return whole
        if file not in self.wanted:
            self.wanted.append(file)
        here = pathlib.PurePosixPath(site_path(origin)).parent
        there = os.path.relpath(site_path(file), here) + ("" if file.endswith(PICTURES) else ".md")
        if path.endswith(".md") and text in (target, pathlib.PurePath(path).name):
            text = self.title(file)  # instead of the file name
        return f"[{text}]({there}" + (f"#{anchor}" if anchor else "") + ")"


def loaded_from_elsewhere(folder):
    """Yields (file, text) for each place in a built site that loads from another host."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in (".html", ".css", ".js", ".svg"):
            for match in LOADED.finditer(path.read_text(encoding="utf-8")):
                yield path.relative_to(folder), match.group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", metavar="FOLDER", type=pathlib.Path, help="write the pages there")
    what.add_argument("--built", metavar="FOLDER", type=pathlib.Path, help="check the site that was built there")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    options = parser.parse_args()
    if options.write:
        try:
            Site(options.root).write(options.write)
        except (BadPages, man_page.BadManual) as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    findings = list(loaded_from_elsewhere(options.built))
    for path, loaded in findings:
        print(f"{path}: loads from another host: {loaded}", file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
