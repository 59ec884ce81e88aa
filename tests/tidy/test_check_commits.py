"""scripts/check_commits in a repository made for the test."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check_commits"


class Commits(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="pccl-commits-"))
        self.addCleanup(shutil.rmtree, self.root)
        (self.root / "scripts").mkdir()
        self.script = shutil.copy(SCRIPT, self.root / "scripts")
        self.git("init", "-q", "-b", "main")
        self.commit("Format")
        self.base = self.git("rev-parse", "HEAD").strip()

    def git(self, *arguments):
        who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", "-C", self.root, *who, *arguments], capture_output=True, text=True, check=True).stdout

    def commit(self, message):
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def check(self, since=None):
        done = subprocess.run(
            [self.script, "--since", since or self.base], capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
        )
        return done.returncode, done.stdout

    def test_good_ones_and_older_ones_pass(self):
        self.commit("drive, api: say who has left\n\nA caller could not know.")
        self.assertEqual(self.check(), (0, ""))

    def test_refuses(self):
        for message, fault in (
            ("Say who has left\n\nReason.", "of the form"),
            ("drive: " + "x" * 66 + "\n\nReason.", "73 columns"),
            ("drive: say who has left", "a body"),
            ("drive: wip\n\nReason.", "does not name"),
            ("format: format\n\nReason.", "does not name"),
        ):
            self.git("reset", "-q", "--hard", self.base)
            self.commit(message)
            status, output = self.check()
            self.assertEqual((status, fault in output), (1, True), message)

    def test_refuses_merges(self):
        self.git("switch", "-q", "-c", "side")
        self.commit("drive: say who has left\n\nReason.")
        self.git("switch", "-q", "main")
        self.commit("peer: say who has left\n\nReason.")
        self.git("merge", "-q", "side", "-m", "peer: join both\n\nReason.")
        self.assertIn("a merge", self.check()[1])

    def test_reports_that_nothing_is_checked_without_history(self):
        status, output = self.check("0123456789")
        self.assertEqual(status, 0)
        self.assertIn("not checked", output)


if __name__ == "__main__":
    unittest.main()
