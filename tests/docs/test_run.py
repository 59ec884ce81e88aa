#!/usr/bin/env python3
"""What runs the pages: finds each mistake in a page, and ends what a page has started."""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import time
import unittest

import pages
import run


def block(marker, text, language="sh"):
    head = f"<!-- test: {marker} -->\n" if marker else ""
    return f"{head}```{language}\n{text}\n```\n\n"


class Pages(unittest.TestCase):
    def refused(self, text, words):
        with self.assertRaises(pages.BadPage) as caught:
            pages.read("page.md", text)
        self.assertIn(words, str(caught.exception))

    def test_block_without_marker(self):
        self.refused("# a page\n\n" + block("", "true"), "page.md:3: a block that says not how it is tested")

    def test_marker_not_just_above(self):
        self.refused("<!-- test: sh -->\n\n" + block("", "true"), "page.md:1: a marker without a block")
        self.refused("<!-- test: sh -->", "a marker without a block")

    def test_unknown_words(self):
        self.refused(block("shell", "true"), "unknown marker")
        self.refused(block("file", "true"), "unknown marker")
        self.refused(block("sh terminals=2", "true"), "is no option of sh")
        self.refused(block("", "true").replace("```sh", "<!-- test: -->\n```sh"), "the marker is empty")

    def test_none_needs_a_reason(self):
        self.refused(block("none", "reboot"), "none needs a reason")
        self.assertEqual(pages.read("page.md", block("none: it reboots", "reboot"))[0].value, "it reboots")

    def test_file_that_nothing_uses(self):
        self.refused(block("file=a.py", "pass", "python") + block("sh", "true"), "nothing uses a.py")
        self.refused(block("sh", "python a.py") + block("file=a.py", "pass", "python"), "nothing uses a.py")

    def test_output_of_nothing(self):
        self.refused(block("output", "x", "text"), "output of what?")
        self.refused(block("none: no", "x") + block("output", "x", "text"), "output of what?")

    def test_block_that_does_not_end(self):
        self.refused("<!-- test: sh -->\n```sh\ntrue\n", "does not end")

    def test_indented_block_is_a_block(self):
        self.refused("* a list\n\n  ```sh\n  true\n  ```\n", "a block that says not how it is tested")
        found = pages.read("page.md", "* a list\n\n  <!-- test: sh -->\n  ```sh\n  true\n    false\n  ```\n")
        self.assertEqual(found[0].text, "true\n  false\n")


