"""Fixtures for every test: a master, a group of peers, a script in a separate process."""

import collections
import os
import urllib.request

import pytest
import support

import pccl


def pytest_configure(config):
    os.environ.setdefault("PCCL_FOUND_AFTER_MS", "0")  # for masters that are processes: they start a run at once
    config.addinivalue_line("markers", "master(**options): of the master that the test is given")
    config.addinivalue_line("markers", "nightly: takes long, and shows once more what others show")
    config.addinivalue_line("markers", "sampled(n): one in n of a file's tests by day, which TEST_SAMPLE chooses")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Without "nightly" (-m "not nightly") omits the sampled tests that TEST_SAMPLE does not choose."""
    sample = int(os.environ.get("TEST_SAMPLE", "0"))
    by_day = [item for item in items if not item.get_closest_marker("nightly")]
    sampled = [item for item in by_day if item.get_closest_marker("sampled")]
    config.all_sampled = bool(sampled) and len(sampled) == len(by_day)
    before = collections.Counter()
    for item in sampled:
        one_of = item.get_closest_marker("sampled").args[0]
        kind = item.path, one_of
        if (sample + before[kind]) % one_of:
            item.add_marker("nightly")
        before[kind] += 1


def pytest_sessionfinish(session, exitstatus):
    """Accepts a file whose tests are all sampled, and none of them chosen."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.all_sampled:
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter):
    terminalreporter.write_line(f"TEST_SAMPLE={os.environ.get('TEST_SAMPLE', '0')}")


@pytest.fixture
def master(request):
    given = request.node.get_closest_marker("master")
    with pccl.MasterNode("127.0.0.1:0", options=given.kwargs if given else {}) as node:
        yield node


@pytest.fixture
def address(master):
    return f"127.0.0.1:{master.port}"


@pytest.fixture
def operator(tmp_path):
    """Returns a master's address, and a call that sends it an operator's command about a communicator's peer."""
    token, port = tmp_path / "token", support.free_port()
    token.write_text("operators-token-1234567890")
    token.chmod(0o600)
    options = {"http": f"127.0.0.1:{port}", "admin_token_file": str(token)}
    headers = {"Authorization": f"Bearer {token.read_text()}"}

    def command(name, comm):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{name}/{comm.id}", method="POST", headers=headers)
        urllib.request.urlopen(request, timeout=support.DEADLINE).close()

    with pccl.MasterNode("127.0.0.1:0", options=options) as node:
        yield f"127.0.0.1:{node.port}", command


@pytest.fixture
def group(address):
    """Returns group(count), which makes members of one run."""
    made = []

    def make(count, **given):
        made.append(support.Group(address, count, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def script():
    made = []

    def make(*arguments, **given):
        made.append(support.Script(*arguments, **given))
        return made[-1]

    yield make
    for one in made:
        one.close()
