"""pccl-perf: its output, the arguments that it refuses, its exit codes. Figures are not checked here: machines are
busy."""

import json
import os
import random
import re
import signal
import subprocess
import tempfile

import harness
import ports
from harness import check, equal, poll, say

TABLE_ROW = re.compile(r"^ +(\d+) +\d+ +\w+ +\w+ +(in|out) .* (\d+|-)$", re.M)


def perf(*arguments, code=0, **environment):
    """Returns (standard output, standard error)."""
    done = subprocess.run(
        [harness.executable("perf"), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=harness.DEADLINE,
        env={**os.environ, "PCCL_PORT": "0", **environment},
        check=False,
    )
    equal(done.returncode, code, f"exit code of {arguments}: {done.stdout} {done.stderr}")
    return done.stdout, done.stderr


def measured(*arguments, **how):
    """Returns the output of --json -, which must be JSON only."""
    return json.loads(perf(*arguments, "--json", "-", **how)[0])


def goals_file(folder, *goals):
    path = os.path.join(folder, "goals.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(goals, file)
    return path


def test_table(run):
    """A row for each size and place, verified."""
    out, _ = perf("-N", 2, "-b", 4, "-e", "1M", "-f", 16, "-n", 3, "-w", 1, "--no-limit")
    rows = [(int(size), place, wrong) for size, place, wrong in TABLE_ROW.findall(out)]
    sizes = [4, 64, 1024, 16384, 262144]
    equal(rows, [(size, place, "0") for size in sizes for place in ("out", "in")], "rows")


def test_json(run):
    """All members are numbers that are consistent."""
    result = measured("-N", 3, "--sizes", "4,8K,100K,1M", "-n", 4, "-w", 1, "--in-place", 0, "--limit-cpu", 1000)
    equal(result["peers"], 3, "peers")
    equal([row["bytes"] for row in result["rows"]], [4, 8192, 102400, 1 << 20], "sizes")
    for row in result["rows"]:
        check(0 < row["us"] and row["p50_us"] <= row["p99_us"] <= row["max_us"], f"times: {row}")
        check(row["cpu_us"] > 0, f"processor time: {row}")
        check(abs(row["busbw"] - row["algbw"] * 4 / 3) < 1e-4, f"bandwidths: {row}")
        equal(row["wrong"], 0, "wrong elements")
        check(0 < row["memory_bytes"] < 256 << 20, f"memory: {row}")
        equal("share_of_limit" in row, row["bytes"] >= 65536, "a limit for large sizes")
        if "share_of_limit" in row:
            check(abs(row["share_of_limit"] - row["limit_us"] / row["us"]) < 0.01, f"share: {row}")
            check(row["limit_spread"] >= 1, f"spread: {row}")


def test_kinds(run):
    """Data types, operations, codecs, several concurrent operations, parameters of the library: all verified."""
    for arguments in (
        ("-d", "u8", "-o", "avg", "-k", 3),
        ("-d", "f16", "-o", "prod", "-N", 4),
        ("-d", "bf16", "-o", "max"),
        ("-d", "i64", "-o", "min", "-p", 2),
        ("-q", "minmax:u8", "-O", "window_bytes=1048576"),
        ("-q", "zps:i8", "-o", "avg", "-k", 2),
        ("-q", "int4", "-N", 3),
        ("-q", "e3m0:64:bf16:stochastic", "-o", "avg", "-d", "bf16"),
    ):
        result = measured("--sizes", "64,100000", "-n", 2, "-w", 0, "--no-limit", *arguments)
        equal([row["wrong"] for row in result["rows"]], [0, 0, 0, 0], f"wrong elements with {arguments}")


def test_collectives(run):
    """Every collective is verified with every setting; sizes and bandwidths are defined as in nccl-tests."""
    for arguments, places, share in (
        (("--op", "broadcast", "-N", 3), [True], 1),
        (("--op", "broadcast", "-k", 3, "-d", "u8"), [True], 1),
        (("--op", "broadcast", "-N", 3, "-q", "zps:u8", "-d", "bf16"), [True], 1),
        (("--op", "all_gather", "-N", 3), [False, True], 2 / 3),
        (("--op", "all_gather", "-k", 4, "-d", "f16"), [False, True], 1 / 2),
        (("--op", "all_gather", "-N", 3, "-q", "minmax:u8"), [False, True], 2 / 3),
        (("--op", "all_gather_v", "-N", 3), [False], 2 / 3),
        (("--op", "all_gather_v", "-k", 4, "-d", "f16"), [False], 1 / 2),
        (("--op", "reduce_scatter", "-N", 3, "--op", "max"), [False, True], 2 / 3),
        (("--op", "reduce_scatter", "-k", 2, "-q", "minmax:u8", "-o", "avg"), [False, True], 1 / 2),
        (("--op", "reduce_scatter", "-N", 3, "-q", "e2m1:16:pow2"), [False, True], 2 / 3),
        (("--op", "broadcast", "-N", 3, "-q", "e4m3:32", "-d", "f16"), [True], 1),
        (("--op", "reduce", "-N", 3, "-k", 2, "-o", "max"), [False, True], 1),
        (("--op", "exclusive_scan", "-N", 3, "-k", 2, "-o", "max", "-d", "i64"), [False, True], 1),
        (("--op", "inclusive_scan", "-N", 4, "-d", "bf16"), [False, True], 1),
        (("--op", "gather", "-N", 3, "-k", 2, "-d", "f16"), [False, True], 2 / 3),
        (("--op", "scatter", "-N", 3, "-q", "minmax:u8"), [False, True], 2 / 3),
        (("--op", "all_to_all", "-N", 4, "-k", 3), [False], 3 / 4),
        (("--op", "gather_v", "-N", 3, "-k", 2, "-d", "f16"), [False], 2 / 3),
        (("--op", "scatter_v", "-N", 3), [False], 2 / 3),
        (("--op", "all_to_all_v", "-N", 4, "-k", 3), [False], 3 / 4),
        (("--op", "send", "-N", 4, "-k", 3, "-d", "f16"), [True], 1),
    ):
        result = measured("--sizes", "96,120000", "-n", 2, "-w", 0, "--no-limit", *arguments)
        equal(result["collective"], arguments[1], "collective")
        rows = result["rows"]
        equal([row["in_place"] for row in rows], places * 2, f"places with {arguments}")
        equal([row["bytes"] for row in rows], [96] * len(places) + [120000] * len(places), f"sizes with {arguments}")
        equal({row["wrong"] for row in rows}, {0}, f"wrong elements with {arguments}")
        check(all(abs(row["busbw"] - row["algbw"] * share) < 1e-4 for row in rows), f"bandwidths: {rows}")
    rows = measured("--op", "barrier", "-N", 3, "-n", 5)["rows"]
    equal([(row["bytes"], row["busbw"]) for row in rows], [(0, 0)], "rows of a barrier")
    check(rows[0]["us"] > 0, f"time of a barrier: {rows}")
    for name in ("broadcast", "gather", "scatter", "all_to_all", "all_to_all_v", "send"):
        row = measured("--op", name, "-N", 4, "--sizes", "256K", "-n", 2, "--limit-cpu", 1000)["rows"][0]
        check(row["limit_us"] > 0 and row["share_of_limit"] > 0, f"limit of {name}: {row}")


def test_exact(run):
    """With a codec, the same without it in the same run."""
    arguments = ("--sizes", "100K", "-n", 3, "-w", 1, "--no-limit", "--in-place", 0, "-q", "minmax:u8")
    check("exact_us" not in measured(*arguments)["rows"][0], "exact operations that nobody asked for")
    row = measured(*arguments, "--exact")["rows"][0]
    check(row["exact_us"] > 0 and abs(row["share_of_exact"] - row["us"] / row["exact_us"]) < 0.01, f"row: {row}")
    equal(row["wrong"], 0, "wrong elements")
    check(0 < row["error_rms"] < 0.01 and 0 < row["error_largest"] < 0.01, f"errors: {row}")
    row = measured(*arguments[:-1], "e3m0")["rows"][0]
    check(0.01 < row["error_rms"] < 0.3 and row["error_largest"] < 0.3, f"errors: {row}")


def test_memory(run):
    """An operation in place needs additional memory of the size of its buffer, and all of it is resident at some time.
    """
    rows = measured("-N", 2, "--sizes", "32M", "-n", 3, "-w", 1, "--no-limit")["rows"]
    out, into = (row["memory_bytes"] / (1 << 20) for row in rows)
    say(f"   beyond the buffers: {out:.1f} MiB out of place, {into:.1f} MiB in place")
    if harness.SLOW == 1:
        check(0 < out < 200 and into > out + 16, f"memory: {rows}")


def test_master_counts(run):
    """The figures include the master's processor time: its thread reduces tiny payloads."""
    row = measured("-N", 2, "--sizes", 4, "-n", 2000, "--in-place", 0, "--no-limit")["rows"][0]
    say(f"   processor time of one operation: {row['cpu_us']} us, of it the master's: {row['master_cpu_us']} us")
    check(0 < row["master_cpu_us"] < row["cpu_us"], f"processor times: {row}")


def test_wrong_options(run):
    """An error text and exit code 2; no process starts."""
    for arguments, part in (
        (["-N", 1], "from 2 to 1024"),
        (["-N", "x"], "a number"),
        (["-b", "1M", "-e", "1K"], "larger than --maxbytes"),
        (["-f", 1, "-i", 0], "a number"),
        (["-f", 1], "--stepbytes"),
        (["--sizes", "4,4"], "ascending order"),
        (["--sizes", ""], "a size such as"),
        (["--sizes", "4,,8"], "a size such as"),
        (["-d", "f8"], "f8e5m2 is expected"),
        (["-o", "nor"], "is expected"),
        (["-q", "minmax"], "minmax:TYPE"),
        (["-q", "fp8:u8"], "is expected"),
        (["-p", 1 << 32], "connection_pool_size"),
        (["-O", "window"], "NAME=VALUE"),
        (["-O", "no_such=1"], "no_such"),
        (["-O", "window_bytes=x"], "window_bytes"),
        (["--limit-cpu", 0], "seconds above 0"),
        (["--chaos", "kill", "-N", 2], "three peers"),
        (["--chaos", "kill", "-N", 3, "limit"], "limit"),
        (["--state", "-N", 3, "--connect", "x"], "requires local peers"),
        (["--state", "limit"], "limit"),
        (["--state", "--chaos", "kill", "-N", 3, "--gate", "x"], "--gate"),
        (["--state", "--chaos", "kill"], "three peers"),
        (["--exact"], "--codec"),
        (["--op", "gather_all"], "all_gather"),
        (["--op", "barrier", "-q", "minmax:u8"], "an operation on elements"),
        (["--op", "send", "-q", "minmax:u8"], "cannot be quantized"),
        (["--op", "send", "-N", 3], "an even number of peers"),
        (["--op", "all_gather", "--state"], "--op cannot be combined"),
        (["--op", "barrier", "limit"], "no limit"),
        (["--topology", "--state"], "--topology cannot be combined"),
        (["--topology", "--chaos", "kill", "-N", 3], "--topology cannot be combined"),
        (["--topology", "limit"], "--topology cannot be combined"),
        (["--solve", "x", "--topology"], "--solve can only be combined"),
        (["--solve", "x", "--connect", "x"], "--solve can only be combined"),
        (["--solve", "x", "--gate", "x"], "--solve can only be combined"),
        (["--solve", "x", "limit"], "--solve can only be combined"),
        (["--seed", 1], "require --solve"),
        (["--topology", "--steps", 1], "require --solve"),
        (["--solve", "x", "--steps", 0], "from 1 to 18446744073709551615"),
        (["--solve", "x", "--seed", -1], "from 0 to 18446744073709551615"),
        (["--dump", "x"], "--dump requires"),
        (["--topology", "--dump", "-", "--json", "-"], "cannot both"),
        (["--chaos", "kill", "-N", 3, "--connect", "x"], "requires local peers"),
        (["limit", "--gate", "x"], "cannot be combined"),
        (["--unknown"], "unknown or ambiguous option --unknown\nTry 'pccl-perf --help'.\n"),
        (["--sizez=4"], "option --sizez=4; did you mean '--sizes'?"),
        (["--s", 4], "unknown or ambiguous option --s\n"),
        (["-x"], "unknown option -x\n"),
        (["--exact=1"], "--exact does not accept a value\n"),
        (["-o", "xor"], "and, or and xor require integers or bool, not floats\n"),
        (["-o", "avg", "-o", "inclusive_scan"], "an average cannot be scanned"),
        (["--gate", "/nowhere/x"], "--gate /nowhere/x: No such file or directory\n"),
        (["--json", "/nowhere/x"], "--json /nowhere/x: No such file or directory\n"),
        (["--topology", "--dump", "/nowhere/x"], "--dump /nowhere/x: No such file or directory\n"),
        (["all"], "unknown; see --help"),
        (["--json"], "--json requires a value\n"),
    ):
        out, err = perf(*arguments, code=2)
        check(part in err and not out, f"words for {arguments}: {out}{err}")
    check("--chaos" in perf("--help")[0], "help")
    check(re.fullmatch(r"pccl-perf \d+\.\d+\.\d+\n", perf("--version")[0]), "version")


def test_json_cannot_be_written(run):
    arguments = ("--sizes", 4, "-n", 1, "--no-limit", "--json")
    check("No space" in perf(*arguments, "/dev/full", code=1)[1], "words")


def test_gate(run):
    """A goal that is met, one that is missed, one that does not apply, and invalid files."""
    arguments = ["-N", 2, "--sizes", "4,64", "-n", 3, "--no-limit", "--gate"]
    easy = {"name": "easy", "peers": 2, "bytes": 4, "metric": "us", "at_most": 1e9}
    other = {"name": "other", "peers": 7, "bytes": 4, "metric": "us", "at_most": 0}
    far = {"name": "far", "of": "wan 1000,25,0", "peers": 2, "bytes": 4, "metric": "share_of_ring", "at_least": 0.8}
    test = {"name": "test", "of": "test e2e/x", "metric": "ms until it knew", "at_most": 1}
    hard = {"name": "hard", "peers": 2, "bytes": 64, "metric": "busbw", "at_least": 1e9, "in_place": True}
    never = {"name": "never", "peers": 2, "bytes": 64, "metric": "share_of_limit", "at_least": 0.1}
    with tempfile.TemporaryDirectory() as folder:
        out, _ = perf(*arguments, goals_file(folder, easy, other, far, test))
        check("met     easy: us" in out and "goals: 1 met, 0 missed, 3 not applicable" in out, out)
        out, _ = perf(*arguments, goals_file(folder, easy, hard), code=1)
        check("MISSED  hard: busbw" in out and "goals: 1 met, 1 missed" in out, out)
        out, _ = perf(*arguments, goals_file(folder, easy, never), code=1)
        check("MISSED  never: share_of_limit not measured" in out, out)
        check("no goal applies" in perf(*arguments, goals_file(folder, other), code=1)[1], "none applies")
        for wrong, words in (
            ({**easy, "metric": "speed"}, "unknown metric"),
            ({**easy, "of": "state_equal"}, None),
            ({**easy, "of": "state_part", "metric": "ratio"}, "unknown metric"),
            ({**easy, "of": "speed"}, "unknown metric"),
            ({**far, "metric": "us"}, "unknown metric"),
            ({**easy, "color": "red"}, "unknown member"),
            ({**easy, "at_least": 1}, "either at_least or at_most"),
            ({"name": "x", "metric": "us", "at_most": 1}, "peers, bytes"),
        ):
            check((words or "no goal applies") in perf(*arguments, goals_file(folder, wrong), code=1)[1], words)
        check("No such file" in perf(*arguments, os.path.join(folder, "none"), code=2)[1], "no file")


def test_worker_dies(run):
    child_dies(2, "peer 1")


def test_master_dies(run):
    child_dies(0, "master 0")


def child_dies(which, name, *arguments):
    """A process is killed at a random moment: the launcher names it, and leaves no process behind."""
    process = subprocess.Popen(
        [harness.executable("perf"), "-N", "3", "--sizes", "1M", "-n", "1000000", "--no-limit", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PCCL_PORT": "0"},
    )

    def children():
        with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]

    all_of_them = poll(lambda: children() if len(children()) == 4 else None, "a master and three workers")
    os.kill(all_of_them[which], signal.SIGKILL)
    _, err = process.communicate(timeout=harness.DEADLINE)
    equal(process.returncode, 1, "exit code")
    check(f"{name} was terminated by signal 9" in err, f"words: {err}")
    poll(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in all_of_them), "its processes to go")


def test_launcher_dies(run):
    """The processes of a killed launcher end."""
    process = subprocess.Popen(
        [harness.executable("perf"), "-N", "2", "--sizes", "1M", "-n", "1000000", "--limit-cpu", "1000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PCCL_PORT": "0"},
    )

    def everybody():
        listed = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False).stdout
        return [int(word) for word in listed.split()]

    all_of_them = poll(lambda: everybody() if len(everybody()) == 5 else None, "master, workers, two of the limit")
    process.kill()
    process.communicate()
    poll(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in all_of_them), "its processes to go")


