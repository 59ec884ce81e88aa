"""abi/library, tested: what breaks programs is found, what does not is not."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import library

COMPILER = os.environ.get("CC", "cc")
HEADER = """
enum color { red, green };
struct inner;
struct pair { int first; int second; struct inner *hidden; };
int take(const struct pair *pair, enum color color);
int give(void);
"""
SOURCE = """
#include "api.h"
struct inner { int private; };
int take(const struct pair *pair, enum color color) { return pair->first + pair->hidden->private + (int)color; }
int give(void) { return 1; }
"""


def describe(header, source):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "include").mkdir()
        (folder / "include" / "api.h").write_text(header, encoding="utf-8")
        (folder / "api.c").write_text(source, encoding="utf-8")
        # libabigail 2.2 takes what clang's DWARF 5 says to be in the source itself for public.
        command = [COMPILER, "-gdwarf-4", "-shared", "-fPIC", "-Iinclude", "api.c", "-o", "libapi.so"]
        subprocess.run(command, cwd=folder, check=True)
        return library.describe(folder / "libapi.so", folder / "include")


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.released = pathlib.Path(folder.name, "released.xml")
        cls.released.write_text(describe(HEADER, SOURCE), encoding="utf-8")

    def breaks(self, before, after, source=SOURCE):
        self.assertIn(before, HEADER + source)
        return library.breaks(self.released, describe(HEADER.replace(before, after), source.replace(before, after)))

    def test_unchanged(self):
        self.assertEqual(self.breaks("", ""), "")

    def test_additions(self):
        self.assertEqual(self.breaks("int give(void)", "int more(void); int give(void)"), "")
        self.assertEqual(self.breaks("int give(void) {", "int more(void) { return 2; } int give(void) {"), "")
        self.assertEqual(self.breaks("red, green", "red, green, blue"), "")

    def test_private(self):
        self.assertEqual(self.breaks("int private", "long more, private"), "")

    def test_removed_function(self):
        self.assertIn("Removed function", self.breaks("int give(void) { return 1; }", ""))

    def test_parameter(self):
        self.assertIn("parameter 1 of type 'int' was added", self.breaks("give(void)", "give(int a)"))

    def test_result(self):
        self.assertIn("return type changed", self.breaks("int give(", "long give("))

    def test_members(self):
        self.assertIn("'int second' offset changed", self.breaks("int first; int second", "int second; int first"))
        self.assertIn("'int third'", self.breaks("int second;", "int second; int third;"))
        self.assertIn("changed from 'int' to 'float'", self.breaks("int second;", "float second;"))

    def test_value(self):
        self.assertIn("'color::green' from value '1' to '2'", self.breaks("green", "green = 2"))


if __name__ == "__main__":
    library.skip_without_tools()
    unittest.main()
