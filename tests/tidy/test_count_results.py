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

    def result(self, ci="true"):
        with mock.patch.dict(os.environ, {"CI": ci}), contextlib.redirect_stdout(io.StringIO()) as output:
            status = count_results.main(self.folder)
        return status, output.getvalue().splitlines()[-1]

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

    def test_skip(self):
        self.stage("test", 0, PASSED, SKIPPED)
        self.assertEqual(self.result(), (1, "1 passed, 1 failed, 0 skipped"))
        self.assertEqual(self.result(ci=""), (0, "1 passed, 0 failed, 1 skipped"))

    def test_missing_program_is_no_skip(self):
        self.stage("test", 8, MISSING)
        self.assertEqual(self.result(ci=""), (1, "0 passed, 1 failed, 0 skipped"))

    def test_nothing_ran(self):
        self.assertEqual(self.result(), (1, "0 passed, 1 failed, 0 skipped"))


if __name__ == "__main__":
    unittest.main()