def connected(run, address, before=lambda peers: None):
    """Returns the JSON of two peers of a cluster. `before` is called with both as soon as they are started."""
    words = [harness.executable("perf"), "--connect", address, "--sizes", "4,100K", "-n", "3", "--json", "-"]
    peers = [
        subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=run.environment)
        for _ in range(2)
    ]
    before(peers)
    results = []
    for peer in peers:
        out, err = peer.communicate(timeout=harness.DEADLINE)
        equal(peer.returncode, 0, f"exit code: {err}")
        results.append(json.loads(out))
    for result in results:
        equal([row["bytes"] for row in result["rows"]], [4, 4, 102400, 102400], "sizes")
        check(all(row["wrong"] == 0 and "share_of_limit" not in row for row in result["rows"]), f"rows: {result}")


def test_cluster(run):
    """Peers that are started one by one, over IPv4 and IPv6."""
    run.start_master()
    connected(run, run.address)


def test_flight_recorder(run):
    """SIGUSR2 makes a peer write its pending waits, without other effects."""
    run.start_master()
    with tempfile.TemporaryDirectory() as folder:
        command = [harness.executable("perf"), "--connect", run.address, "-N", "2", "--sizes", "64", "-n", "2"]
        how = {"cwd": folder, "env": run.environment, "stdout": subprocess.PIPE}
        peers = [subprocess.Popen([*command, "--no-limit"], stderr=subprocess.PIPE, **how)]
        poll(lambda: any("requests to join" in text for _, text in run.master.lines), "the first to join")
        file = os.path.join(folder, f"pccl-perf-{peers[0].pid}.json")
        peers[0].send_signal(signal.SIGUSR2)
        poll(lambda: os.path.exists(file), "the file")
        with open(file, encoding="utf-8") as dump:
            equal(json.load(dump)["process"], peers[0].pid, "whose it is")
        peers.append(subprocess.Popen(peers[0].args, **how))
        for peer in peers:
            peer.communicate(timeout=harness.DEADLINE)
            equal(peer.returncode, 0, "exit code")


