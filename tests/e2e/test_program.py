"""The program pccl: its commands, and its other names."""

import json
import os
import re
import signal
import subprocess
import tempfile

import harness
from harness import check, equal

HELP = "Try 'pccl --help'.\n"


def program():
    return os.path.join(os.path.dirname(harness.executable("master")), "pccl")


def pccl(*arguments, code=0, name=None):
    """Runs the program, or a link to it. Returns (standard output, standard error)."""
    done = subprocess.run(
        [name or program(), *arguments], capture_output=True, text=True, timeout=harness.DEADLINE, check=False
    )
    equal(done.returncode, code, f"exit code of {arguments}: {done.stdout} {done.stderr}")
    return done.stdout, done.stderr


def test_help(_):
    """The list of commands; without arguments it is an error."""
    listed, _ = pccl("--help")
    commands = re.findall(r"^  (\w+) ", listed, re.M)
    equal(commands, ["master", "status", "token", "perf", "top", "doctor", "recorder", "version"], "commands")
    equal(pccl("-h")[0], listed, "-h")
    equal(pccl(code=2), ("", listed), "without arguments")
    for command in ("master", "status", "token", "perf", "top", "doctor", "recorder"):
        said, _ = pccl(command, "--help")
        check(said.lower().startswith("usage: pccl") and said != listed, f"{command} --help: {said}")
        check("Examples:\n" in said, f"{command} --help has no examples")
        check(all(len(line) <= 80 and line == line.rstrip() for line in said.split("\n")), f"{command} --help: {said}")


def test_unknown_commands(_):
    """The closest command is suggested, if one is close."""
    typos = {"mastr": "master", "stauts": "status", "tokens": "token", "prf": "perf", "versoin": "version"}
    for given, meant in typos.items():
        equal(pccl(given, code=2)[1], f"pccl: unknown command '{given}'; did you mean '{meant}'?\n{HELP}", given)
    for given in ("", "--listen", "a-name-that-is-longer-than-any"):
        equal(pccl(given, code=2)[1], f"pccl: unknown command '{given}'\n{HELP}", given)


def test_version(_):
    said, _ = pccl("version")
    check(re.match(r"pccl \d+\.\d+\.\d+", said), said)
    for option in ("--version", "-V"):
        equal(pccl(option)[0], said, option)
    equal(pccl("master", "--version")[0], said.replace("pccl ", "pccl-master "), "master --version")
    told = json.loads(pccl("version", "--json")[0])
    told["release"] = "" if told["commit"] is None else f", commit {told['commit']} of {told['committed']}"
    equal(said, "pccl {version}{release} (protocol {protocol}, schema {schema})\n".format(**told), "as JSON")
    equal(pccl("version", "--json", "--json", code=2)[1], "pccl version: unknown argument: --json\n", "two arguments")
    equal(pccl("version", "now", code=2)[1], "pccl version: unknown argument: now\n", "an argument")


def test_names(_):
    """A link selects the command; any other name does not."""
    with tempfile.TemporaryDirectory() as folder:
        for name, line in (
            ("pccl-master", "usage: pccl-master"),
            ("pccl_master", "usage: pccl-master"),
            ("ccoip_master", "usage: pccl-master"),
            ("pccl-perf", "Usage: pccl-perf"),
            ("pccl-token", "usage: pccl-master token"),
            ("pccl-top", "usage: pccl top"),
            ("pccl-masters", "usage: pccl COMMAND"),
            ("tool", "usage: pccl COMMAND"),
        ):
            link = os.path.join(folder, name)
            os.symlink(program(), link)
            said, _ = pccl("--help", name=link)
            check(said.startswith(line), f"{name}: {said}")


def test_a_run(run):
    """`pccl master`, `pccl token` and `pccl perf` with a token; `perf` starts its own workers as well."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PCCL_TOKEN")}
    with tempfile.TemporaryDirectory() as folder:
        process = harness.Process("master", [program(), "master", "--listen", "127.0.0.1:0", "--state", folder], bare)
        run.master = run._add(process)  # pylint: disable=protected-access
        port = int(re.search(r"listening on port (\d+)", run.master.wait_line("listening on port")).group(1))
        token = pccl("token", "create", "--uses", "1", "--state", folder)[0].strip()
        command = [program(), "perf", "--connect", f"127.0.0.1:{port}", "-N", "2", "--sizes", "4K", "-n", "1"]
        how = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        refused = subprocess.run(command, env=bare, timeout=harness.DEADLINE, check=False, **how)
        check(refused.returncode != 0 and "token" in refused.stderr, f"without a token: {refused}")
        doctor = [program(), "doctor", f"127.0.0.1:{port}", "--json"]
        for variables, code in (({}, 1), ({"PCCL_TOKEN_FILE": f"{folder}/run.token"}, 0)):
            done = subprocess.run(
                doctor, env={**bare, **variables}, capture_output=True, text=True, timeout=harness.DEADLINE, check=False
            )
            equal(done.returncode, code, f"exit code of the doctor: {done}")
            bad = [item["check"] for item in json.loads(done.stdout)["findings"] if item["level"] == "bad"]
            equal(bad, ["token"] if code else [], "failed checks")
        given = ({"PCCL_TOKEN": token}, {"PCCL_TOKEN_FILE": f"{folder}/run.token"})
        peers = [subprocess.Popen(command, env={**bare, **variables}, **how) for variables in given]
        for peer in peers:
            words = peer.communicate(timeout=harness.DEADLINE)[1]
            equal(peer.returncode, 0, f"exit code of a peer: {words}")
        run.master.signal(signal.SIGTERM)
        equal(run.master.end(harness.DEADLINE), 0, "exit code of the master")
        run.master.killed = True
    pccl("perf", "-N", "2", "--sizes", "4", "-n", "1", "--no-limit")


harness.main()
