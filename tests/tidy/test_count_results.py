"""What CI counts: a wrong sum would hide a failure."""
import contextlib
import io
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock
from xml.sax.saxutils import escape

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import count_results

CASE = '<testcase name="{}" status="{}">{}</testcase>'
PASSED = CASE.format("unit/a", "run", "")
FAILED = CASE.format("unit/b", "fail", '<failure message=""/>')
SKIPPED = CASE.format("unit/c", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')
GPU = CASE.format("gpu/d", "notrun", '<skipped message="SKIP_RETURN_CODE=77"/>')
MISSING = CASE.format("unit/e", "notrun", '<skipped message="Unable to find executable"/>')


class Count(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pccl-count-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def stage(self, name, status, *cases):
        (self.folder / f"{name}.status").write_text(f"{status}\n", encoding="utf-8")
        if cases:
            (self.folder / f"{name}.xml").write_text(f"<testsuite>{''.join(cases)}</testsuite>", encoding="utf-8")

    def lines(self, ci="true"):
        with mock.patch.dict(os.environ, {"CI": ci}), contextlib.redirect_stdout(io.StringIO()) as output:
            status = count_results.main(self.folder)
        return status, output.getvalue().splitlines()

    def result(self, ci="true"):
        status, lines = self.lines(ci)
        return status, lines[-1]

    def shown(self, stage):
        with contextlib.redirect_stdout(io.StringIO()) as output:
            count_results.show(self.folder, stage)
        return output.getvalue().splitlines()

    def test_all_well(self):
        self.stage("test", 0, PASSED, PASSED, GPU)
        self.stage("lint", 0)
        self.assertEqual(self.result(), (0, "3 passed, 0 failed, 1 skipped"))

    def test_failed_test(self):
        self.stage("test", 8, PASSED, FAILED)
        self.assertEqual(self.result(), (1, "1 passed, 1 failed, 0 skipped"))

    def test_failed_test_counts_even_if_the_stage_ended_well(self):
        self.stage("test", 0, FAILED)
        self.assertEqual(self.result(), (1, "0 passed, 1 failed, 0 skipped"))

    def test_stage_that_did_not_get_to_its_tests(self):
        self.stage("test", 2)
        self.assertEqual(self.result(), (1, "0 passed, 1 failed, 0 skipped"))

    def test_stage_that_was_cut_off(self):
        self.stage("asan", 124, PASSED)
        self.assertEqual(self.result(), (1, "1 passed, 1 failed, 0 skipped"))

    def test_file_that_was_cut_off(self):
        self.stage("asan", 124, PASSED)
        (self.folder / "asan.xml").write_text("<testsuite><testcase name=", encoding="utf-8")
        self.assertEqual(self.result(), (1, "0 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.shown("asan"), [])

    def test_skip(self):
        self.stage("test", 0, PASSED, SKIPPED)
        self.assertEqual(self.result(), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.result(ci=""), (0, "1 passed, 0 failed, 1 skipped"))

    def test_missing_program_is_no_skip(self):
        self.stage("test", 8, MISSING)
        self.assertEqual(self.result(ci=""), (1, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_ran(self):
        self.assertEqual(self.result(), (1, "0 passed, 1 failed, 0 skipped"))

    def failed(self, output, message="Failed"):
        """A test that failed with this output; the reason that is given for it, and what is
        shown."""
        text = f'<failure message="{message}"/><system-out>{escape(output)}</system-out>'
        self.stage("test", 8, PASSED, CASE.format("e2e/x", "fail", text))
        line = self.lines()[1][0]
        self.assertTrue(line.startswith("test: e2e/x FAILED: "), line)
        return line.split(": ", 2)[2], self.shown("test")

    def test_reason_is_told_before_the_count(self):
        why, shown = self.failed("one\ntwo\nFAILED x (1.0 s): waited in vain for <a> & b\n")
        self.assertEqual(why, "x (1.0 s): waited in vain for <a> & b")
        self.assertEqual(shown[0], f"--- test: e2e/x FAILED: {why}")
        self.assertEqual(shown[1:], ["    one", "    two", "    FAILED x (1.0 s): waited in vain for <a> & b"])

    def test_reason_in_the_middle(self):
        dump = "\n".join(f"    out: line {i}" for i in range(100))
        self.assertEqual(self.failed(f"[  ERROR   ] --- 1 != 2\ntest.c:5: error: Failure!\n{dump}")[0],
                         "test.c:5: error: Failure!")
        self.assertEqual(self.failed(f"==1==ERROR: AddressSanitizer: heap-use-after-free\n{dump}")[0],
                         "==1==ERROR: AddressSanitizer: heap-use-after-free")
        self.assertEqual(self.failed(f"harness.Failure: too late\n{dump}")[0], "harness.Failure: too late")
        abort = "terminate called without an active exception"
        self.assertEqual(self.failed(f"{abort}\ntorch.X.ChildFailedError: \n{dump}")[0], abort)

    def test_reason_that_only_ctest_knows(self):
        self.assertEqual(self.failed("begun\n", "Timeout")[0], "Timeout: begun")
        self.assertEqual(self.failed("", "SEGFAULT")[0], "SEGFAULT")
        self.assertEqual(self.failed("")[0], "without a word")

    def test_both_ends_are_shown(self):
        why, shown = self.failed("\n".join(["x" * 5000] + [f"line {i}" for i in range(1, 81)]))
        self.assertEqual(why, "line 80")
        self.assertEqual(shown[2:31], [f"    line {i}" for i in range(1, 30)])
        self.assertEqual(shown[31], "    ... 21 lines left out")
        self.assertEqual(shown[32:], [f"    line {i}" for i in range(51, 81)])
        self.assertLess(max(map(len, shown)), 500)

    def test_what_just_fits_is_shown_whole(self):
        _, shown = self.failed("\n".join(f"line {i}" for i in range(60)))
        self.assertEqual(shown[1:], [f"    line {i}" for i in range(60)])

    def test_only_failed_tests_are_shown(self):
        self.stage("test", 8, PASSED, FAILED, SKIPPED, MISSING)
        names = [line.split()[2] for line in self.shown("test") if line.startswith("---")]
        self.assertEqual(names, ["unit/b", "unit/e"])
        self.assertIn("--- test: unit/e FAILED: Unable to find executable", self.shown("test"))
        self.assertEqual(self.shown("lint"), [])


if __name__ == "__main__":
    unittest.main()