def test_cluster_before_its_master(run):
    """Programs of a cluster are started in any order."""
    port = ports.free_port()

    def start_master(peers):
        said = iter(peers[0].stderr.readline, "")
        check(any("cannot reach the master" in line for line in said), "nobody knocked before there was a master")
        run.start_master(port)

    connected(run, f"127.0.0.1:{port}", start_master)


def test_cluster_v6(run):
    if not os.path.exists("/proc/net/if_inet6"):
        say("no IPv6 here")
        return
    run.host = "[::1]"
    run.start_master()
    connected(run, run.address)


def test_limit_alone(run):
    """Plain sockets, and the error if they take too long."""
    result = measured("limit", "-N", 3, "--sizes", "64K,1M", "--limit-cpu", 1000)
    equal([row["bytes"] for row in result["rows"]], [65536, 1 << 20], "sizes")
    check(all(row["us"] > 0 and row["cpu_us"] > 0 for row in result["rows"]), f"rows: {result}")
    out, err = perf("-N", 2, "--sizes", "64K", "-n", 2, "--limit-cpu", 0.000001)
    check("the limit is not valid" in err and "limit:" not in out, f"words: {err}")


def test_chaos(run):
    """Killed peers: every survivor gets an error, or none if no operation was pending, and then a correct result."""
    result = measured("-N", 3, "-e", "256K", "-b", "256K", "--chaos", "kill", "--rounds", 2)
    equal((result["rounds"], result["wrong"], result["to_good"]["count"]), (2, 0, 4), "rounds, wrong, good results")
    check(result["to_error"]["count"] <= 4 and result["undisturbed"]["count"] >= 18, f"counts: {result}")


