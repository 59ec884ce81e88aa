"""front.py, tested: each planted false claim is found in a tree whose claims are true."""
import pathlib
import shutil
import tempfile
import unittest

import front

ROW = "| 64 MiB | 9 / 28 ms | 41 / 98 ms |"
README = f"""# Title
make demo
make test
pip install .

{ROW}

## Status

Works:
* Certificates <!-- tests: e2e/kill_* sim/seeds -->

Not yet:
* A relay <!-- absent: RELAY|PUNCH like PCCL_RELAY, PUNCH in src/*.h -->

## Source layout
"""
TESTS = ["e2e/kill_one", "sim/seeds"]
FILES = {
    "README.md": README,
    "src/params.h": "PCCL_TLS_CERT\n",
    "docs/dashboard.png": "small",
    "bench/RESULTS.md": f"## Figures of the README\n\n`bench/compare.py --sizes 64M`:\n\n{ROW}\n\n## Others\n\n| 1 | 7 ms |\n",
    "pyproject.toml": 'description = "It reduces"\nkeywords = ["tcp", "c"]\n',
    ".github/settings.yml": "repository:\n  description: It reduces\n  topics: tcp, c\n",
}


class Claims(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="pccl-front-"))
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in FILES.items():
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            (self.root / path).write_text(text, encoding="utf-8")

    def planted(self, path, old, new, words):
        """With `new` in the place of `old` there is exactly one finding, with these words."""
        self.assertIn(old, FILES[path])
        (self.root / path).write_text(FILES[path].replace(old, new, 1), encoding="utf-8")
        findings = list(front.check(self.root, TESTS))
        self.assertEqual(len(findings), 1, findings)
        self.assertIn(words, findings[0])

    def test_true_claims(self):
        self.assertEqual(list(front.check(self.root, TESTS)), [])

    def test_works_without_a_test(self):
        self.planted("README.md", "sim/seeds", "sim/sleds", "no test sim/sleds")

    def test_claim_without_a_marker(self):
        self.planted("README.md", "* Certificates", "* A <!-- tests: sim/seeds -->\n* B\n* C",
                     "README.md:12: a line of the status without <!-- tests: ... -->")

    def test_what_is_there_is_called_missing(self):
        self.planted("README.md", "RELAY|PUNCH like PCCL_RELAY, PUNCH", "TLS_CERT like TLS_CERT",
                     "src/params.h has 'TLS_CERT'")

    def test_missing_in_no_file(self):
        self.planted("README.md", "src/*.h", "source/*.h", "no file source/*.h")

    def test_missing_in_an_empty_file(self):
        self.planted("src/params.h", "PCCL_TLS_CERT\n", "", "no file src/*.h with text")

    def test_mistyped_pattern(self):
        self.planted("README.md", "RELAY|PUNCH", "RELAY|PUNHC", "the pattern 'RELAY|PUNHC' does not match 'PUNCH'")

    def test_no_sample(self):
        self.planted("README.md", " like PCCL_RELAY, PUNCH", "", "the pattern 'RELAY|PUNCH' does not match ''")

    def test_missing_feature_arrives(self):
        self.planted("src/params.h", "PCCL_TLS_CERT", "PCCL_RELAY", "has 'RELAY'")

    def test_no_status(self):
        self.planted("README.md", "## Status", "## State", "the status has 0 lines of what works")

    def test_figure_of_another_section(self):
        self.planted("README.md", ROW, "| 1 | 7 ms |", "README.md:6: not a row of")

    def test_figure_is_measured_again(self):
        self.planted("bench/RESULTS.md", "28 ms", "27 ms", "README.md:6: not a row of")

    def test_no_command(self):
        self.planted("bench/RESULTS.md", "bench/compare.py", "something", "with the commands")

    def test_long_readme(self):
        self.planted("README.md", "## Source layout\n", "## Source layout\n" + "a line\n" * 120, "lines, more than 120")

    def test_command_further_down(self):
        self.planted("README.md", "# Title\nmake demo\n", "# Title\n", "`make demo` is not in the first 25 lines")

    def test_large_picture(self):
        self.planted("docs/dashboard.png", "small", "." * 150_001, "150001 bytes")

    def test_other_description(self):
        self.planted(".github/settings.yml", "It reduces", "It averages", "not the description")

    def test_other_topics(self):
        self.planted("pyproject.toml", '"tcp", "c"', '"tcp"', "not the keywords")


if __name__ == "__main__":
    unittest.main()
