"""torch's own suite of a backend, with groups of "pccl" (torch_suite.py)."""

import json
import subprocess
import sys

import pytest
import support

support.need("torch")
support.need("expecttest")

import installed  # noqa: E402
import torch_worlds  # noqa: E402

# It compares the name of the group, as reported to C++, with gloo's.
NAMED = {"test_ddp_logging_data_cpu"}


BY_NAME, FOR_GLOO = {"BACKEND": "pccl"}, {"BACKEND": "gloo", "SUITE_GROUPS": "pccl"}


@pytest.mark.parametrize("given, failing, least", [(BY_NAME, set(), 79), (FOR_GLOO, NAMED, 103)])
def test_suite(tmp_path, given, failing, least):
    """Runs the suite with three ranks, and with eight the tests that skip with fewer."""
    results = tmp_path / "results"
    environment = {**torch_worlds.environment(installed.metadata(tmp_path)), **given, "TMPDIR": str(tmp_path)}
    program = [sys.executable, str(support.TESTS / "torch_suite.py"), str(results)]

    def run(*names, **more):
        subprocess.run([*program, *names], env={**environment, **more}, check=True)
        return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]

    large = [name for name, _, words, _ in run() if "small world size" in words]
    lines = run(*large, SUITE_RANKS="8")
    failed = {name: words for name, kind, words, _ in lines if kind == "failed"}
    assert failed.keys() == failing, "\n".join(f"{name}: {words}" for name, words in failed.items())
    assert sum(kind == "passed" for _, kind, _, _ in lines) >= least