def test_chaos_gate(run):
    """Goals for the cost of a kill."""
    goal = {"name": "kill", "of": "chaos_kill", "peers": 3, "bytes": 262144, "metric": "to_good_max_ms"}
    arguments = ["-N", 3, "-e", "256K", "-b", "256K", "--chaos", "kill", "--rounds", 2, "--gate"]
    with tempfile.TemporaryDirectory() as folder:
        out, _ = perf(*arguments, goals_file(folder, {**goal, "at_most": 1e9}))
        check("met     kill: to_good_max_ms" in out, out)
        out, _ = perf(*arguments, goals_file(folder, {**goal, "at_most": 0}), code=1)
        check("MISSED  kill" in out, out)


STATE_ROW = re.compile(r"^ +(\d+) (equal|newcomer|part) .* ([\d.]+) +(\d+|-)$", re.M)


def test_state_table(run):
    """A row for each size and case, verified. A state of 300 bytes has four chunks, one for each tensor."""
    out, _ = perf("-N", 3, "--state", "--sizes", "300,8M", "-n", 2, "--no-limit")
    rows = [(int(size), case, moved, wrong) for size, case, moved, wrong in STATE_ROW.findall(out)]
    equal(
        rows,
        [
            (300, "equal", "0.00", "0"),
            (300, "newcomer", "100.00", "0"),
            (300, "part", "25.00", "0"),
            (8 << 20, "equal", "0.00", "0"),
            (8 << 20, "newcomer", "100.00", "0"),
            (8 << 20, "part", "12.50", "0"),
        ],
        f"rows of {out}",
    )


