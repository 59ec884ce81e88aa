"""The pages of the documentation site as they go to its generator; scripts/docs builds them (nightly)."""
import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import api_doc  # noqa: E402
import man_page  # noqa: E402
import site_pages  # noqa: E402

MINIMAL = {
    "docs/README.md": "# Start\n\n[a](a.md), [init](../include/pccl.h#pcclInit), [code](../tool.py)\n",
    "docs/a.md": "# Page *a*\n\n<!-- not\nshown -->\n[README.md](README.md) `<!-- shown -->`\n\n"
                 "<!-- test: sh -->\n```sh\necho '<!-- shown -->' [x](y.md)\n```\n",
    "docs/site/navigation.txt": "# words\n\nFirst\n    docs/README.md\n    ? docs/later.md\n    docs/a.md\n",
    "man/pccl.7": '.TH PCCL 7\n.SH NAME\npccl \\- words\n',
    "include/pccl.h": "int pcclInit(void);\n",
    "tool.py": "print(1)\n",
}


class Reference:
    """Of one function."""

    def __init__(self, root):
        self.header = (root / "include/pccl.h").read_text(encoding="utf-8")

    def text(self):
        return f"# C\n\n### pcclInit\n\n{self.header}\nSee [A](../../docs/a.md).\n"

    @staticmethod
    def places():
        return {"include/pccl.h#pcclInit": "#pcclinit"}


class Minimal(unittest.TestCase):
    """A tree that is clean."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for path, text in MINIMAL.items():
            self.write(path, text)

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text, encoding="utf-8")

    def made(self):
        """{path: text} of the pages."""
        out = self.root / "out"
        site_pages.Site(self.root, {"c.md": Reference}).write(out)
        return {path.relative_to(out).as_posix(): path.read_text(encoding="utf-8") for path in out.rglob("*.md")}

    def assert_refused(self, words):
        with self.assertRaisesRegex(site_pages.BadPages, words):
            self.made()

    def test_links(self):
        made = self.made()
        self.assertIn("[a](a.md), [init](api/c.md#pcclinit), [code](source/tool.py.md)", made["index.md"])
        self.assertIn("[Start](index.md)", made["a.md"], "the title instead of the file's name")
        self.assertIn("See [A](../a.md).", made["api/c.md"])
        self.assertIn("print(1)", made["source/tool.py.md"])

    def test_comments(self):
        page = self.made()["a.md"]
        self.assertNotIn("not", page)
        self.assertNotIn("test:", page)
        self.assertEqual(page.count("<!-- shown -->"), 2)
        self.assertIn("[x](y.md)", page)
        self.assertEqual(page.count("\n"), MINIMAL["docs/a.md"].count("\n"), "lines keep their numbers")

    def test_navigation(self):
        page = self.made()["index.md"]
        self.assertRegex(page, r":caption: First\n\nself\n/a\n")
        self.write("docs/later.md", "# Later\n")
        self.assertRegex(self.made()["index.md"], r"self\n/later\n/a\n")

    def test_a_dead_link(self):
        self.write("docs/a.md", "# A\n\n[x](b.md)\n")
        self.assert_refused(r"docs/a.md:1: dead link b.md")

    def test_a_name_without_an_entry(self):
        self.write("docs/a.md", "# A\n\n[x](../include/pccl.h#include)\n")
        self.assert_refused("the reference has no such name")

    def test_a_page_that_is_not_listed(self):
        self.write("docs/b.md", "# B\n")
        self.assert_refused("docs/b.md is not listed")

    def test_a_page_that_is_listed_and_gone(self):
        (self.root / "docs/a.md").unlink()
        self.assert_refused("docs/a.md does not exist")

    def test_a_page_that_is_listed_twice(self):
        self.write("docs/site/navigation.txt", MINIMAL["docs/site/navigation.txt"] + "    docs/a.md\n")
        self.assert_refused("docs/a.md is listed twice")


class Tree(unittest.TestCase):
    def test_pages_of_this_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder)
            site_pages.Site(ROOT).write(out)
            pages = list(out.rglob("*.md"))
            self.assertGreater(len(pages), 60)
            for page in pages:
                text = site_pages.CODE.sub("", page.read_text(encoding="utf-8"))
                self.assertNotIn("<!--", text, page)
                for _, target in site_pages.LINK.findall(text):
                    path = target.partition("#")[0]
                    if path and not re.match(r"[a-z]+:", target):
                        self.assertTrue((page.parent / path).is_file(), f"{page}: {target}")
            for name in api_doc.PAGES:
                self.assertTrue((out / "api" / name).is_file())


class Built(unittest.TestCase):
    def loaded(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_text(text, encoding="utf-8")
            return list(site_pages.loaded_from_elsewhere(pathlib.Path(folder)))

    def test_what_other_hosts_would_serve(self):
        for name, text in (
            ("a.html", '<script defer src="https://cdn.example/a.js"></script>'),
            ("a.html", '<link rel="stylesheet" href="//fonts.example/a.css">'),
            ("a.html", '<img alt="x" src=http://example.org/a.png>'),
            ("a.css", "@import 'https://fonts.example/a.css';"),
            ("a.css", "src: url(https://fonts.example/a.woff2)"),
        ):
            self.assertEqual(len(self.loaded(name, text)), 1, text)

    def test_what_a_reader_must_click(self):
        text = '<a href="https://example.org">x</a><script src="a.js"></script><link rel="canonical" href="https://x.org/">'
        self.assertEqual(self.loaded("a.html", text), [])


class Manual(unittest.TestCase):
    def made(self, *lines):
        return man_page.markdown("\n".join([".TH PCCL 7", *lines]), ["pccl.3"])

    def test_fonts_and_escapes(self):
        self.assertIn("a <b>--x</b>, <i>y\\_z</i> 2 \\* 3 &lt;", self.made("a", ".BR \\-\\-x ,", "\\fIy_z\\fP 2 * 3 <"))

    def test_a_space_inside_an_argument(self):
        self.assertIn("<b>--set x=</b><i>n</i>".replace(" ", "\N{NO-BREAK SPACE}"), self.made(".BI \\-\\-set\\ x= n"))

    def test_links(self):
        self.assertIn("see [pccl(3)](pccl.3).", self.made("see", ".BR pccl (3)."))
        self.assertIn("<b>other</b>(3)", self.made(".BR other (3)"))

    def test_definitions(self):
        self.assertIn("<b>x</b>\n: First. <br> More.\n\nAfter.\n", self.made(
            ".TP", ".B x", "First.", ".br", "More.", ".PP", "After."))

    def test_code(self):
        self.assertIn("```text\na \\n\n\n  b\n```", self.made(".nf", "a \\en", ".PP", "  b", ".fi"))

    def test_an_unknown_macro(self):
        with self.assertRaisesRegex(man_page.BadManual, "unknown macro .XX"):
            self.made(".XX")

    def test_an_unknown_escape(self):
        with self.assertRaisesRegex(man_page.BadManual, "unknown escape"):
            self.made("a\\(aqb")


class Program(unittest.TestCase):
    def test_reports_and_fails(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a.html").write_text('<script src="//x.example/a.js">', encoding="utf-8")
            said = io.StringIO()
            before, sys.argv = sys.argv, ["site_pages.py", "--built", folder]
            try:
                with contextlib.redirect_stderr(said):
                    self.assertEqual(site_pages.main(), 1)
            finally:
                sys.argv = before
            self.assertIn("a.html: loads from another host", said.getvalue())


if __name__ == "__main__":
    unittest.main()
