"""Alerts: the command of the operator, its environment, its limits, and commands that fail, hang or are killed."""

import json
import os
import signal
import subprocess
import tempfile

import harness
from harness import SUCCESS, check, equal, poll
from phases import RESTARTED
from web import get, start

SMALL = ("reduce", 1, 1024, "f32", "sum", "const:1")


def folder(run):
    directory = tempfile.TemporaryDirectory()
    run.at_exit.append(directory.cleanup)
    return directory.name


def alerts(path):
    """Returns the alerts that the command has written as lines of JSON."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def kinds(path):
    return [alert["event"] for alert in alerts(path)]


def children(process):
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as file:
        main = file.read().split()
    for task in os.listdir(f"/proc/{process.pid}/task"):
        with open(f"/proc/{process.pid}/task/{task}/children", encoding="utf-8") as file:
            main += file.read().split()
    return sorted({int(child) for child in main})


def test_stalled_run(run):
    """A run in which a member omits an operation is stalled, with a verdict; it continues with that operation."""
    path = folder(run) + "/alerts"
    command = f'printf "%s\\n" "$PCCL_ALERT_JSON" >> {path}; ls -l /proc/self/fd >> {path}.fds'
    start(run, alert_command=command, alert_stall_s=3)
    poll(lambda: kinds(path) == ["master_started"], "the first alert")
    peers = run.join(3, where_ms=50)
    late = run.id_of(peers[2])
    calls = [peer.start(*SMALL) for peer in peers[:2]]
    poll(lambda: {"verdict_began", "stalled"} <= set(kinds(path)), "the alerts")
    verdict = next(alert for alert in alerts(path) if alert["event"] == "verdict_began")
    check(verdict["peer"].startswith(late), f"verdict: {verdict}")
    check(late in verdict["text"] and verdict["run"] and verdict["dropped"] == 0, f"verdict: {verdict}")
    check("continued" not in kinds(path), "it does not continue yet")
    peers[2].do(*SMALL)
    for call in calls:
        call.wait(rc=SUCCESS)
    poll(lambda: {"continued", "verdict_ended"} <= set(kinds(path)), "the run continues")
    check("stalled" in get(run, "/events"), "the event log")
    equal(kinds(path).count("stalled"), 1, "alerts about one stalled run")
    with open(path + ".fds", encoding="utf-8") as file:
        check("socket" not in file.read(), "the command has sockets of the master")


def test_hanging_command(run):
    """A command that hangs is ended at its limit, with the processes that it has started; the run continues."""
    pids = folder(run) + "/pids"
    command = f"echo $$ >> {pids}; sleep 1000 & echo $! >> {pids}; trap '' TERM; sleep 1000"
    start(run, alert_command=command, alert_limit_s=1)
    peers = run.join(2)
    run.master.wait_line("the alert command was ended: it ran for more than 1 s")
    for call in [peer.start(*SMALL) for peer in peers]:
        call.wait(rc=SUCCESS)
    with open(pids, encoding="utf-8") as file:
        started = [int(line) for line in file]
    equal(len(started), 2, "processes")

    def gone(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
                return file.read().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            return True

    poll(lambda: all(gone(pid) for pid in started), "the ends of the command's processes")


def test_killed_command(run):
    """A command that is killed, or fails, is reported; the next alert runs it again."""
    path = folder(run) + "/alerts"
    start(run, alert_command=f"echo x >> {path}; kill -9 $$", **RESTARTED)
    run.master.wait_line("the alert command was ended by signal 9")
    run.master.kill()
    start(run, port=run.port, alert_command="exec /nonexistent/program", **RESTARTED)
    run.master.wait_line("the alert command failed with status 127")


def test_end_of_the_master(run):
    """The master does not wait for its command, which ends with it."""
    path = folder(run) + "/pid"
    start(run, alert_command=f"echo $$ > {path}; sleep 1000")

    def pid():
        try:
            with open(path, encoding="utf-8") as file:
                return int(file.read() or 0)
        except OSError:
            return 0

    command = poll(pid, "the command's process")
    run.master.signal(signal.SIGTERM)
    run.master.end(harness.DEADLINE)
    run.master.killed = True

    def gone():
        try:
            os.kill(command, 0)
        except ProcessLookupError:
            return True
        with open(f"/proc/{command}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "Z"

    poll(gone, "the end of the command")


def test_many_alerts(run):
    """Alerts beyond the queue are counted, and the command runs for one after another."""
    path = folder(run) + "/alerts"
    gate = folder(run) + "/gate"
    command = f'printf "%s\\n" "$PCCL_ALERT_JSON" >> {path}; while ! test -e {gate}; do sleep 0.05; done'
    start(run, alert_command=command, alert_limit_s=100)
    poll(lambda: len(alerts(path)) == 1, "the first alert")
    equal(len(children(run.master)), 1, "commands at the same time")
    with open(gate, "w", encoding="utf-8"):
        pass
    poll(lambda: not children(run.master), "the end of the command")


def test_settings(run):
    """Wrong values are refused at the start."""
    wrong = ("alert_limit_s=0", "alert_limit_s=x", "alert_stall_s=-1", "alert_command=a\nb")
    for setting in wrong:
        name = setting.split("=")[0]
        done = subprocess.run(
            [harness.executable("master"), "--check-config", "--set", setting],
            capture_output=True,
            text=True,
            timeout=harness.DEADLINE,
            check=False,
        )
        check(done.returncode == 2 and name in done.stderr, f"{setting}: {done}")
    check(run, "run")


harness.main()