def test_state_json(run):
    """Consistent members, and goals for them."""
    goals = [
        {"name": "equal", "of": "state_equal", "metric": "ratio", "at_least": 0},
        {"name": "newcomer", "of": "state_newcomer", "metric": "gbps", "at_least": 0},
        {"name": "limit", "of": "state_newcomer", "metric": "share_of_limit", "at_least": 0},
        {"name": "part", "of": "state_part", "metric": "share", "at_most": 0.07},
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = goals_file(folder, *({"peers": 2, "bytes": 16 << 20, **goal} for goal in goals))
        file = os.path.join(folder, "json")
        out, _ = perf("-N", 2, "--state", "--sizes", "16M", "-n", 2, "--json", file, "--gate", path)
        with open(file, encoding="utf-8") as text:
            result = json.load(text)
    check("goals: 4 met, 0 missed, 0 not applicable" in out, out)
    equal([row["of"] for row in result["rows"]], ["state_equal", "state_newcomer", "state_part"], "cases")
    equal([row["wrong"] for row in result["rows"]], [0, 0, 0], "wrong words")
    same, newcomer, part = result["rows"]
    check(abs(same["ratio"] - same["us"] / same["digest_us"]) < 0.01 and same["share"] == 0, f"equal: {same}")
    check(abs(newcomer["gbps"] - newcomer["bytes"] / newcomer["us"] * 1e-3) < 0.01, f"newcomer: {newcomer}")
    check(abs(newcomer["share_of_limit"] - newcomer["limit_us"] / newcomer["us"]) < 0.01, f"newcomer: {newcomer}")
    equal((newcomer["share"], part["share"]), (1.0, 0.0625), "shares: all, and 1 of 16 chunks")


def test_state_chaos(run):
    """A donor is killed during the transfer: the newcomer receives all content nevertheless."""
    result = measured("-N", 4, "--state", "-b", "32M", "-e", "32M", "-n", 2, "--chaos", "kill", "--rounds", 3)
    equal((result["rounds"], result["wrong"], result["disturbed"]["count"]), (3, 0, 3), "rounds, wrong, times")
    equal(result["undisturbed"]["count"], 2, "undisturbed")
    say(f"   {result['extra_median_ms']} ms more, {result['late']} signals were too late")


# ---- topology ----


def picture(folder, count, ring, ways, seed=42, steps=1000000, names=()):
    """Writes a file in the format of --dump. ways: (from, to) -> (Mbit/s, microseconds), or None if unreachable."""
    lines = ["pccl topology 1", "group 3", f"peers {count}"]
    for i in range(count):
        name = f" {names[i]}" if i < len(names) else ""
        lines.append(f"peer {i} {i:032x} 10.0.{i // 256}.{i % 256}:48149{name}")
    lines += ["ring " + " ".join(map(str, ring)), f"search seed {seed} steps {steps}"]
    for (source, to), figures in ways.items():
        known = f"rate {figures[0] * 125000} rtt {figures[1]} age 5 tested" if figures else "unreachable age 5"
        lines.append(f"way {source} {to} {known}")
    path = os.path.join(folder, "picture")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines + ["end", ""]))
    return path