class Runs(unittest.TestCase):
    """With a build of stand-ins: a master that only waits, and the Python that runs this."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pccl-docs-test-")
        self.addCleanup(self.folder.cleanup)
        self.root = pathlib.Path(self.folder.name)
        master = "#!/bin/sh\necho listening on port 1\nexec sleep 1000\n"
        run.write(self.root / "build/tools/pccl-master", master, 0o755)
        (self.root / "build/venv/bin").mkdir(parents=True)
        run.write(self.root / "build/venv/bin/python", f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', 0o755)

    def run_page(self, text, **limits):
        """(what went wrong or None, what was printed)"""
        scratch = pathlib.Path(tempfile.mkdtemp(dir=self.root))
        printed = io.StringIO()
        page = run.Page(self.root, self.root / "build", run.Machine(), scratch)
        vars(page).update(limits)
        try:
            with contextlib.redirect_stdout(printed):
                problem = run.execute(page, pages.read("page.md", text), ("sh", "file", "peers", "output", "none"))
        finally:
            page.close()
        return problem, printed.getvalue()

    def good(self, text):
        problem, printed = self.run_page(text)
        self.assertIsNone(problem, printed)
        return printed

    def bad(self, text, words, **limits):
        problem, printed = self.run_page(text, output_seconds=1, **limits)  # in vain
        self.assertIsNotNone(problem, printed)
        self.assertIn(words, problem)
        return printed

    def test_commands_and_what_they_leave(self):
        self.good(block("sh", "mkdir a; cd a; x=7; echo hello >file") + block("sh", 'test "$x" = 7; cat file')
                  + block("output", "hello", "text"))

    def test_each_command_counts(self):
        self.assertIn("before", self.bad(block("sh", "echo before\nfalse\ntrue"), "page.md:2: a command failed"))
        self.bad(block("sh", "false | true"), "a command failed")

    def test_a_command_that_does_not_end(self):
        self.bad(block("sh", "sleep 1000"), "has not ended after 1 s", block_seconds=1)

    def test_a_failure_beside_jobs(self):
        self.bad(block("sh", "sleep 1000 &\nfalse"), "a command failed")

    def test_output_in_order_among_others(self):
        said = block("sh", "echo one 1; echo two; echo three")
        self.good(said + block("output", "one ...\nthree", "text"))
        self.bad(said + block("output", "three\ntwo", "text"), "no line like this")
        self.bad(said + block("output", "thre", "text"), "no line like this")
        self.bad(said + block("sh", "true") + block("output", "two", "text"), "no line like this")

    def test_output_that_comes_late(self):
        self.good(block("sh", "{ sleep 0.3; echo late; } &") + block("output", "late", "text"))

    def test_output_many_times_alike(self):
        late = block("sh terminal=2", "{ sleep 0.3; echo digest 1; } &")
        self.good(late + block("sh", "echo digest 1") + block("output times=2", "digest ...", "text"))
        self.bad(block("sh", "echo digest 1; echo digest 2") + block("output times=2", "digest ...", "text"), "alike")
        self.bad(block("sh", "echo digest 1") + block("output times=2", "digest ...", "text"), "2 times alike")
        self.bad(block("sh", "echo d 1; echo d 1") + block("output times=1", "d ...", "text"), "1 times alike")

    def test_files(self):
        self.good(block("file=a.py", "print('made')", "python") + block("sh", "python a.py")
                  + block("output", "made", "text"))

    def test_peers(self):
        program = "import os\nprint('peer', os.environ['INDEX'])"
        self.good(block("peers=2", program, "python") + block("output", "peer ...", "text"))
        self.bad(block("peers=2", program, "python") + block("output", "peer 1", "text"), "no line like this")
        self.good(block("peers=2", program, "python") + block("output peers=1", "peer 1", "text"))
        self.bad(block("peers=2", "import sys, os\nsys.exit(int(os.environ['INDEX']))", "python"), "peer 2 ended with")
        self.bad(block("peers=1", "import time\ntime.sleep(1000)", "python"), "have not ended", block_seconds=1)
        self.bad(block("peers=1", "int main(void) { return x; }", "c"), "does not compile")

    def test_an_abort_by_gloo_is_an_end(self):
        program = "import os, sys\nprint('over', flush=True)\nprint({!r}, file=sys.stderr, flush=True)\nos.abort()"
        self.good(block("peers=2", program.format(run.endings.GLOO_AT_THE_END), "python"))
        self.bad(block("peers=2", program.format("terminate called after throwing"), "python"), "ended with status -6")

    def test_around(self):
        self.assertEqual(run.put_into("if x:\n    # the block\n", "a\n\nb\n"), "if x:\n    a\n\n    b\n")
        with self.assertRaises(pages.BadPage):
            run.put_into("nothing\n", "a\n")
        with self.assertRaises(pages.BadPage):
            self.run_page(block("peers=1 around=no-such", "pass", "python"))

    def test_addresses_and_ports_are_those_of_the_test(self):
        printed = self.bad(block("sh", "echo 10.0.0.1:48148; false"), "a command failed")
        self.assertRegex(printed, r"127\.0\.0\.1:\d+")
        self.assertNotIn("48148", printed)

    def test_nothing_is_left(self):
        self.good(block("sh", "sleep 1000 & echo $! >pid; cp pid ../../pid")
                  + block("sh terminal=2", "(trap '' TERM HUP; sleep 1000) & true"))
        pid = int((self.root / "pid").read_text())
        end = time.monotonic() + run.SECONDS
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(os.path.exists(f"/proc/{pid}"))


if __name__ == "__main__":
    unittest.main()
