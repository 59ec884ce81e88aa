#!/usr/bin/env python3
"""A process feels the shortages that chaos causes, while they last."""

import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402 pylint: disable=wrong-import-position
import shortages  # noqa: E402 pylint: disable=wrong-import-position

SKIPPED = 77
CHILD = """
import mmap, os, sys
def use_memory():
    with mmap.mmap(-1, 4 << 20) as memory:
        memory[::4096] = bytes(1024)
def open_file():
    os.close(os.open("/dev/null", os.O_RDONLY))
for line in sys.stdin:
    try:
        {"memory": use_memory, "file": open_file}[line.strip()]()
        print("done", flush=True)
    except OSError as error:
        print(error.strerror, flush=True)
"""


class Child:
    name = "child"

    def __init__(self):
        self.popen = subprocess.Popen([sys.executable, "-c", CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.popen.pid

    def ask(self, what):
        self.popen.stdin.write(f"{what}\n".encode())
        self.popen.stdin.flush()

    def answer(self):
        return self.popen.stdout.readline().decode().strip()

    def do(self, what):
        self.ask(what)
        return self.answer()

    def end(self):
        self.popen.stdin.close()
        self.popen.stdout.close()
        self.popen.kill()
        self.popen.wait()


class Shortages(unittest.TestCase):
    def setUp(self):
        self.child = Child()
        self.addCleanup(self.child.end)
        self.assertEqual([self.child.do("file"), self.child.do("memory")], ["done", "done"])

    def test_descriptors(self):
        scarce = shortages.NoMoreDescriptors(self.child)
        self.assertEqual(self.child.do("file"), os.strerror(24))
        scarce.over()
        self.assertEqual(self.child.do("file"), "done")

    def test_memory(self):
        try:
            scarce = shortages.ScarceMemory(self.child, 256)
        except shortages.Unavailable as reason:
            self.skipTest(str(reason))
        self.child.ask("memory")
        harness.poll(lambda: scarce.hits() > 0, "the limit to be reached")
        scarce.over()
        self.assertEqual(self.child.answer(), "done")
        self.assertEqual(self.child.do("memory"), "done")
        self.assertFalse(scarce.group.exists(), "the control group is left")

    def test_process_that_ends(self):
        for shortage in (shortages.NoMoreDescriptors, lambda process: shortages.ScarceMemory(process, 256)):
            child = Child()
            try:
                scarce = shortage(child)
            except shortages.Unavailable as reason:
                self.skipTest(str(reason))
            finally:
                child.end()
            self.assertIn("child", scarce.over())


if __name__ == "__main__":
    program = unittest.main(exit=False)
    for _, reason in program.result.skipped:
        print(f"not run: {reason}")
    sys.exit(1 if not program.result.wasSuccessful() else SKIPPED if program.result.skipped else 0)