def pairs(count):
    return [(i, k) for i in range(count) for k in range(count) if i != k]


def scattered(count):
    """Returns paths of all kinds, equal in each call."""
    drawn = random.Random(1)
    return {way: (10 + int(drawn.random() * 9990), 10 + int(drawn.random() * 100000)) for way in pairs(count)}


def solved(path, *arguments, **how):
    return measured("--solve", path, *arguments, **how)


def test_solve(run):
    """It finds the only good ring, regardless of the file's ring; its output leads to the same solution."""
    ways = {(i, k): (1000 if (i + 2) % 5 == k else 10, 300) for i, k in pairs(5)}
    with tempfile.TemporaryDirectory() as folder:
        path = picture(folder, 5, range(5), ways, names=('a "quoted" \\', "b"))
        result = solved(path)
        equal(result["ring"], [0, 2, 4, 1, 3], "ring")
        equal((result["exists"], result["proven"], result["same"]), (True, True, False), "words about it")
        equal((result["slowest_mbit"], result["latency_us"], result["unknown_ways"]), (1000, 1500, 0), "its worth")
        equal((result["before"]["ring"], result["before"]["slowest_mbit"]), ([0, 1, 2, 3, 4], 10), "the file's ring")
        equal((result["group"], result["seed"], result["steps"]), (3, 42, 1000000), "search")
        equal([peer["name"] for peer in result["peers"]], ['a "quoted" \\', "b", "", "", ""], "names")
        equal(result["peers"][1], {"number": 1, "id": f"{1:032x}", "address": "10.0.0.1:48149", "name": "b"}, "a peer")
        out, _ = perf("--solve", path)
        worth = "ring: 0 -> 2 -> 4 -> 1 -> 3 -> 0\n"
        worth += "  slowest link: 0 -> 2, 1000 Mbit/s; round trips: 1.500 ms in total\n"
        for part in (worth, "proven: "):
            check(part in out, f"{part} in {out}")
        check("the ring in the file is different: 0 -> 1 -> 2 -> 3 -> 4 -> 0" in out, out)
        again = os.path.join(folder, "again")
        perf("--solve", path, "--dump", again)
        check("the ring in the file is the same" in perf("--solve", again)[0], "the same ring")
        equal(solved(again)["before"]["ring"], [0, 2, 4, 1, 3], "the ring that was written")
        rotated = picture(folder, 5, [4, 1, 3, 0, 2], ways)
        check(solved(rotated)["same"], "the same ring, from another member on")
        turned = picture(folder, 5, [0, 3, 1, 4, 2], ways)
        check(not solved(turned)["same"], "another ring: the other way around")


def test_solve_streams(run):
    """From standard input to standard output; then the table is on standard error."""
    with tempfile.TemporaryDirectory() as folder:
        path = picture(folder, 6, range(6), scattered(6))
        out, err = perf("--solve", path, "--dump", "-")
        check(out.startswith("pccl topology 1\n") and "proven" in err, f"streams: {out}{err}")
        done = subprocess.run(
            [harness.executable("perf"), "--solve", "-"], input=out, capture_output=True, text=True, check=False
        )
        check(done.returncode == 0 and "the ring in the file is the same" in done.stdout, f"{done.stdout}{done.stderr}")


