"""tools/api_doc.py describes every public name, and follows its sources."""
import ast
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools/api_doc.py"
sys.path.insert(0, str(TOOL.parent))

import api_doc  # noqa: E402
import api_manual  # noqa: E402


def program(what, root):
    """(exit code, what it printed)"""
    command = [sys.executable, "-B", str(TOOL), *what, "--root", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.pages = {name: page(ROOT) for name, page in api_doc.PAGES.items()}
        cls.texts = {name: page.text() for name, page in cls.pages.items()}

    def test_every_function_has_a_description(self):
        self.assertEqual(program(["--check"], ROOT), (0, ""))

    def test_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(program(["--write", str(pathlib.Path(folder) / "api")], ROOT), (0, ""))
            for name, text in self.texts.items():
                self.assertEqual((pathlib.Path(folder) / "api" / name).read_text(encoding="utf-8"), text)

    def test_manual_describes_every_function_and_type(self):
        """pccl(3) lists the pages; groff finds no error in them."""
        pages = dict(api_manual.Manual(ROOT).pages())
        names = {place.split("#")[1] for place in self.pages["c.md"].places() if "#" in place}
        names = {name for name in names if not name.isupper() and not name.startswith("CCOIP_")}
        self.assertEqual({f"{name}.3" for name in names} - set(pages), set())
        overview = (ROOT / "man/pccl.3").read_text(encoding="utf-8")
        described = {name[:-2] for name, text in pages.items() if not text.startswith(".so ")}
        self.assertEqual(set(re.findall(r"^\.BR (pccl_\w+) \(3\)$", overview, re.M)), described)
        for name in described:
            functions = re.findall(r"^\w.*?\b(pccl\w+)\(", pages[f"{name}.3"].partition(".SH DESCRIPTION")[0], re.M)
            titles = ", ".join(re.findall(r"^\.SS (.*)$", pages[f"{name}.3"], re.M)).split(", ")
            self.assertEqual(set(functions) - set(titles), set())
        text = "".join(pages[f"{name}.3"] for name in sorted(described))
        done = subprocess.run(["groff", "-man", "-Tutf8", "-ww"], input=text, capture_output=True, text=True, check=True)
        self.assertEqual(done.stderr, "")

    def test_places_are_headings(self):
        """Links of pages to names in the sources lead to these on the site."""
        for name, page in self.pages.items():
            headings = {"#" + re.sub(r"[^\w\s-]", "", one.lower()).replace(" ", "-")
                        for one in re.findall(r"^#+ (.*)$", self.texts[name], re.M)}
            places = page.places()
            self.assertGreater(len(places), 100)
            self.assertEqual(set(places.values()) - headings, set())

    def test_name_every_function_and_type_of_the_headers(self):
        page = self.texts["c.md"]
        for header in api_doc.HEADERS:
            text = re.sub(r"/\*.*?\*/", "", (ROOT / header).read_text(encoding="utf-8"), flags=re.S)
            names = re.findall(r"^PCCL_EXPORT\b[^;(]*?\b(\w+)\s*\(", text, re.M)
            names += re.findall(r"^typedef [^;{]*?\(\*(\w+)\)", text, re.M)
            names += re.findall(r"^(?:typedef struct \w+|.*\}) (\w+);", text, re.M)
            for name in names:
                self.assertIn(f"\n### {name}\n", page)
            for name in re.findall(r"^\s+(\w+) = \d", text, re.M):
                self.assertIn(f"\n| `{name}` | ", page)

    def test_name_everything_that_the_package_offers(self):
        page = self.texts["python.md"]
        package = ROOT / "python/pccl"
        packages = {"pccl": package / "__init__.py"}
        packages.update({f"pccl.{path.parent.name}": path for path in package.glob("[!_]*/__init__.py")})
        self.assertIn("pccl.torch", packages)
        for prefix, path in packages.items():
            tree = ast.parse(path.read_text(encoding="utf-8"))
            names = next(
                ast.literal_eval(node.value)
                for node in tree.body
                if isinstance(node, ast.Assign) and node.targets[0].id == "__all__"
            )
            modules = {"__version__"} | {path.name.partition(".")[0] for path in package.iterdir()}
            for name in sorted(set(names) - modules):
                self.assertIn(f"\n### {prefix}.{name}\n", page)


class Changes(unittest.TestCase):
    """Each of them must be found out."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for part in ("include", "python/pccl"):
            shutil.copytree(ROOT / part, self.root / part, ignore=shutil.ignore_patterns("__pycache__", "*.so*", "bin"))

    def replace(self, path, before, after):
        text = (self.root / path).read_text(encoding="utf-8")
        self.assertIn(before, text)
        (self.root / path).write_text(text.replace(before, after, 1), encoding="utf-8")

    def found(self):
        return "\n".join(api_doc.CPage(self.root).findings())

    def test_a_comment_of_the_header(self):
        self.replace("include/pccl.h", "It notifies the master", "It writes to the master")
        self.assertIn("It writes to the master", api_doc.CPage(self.root).text())

    def test_a_default(self):
        self.replace("python/pccl/_communicator.py", "n_attempts: int = 5", "n_attempts: int = 6")
        self.assertIn("n_attempts: int = 6", api_doc.PythonPage(self.root).text())

    def test_a_field_of_an_operation(self):
        """It is a parameter of the class and of two methods."""
        self.replace("python/pccl/_operations.py", "max_bytes: int = 256 << 20", "max_bytes: int = 1 << 30")
        self.assertGreaterEqual(api_doc.PythonPage(self.root).text().count("max_bytes: int = 1 << 30"), 3)

    def test_a_function_without_a_comment(self):
        self.replace("include/pccl.h", "PCCL_EXPORT pcclResult_t pcclInit", "PCCL_EXPORT int pcclNew(void);\n\n"
                     "PCCL_EXPORT pcclResult_t pcclInit")
        self.assertRegex(self.found(), r"include/pccl.h:\d+: pcclInit has no description")

    def test_a_function_right_below_another_one_shares_its_comment(self):
        self.replace("include/pccl_collectives.h", ";\nPCCL_EXPORT pcclResult_t pcclBarrierAsync",
                     ";\n\nPCCL_EXPORT pcclResult_t pcclBarrierAsync")
        self.assertRegex(self.found(), r"pccl_collectives.h:\d+: pcclBarrierAsync has no description")

    def test_a_function_whose_results_are_not_told(self):
        self.replace("include/pccl.h", " * pcclSuccess         always\n */\nPCCL_EXPORT pcclResult_t pcclInit",
                     " */\nPCCL_EXPORT pcclResult_t pcclInit")
        wanted = r"include/pccl.h:\d+: pcclInit: its description has no list of results"
        self.assertRegex(self.found(), wanted)

    def test_the_program_fails(self):
        self.replace("include/pccl.h", " * pcclSuccess         always\n */\nPCCL_EXPORT pcclResult_t pcclInit",
                     " */\nPCCL_EXPORT pcclResult_t pcclInit")
        code, said = program(["--check"], self.root)
        self.assertEqual(code, 1)
        self.assertIn("pcclInit: its description has no list of results", said)


class Words(unittest.TestCase):
    def blocks(self, *lines, parameters=()):
        return list(api_doc.split_blocks(list(lines), 40, parameters))

    def test_lines_are_joined_to_paragraphs(self):
        self.assertEqual(self.blocks("one", "two", "", "three"), [("text", "one two"), ("text", "three")])

    def test_a_line_that_ends_early_ends_its_paragraph(self):
        self.assertEqual(self.blocks("It ends.", "Another one."), [("text", "It ends."), ("text", "Another one.")])
        self.assertEqual(len(self.blocks("This line is so long, nothing fits. It", "goes on.")), 1)

    def test_two_columns(self):
        self.assertEqual(
            self.blocks("  a (b)   first,", "          and more", "  longer: second"),
            [("pairs", [("a (b)", "first, and more"), ("longer:", "second")])],
        )

    def test_parameters(self):
        self.assertEqual(
            self.blocks("of: it. and: that.", parameters={"of", "and"}),
            [("parameter", ("of", "it.")), ("parameter", ("and", "that."))],
        )

    def test_a_parameter_whose_words_are_set_in(self):
        self.assertEqual(
            self.blocks("of: it,", "    and more.", "and: that.", parameters={"of", "and"}),
            [("parameter", ("of", "it, and more.")), ("parameter", ("and", "that."))],
        )

    def test_code(self):
        made = self.blocks("Like:", "", "    x = 1", "      y")
        self.assertEqual(made, [("text", "Like:"), ("code", ["x = 1", "  y"])])

    def test_results_stand_at_the_end(self):
        prose = ["pcclSuccess if it is lucky, and", "more words."]
        comment = [*prose, "pcclSuccess", "pcclTimeout  late,", "             very"]
        before, results = api_doc.split_results(comment, {"pcclSuccess", "pcclTimeout"})
        self.assertEqual(before, prose)
        self.assertEqual(results, [("pcclSuccess", ""), ("pcclTimeout", "late, very")])

    def test_names_become_links_and_code(self):
        words = api_doc.Words({"pcclInit": "#pcclinit", "Result": "#result"})
        for text, made in (
            ("pcclInit and pcclNot", "[`pcclInit`](#pcclinit) and `pcclNot`"),
            ("Result, `Result`", "Result, [`Result`](#result)"),
            ("a_b, *x, a->b, PCCL_*", "`a_b`, `*x`, `a->b`, `PCCL_*`"),
            ("2 * 3 | <x>", "2 \\* 3 \\| \\<x\\>"),
        ):
            self.assertEqual(words.inline(text), made)


if __name__ == "__main__":
    unittest.main()