def test_solve_promise(run):
    """Two sites that share a line: the limit, the rates of the ring and of trees, in all three forms."""
    ways = {(i, k): (25, 20000) if i % 2 != k % 2 else (100, 500) for i, k in pairs(8)}
    with tempfile.TemporaryDirectory() as folder:
        path = picture(folder, 8, range(8), ways)
        promise = solved(path)["all_reduce"]
        equal((promise["most_mbit"], promise["limit"]), (25, "uplink of the site of peer 0"), "the limit")
        equal((round(promise["ring_mbit"], 2), promise["trees_mbit"]), (14.29, 25), "of the ring and of trees")
        equal(sum(tree["weight"] for tree in promise["trees"]), 256, "weights")
        for tree in promise["trees"]:
            crossing = [i for i, parent in enumerate(tree["parents"]) if i % 2 != parent % 2]
            check(len(crossing) == 1 and len(tree["parents"]) == 8, f"one edge between the sites: {tree}")
        out, err = perf("--solve", path, "--dump", "-")
        check("at most 3125000, uplink of the site of peer 0\n" in out, out)
        check("\n# around the ring 1785714, over trees 3125000\n" in out, out)
        for part in (
            "at most 25 Mbit/s of the tensor, limited by the uplink of the site of peer 0\n",
            "around the ring: 14.29 Mbit/s, 57 %\n",
            "over trees: 25 Mbit/s, 100 %; operations do not use trees\n",
        ):
            check(part in err, f"{part} in {err}")
        equal(sum(line.startswith("# tree ") for line in out.split("\n")), len(promise["trees"]), "trees in the text")
        equal(solved(picture(folder, 65, range(65), scattered(65), steps=1000))["all_reduce"], None, "too many peers")


def test_solve_unknown(run):
    """A ring over paths without data, and one that avoids them."""
    with tempfile.TemporaryDirectory() as folder:
        result = solved(picture(folder, 3, [0, 2, 1], {(0, 1): (10, 5)}))
        equal((result["ring"], result["unknown_ways"], result["slowest_mbit"]), ([0, 2, 1], 3, None), "only such")
        result = solved(picture(folder, 3, [0, 2, 1], {way: (10, 5) for way in ((0, 1), (1, 2), (2, 0))}))
        equal((result["ring"], result["unknown_ways"], result["slowest_mbit"]), ([0, 1, 2], 0, 10), "none of them")
        result = solved(picture(folder, 1, [0], {}))
        equal((result["ring"], result["same"]), ([0], True), "a peer alone")


def test_solve_none(run):
    """No ring: a separate exit code, and an error text, for few peers and for many."""
    for count in (3, 14):
        with tempfile.TemporaryDirectory() as folder:
            path = picture(folder, count, range(count), {(0, k): None for k in range(1, count)})
            result = solved(path, code=1)
            equal((result["ring"], result["exists"], result["proven"]), (None, False, True), "no ring")
            check("no ring exists" in perf("--solve", path, code=1)[0], "words")


def test_solve_many(run):
    """More than 12 peers: a better ring without a proof; it depends only on seed and steps."""
    with tempfile.TemporaryDirectory() as folder:
        path = picture(folder, 30, range(30), scattered(30))
        result = solved(path)
        equal((result["exists"], result["proven"], sorted(result["ring"])), (True, False, list(range(30))), "a ring")
        before, after = result["before"]["slowest_mbit"], result["slowest_mbit"]
        check(after > before, f"a better one: {result}")
        equal(solved(path)["ring"], result["ring"], "the same search, twice")
        check("a better ring may exist" in perf("--solve", path)[0], "words")
        other = solved(path, "--seed", 43, "--steps", 1000)
        equal((other["seed"], other["steps"]), (43, 1000), "the seed and the steps that were asked for")
        check(other["ring"] != result["ring"], "a short search finds something else")
        path = picture(folder, 30, range(30), scattered(30), steps=0)
        equal(solved(path)["steps"], 4000000, "steps, of a file without")
        long = perf("--solve", picture(folder, 90, range(90), scattered(90)))[0]
        check("ring: 0 -> " in long and max(map(len, long.splitlines())) <= 120, "long rings are broken into lines")


def test_solve_bad_input(run):
    """The error names the file and the mistake; standard output is empty."""
    with tempfile.TemporaryDirectory() as folder:
        path = picture(folder, 3, range(3), scattered(3))
        with open(path, encoding="utf-8") as file:
            text = file.read()
        for old, new, words in (
            ("pccl topology 1", "pccl topology 2", "line 1: expected 'pccl topology 1'"),
            ("ring 0 1 2", "ring 0 1 1", "line 7: 'ring' must name each of the 3 peers once"),
            ("end\n", "", "expected 'way' or 'end'"),
            ("way 0 1", "way 0 3", "numbers of two peers"),
            ("peers 3", "peers 4000000000", "from 1 to"),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text.replace(old, new, 1))
            out, err = perf("--solve", path, code=2)
            check(not out and path in err and words in err, f"{words}: {out}{err}")
        out, err = perf("--solve", os.path.join(folder, "none"), code=2)
        check("No such file" in err and not out, err)
        check("Is a directory" in perf("--solve", folder, code=2)[1], "a directory")
        path = picture(folder, 3, range(3), scattered(3))
        for option in ("--dump", "--json"):
            check("No space" in perf("--solve", path, option, "/dev/full", code=2)[1], option)


TOPOLOGY_ROW = re.compile(r"^ +(\d+) +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +[\d.]+ +(?:[\d.]+|-) +(\d+)$", re.M)


def test_topology(run):
    """Rows, the links, the ring; its output is solved again."""
    with tempfile.TemporaryDirectory() as folder:
        dump, again = os.path.join(folder, "dump"), os.path.join(folder, "again")
        out, _ = perf("-N", 3, "--topology", "-n", 2, "--dump", dump)
        equal(TOPOLOGY_ROW.findall(out), [("1", "0"), ("2", "0")], f"rows of {out}")
        check("Mbit/s from row to column" in out and "round trips in ms" in out, out)
        check(re.search(r"^ring: 0 -> (1 -> 2|2 -> 1) -> 0\n  slowest link: ", out, re.M), f"ring of {out}")
        for i in range(3):
            check(re.search(rf"127\.0\.0\.1:\d+  peer {i}$", out, re.M), f"peer {i} of {out}")
        first = solved(dump, "--dump", again)
        equal((sorted(first["ring"]), first["proven"]), ([0, 1, 2], True), "ring")
        second = solved(again)
        equal((second["ring"], second["same"]), (first["ring"], True), "the same ring again")


def test_topology_json(run):
    """Consistent members: every path between the peers, times, the value of the ring. And goals."""
    goals = [
        {"name": "time", "metric": "optimize_s", "at_least": 0},
        {"name": "cpu", "metric": "cpu_s", "at_most": 1e9},
        {"name": "gain", "metric": "gain", "at_least": 1e9},
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = goals_file(folder, *({"of": "topology", "peers": 3, **goal} for goal in goals))
        file = os.path.join(folder, "json")
        out, _ = perf("-N", 3, "--topology", "-e", "64K", "-b", 4, "--json", file, "--gate", path, code=1)
        with open(file, encoding="utf-8") as text:
            result = json.load(text)
    check("met     time: optimize_s" in out and "MISSED  gain" in out and "goals: 2 met, 1 missed" in out, out)
    equal(result["bytes"], 65536, "bytes")
    equal(sorted(peer["name"] for peer in result["peers"]), ["peer 0", "peer 1", "peer 2"], "names")
    equal([peer["number"] for peer in result["peers"]], [0, 1, 2], "numbers")
    known = {(way["from"], way["to"]): way for way in result["ways"]}
    equal(sorted(known), pairs(3), "ways")
    for way in result["ways"]:
        check(way["source"] in ("tested", "traffic") and way["rate_mbit"] > 0 and way["age_ms"] < 600000, f"{way}")
    ring = [known[way] for way in zip(result["ring"], result["ring"][1:] + result["ring"][:1])]
    equal(result["slowest_mbit"], min(way["rate_mbit"] for way in ring), "slowest link of the ring")
    equal(result["latency_us"], sum(way["rtt_us"] for way in ring), "sum of its round trips")
    (row,) = result["rows"]
    check(0 < row["cpu_mean_s"] <= row["cpu_s"] and row["master_cpu_s"] > 0, f"processor times: {row}")
    check(abs(row["gain"] - row["before_us"] / row["after_us"]) < 0.01, f"gain: {row}")
    equal((row["wrong"], row["failed"]), (0, False), "wrong elements, failure")


def test_topology_cluster(run):
    """Peers that are started one by one: only one of them writes, to standard output and into the file."""
    run.start_master()
    with tempfile.TemporaryDirectory() as folder:
        dump = os.path.join(folder, "dump")
        words = [harness.executable("perf"), "--connect", run.address, "-N", "3", "--topology", "--dump", dump]
        peers = [
            subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**run.environment, "PCCL_NAME": f"host {i}"},
            )
            for i in range(3)
        ]
        results = [peer.communicate(timeout=harness.DEADLINE) for peer in peers]
        equal([peer.returncode for peer in peers], [0, 0, 0], f"exit codes: {results}")
        (out,) = [out for out, _ in results if out]
        equal(TOPOLOGY_ROW.findall(out), [("1", "0")], f"rows of {out}")
        check(all(f"  host {i}\n" in out for i in range(3)), f"names of {out}")
        equal(len(solved(dump)["ring"]), 3, "ring")


def test_topology_speaker_dies(run):
    child_dies(1, "peer 0", "--topology")


def test_topology_master_dies(run):
    child_dies(0, "master 0", "--topology")


harness.main()
