"""Launchers that restart all of their workers when one fails: one for each replica, with replicas that join by elastic
mode; or a single one, whose workers continue from a checkpoint. Ray and Slurm run if installed (`ray[train]` in
build/venv; Debian's slurm-wlm, as root). Also frameworks that make process groups themselves."""

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time

import launcher
import pytest
import support

support.need("torch")

import installed  # noqa: E402

import pccl._programs  # noqa: E402

ENDLESS = 1_000_000_000  # steps
RUN = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
RAY = {
    "OMP_NUM_THREADS": "1",
    "RAY_DEDUP_LOGS": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_OVERRIDE_RESOURCES": '{"CPU": 4}',
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "200",  # of a busy machine
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return installed.metadata(tmp_path_factory.mktemp("installed"))


@pytest.fixture
def torchrun(script, folder):
    """Returns torchrun(example, argument...), which starts an example of this package."""
    started = []

    def start(example, *arguments, workers=1, **env):
        text = "import sys; from torch.distributed.run import main; main(sys.argv[1:])"
        words = ["--standalone", f"--nproc-per-node={workers}", "--max-restarts=9", launcher.EXAMPLES / example]
        started.append(script(text, *words, *arguments, env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", **env}))
        return started[-1]

    yield start
    for one in started:  # a kill would leave its workers
        one.kill(signal.SIGTERM)
        one.end()


def processes():
    """Yields the processes that run an example, also launchers: their numbers, their parents' numbers, arguments,
    environments."""
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            place = pathlib.Path("/proc", entry)
            stat, words, env = ((place / name).read_text() for name in ("stat", "cmdline", "environ"))
        except OSError:
            continue  # it has ended, or belongs to another user
        if str(launcher.EXAMPLES) in words:
            yield int(entry), int(stat.rpartition(")")[2].split()[1]), words, env


def workers(launched):
    return sorted(pid for pid, parent, _, _ in processes() if parent == launched.pid)


def end_with_equal_digests(launched):
    digests = {one.line("digest ") for one in launched}
    assert len(digests) == 1, digests
    for one in launched:
        assert one.end() == 0, one.lines


@pytest.mark.sampled(4)
def test_a_torchrun_for_each_replica(torchrun, address):
    two = [torchrun("elastic_ddp.py", "--pause", 0.1, PCCL_MASTER=address) for _ in range(2)]
    launcher.wait_for(two, ": 2 peers")
    launcher.make_way(two[1:])
    os.kill(workers(two[0])[0], signal.SIGKILL)
    two[1].line(": 1 peers")
    two[0].line("exitcode: -9")
    launcher.wait_for(two, ": 2 peers")
    os.kill(workers(two[0])[0], signal.SIGTERM)
    end_with_equal_digests(two)


@pytest.mark.nightly
def test_a_torchrun_for_each_replica_of_two(torchrun, address):
    """HSDP: the launcher ends the other worker, too, and both join again."""
    given = {"workers": 2, "PCCL_MASTER": address, "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
    two = [torchrun("torch_hsdp.py", "--elastic", "--pause", 0.1, "--steps", ENDLESS, **given) for _ in range(2)]
    launcher.wait_for(two, ": 2 replicas")
    os.kill(workers(two[0])[1], signal.SIGKILL)
    two[1].line(": 1 replicas")
    launcher.wait_for(two, ": 2 replicas")
    os.kill(workers(two[0])[0], signal.SIGTERM)
    end_with_equal_digests(two)


@pytest.mark.nightly
def test_one_torchrun_and_a_snapshot(torchrun, tmp_path):
    """The world is fixed: all workers get an error that names the lost one, and continue from the snapshot."""
    one = torchrun("torch_ddp.py", "--epochs", 60, "--snapshot", tmp_path / "snapshot.pt", workers=2)
    one.line("epoch 3:")
    os.kill(workers(one)[1], signal.SIGKILL)
    told = one.line("CollectiveError")
    assert "rank 1" in told, told
    first = one.line("epoch ")
    assert int(first.split()[1].rstrip(":")) > 3, first
    one.line("epoch 60:")
    assert one.end() == 0, one.lines


@pytest.mark.nightly
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs ray[train]")
def test_a_trainer_of_ray_for_each_replica(script, address, folder, tmp_path):
    """A worker fails: Ray starts another actor in its place, which joins as a newcomer."""
    stop = tmp_path / "stop"
    words = [address, "--steps", ENDLESS, "--pause", 0.1, "--folder", tmp_path / "files", "--stop", stop]
    both = script(RUN, launcher.EXAMPLES / "torch_ray.py", *words, env={"PYTHONPATH": str(folder), **RAY})
    victim = int(both.line(" is in replica 0").split("process ")[1].split()[0])
    both.line(": 2 replicas")
    os.kill(victim, signal.SIGKILL)
    both.line(": 1 replicas")
    assert int(both.line(" is in replica 0").split("process ")[1].split()[0]) != victim
    both.line(": 2 replicas")
    stop.touch()
    digests = {both.line("digest ").split("digest ")[1] for _ in range(2)}
    assert len(digests) == 1, digests
    assert both.end() == 0, both.lines


def same_losses_as_with_gloo(start):
    """start(backend) starts a program of two processes that prints its losses and its backend."""
    found = {}
    for backend in ("pccl", "gloo"):
        one = start("--backend", backend)
        one.line(f"2 processes by {backend}")
        assert one.end() == 0, one.lines
        said = re.findall(r"((?:epoch|step) \d+): .*loss (\d+\.\d{6})", "\n".join(one.lines))
        found[backend] = {what: float(loss) for what, loss in said}
    ours, theirs = found["pccl"], found["gloo"]
    assert len(ours) >= 3 and ours.keys() == theirs.keys(), found
    assert all(abs(ours[what] - theirs[what]) < 1e-5 for what in ours), found
    assert min(ours.values()) < 0.7 * max(ours.values()), ours


@pytest.mark.nightly
def test_accelerate(torchrun):
    pytest.importorskip("accelerate")
    same_losses_as_with_gloo(lambda *given: torchrun("torch_accelerate.py", *given, workers=2))


@pytest.mark.nightly
@pytest.mark.parametrize("cpu, said", [(True, "Your assigned backend pccl is not available"), (False, "NO 2")])
def test_accelerate_takes_no_backend_on_a_cpu(script, folder, cpu, said):
    """With its keyword it refuses the backend, or trains each process separately."""
    pytest.importorskip("accelerate")
    text = (
        "import os, sys, accelerate, torch.multiprocessing as mp\n"
        "def rank(number, port):\n"
        "    os.environ.update(RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE='2')\n"
        "    os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT=port)\n"
        "    named = accelerate.InitProcessGroupKwargs(backend='pccl')\n"
        "    made = accelerate.Accelerator(cpu=sys.argv[2] == 'True', kwargs_handlers=[named])\n"
        "    print(made.distributed_type.value, made.num_processes, flush=True)\n"
        "    made.end_training()\n"
        "mp.start_processes(rank, (sys.argv[1],), nprocs=2, start_method='fork')\n"
    )
    script(text, support.free_port(), cpu, env={"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}).line(said)


@pytest.mark.nightly
def test_lightning(script, folder):
    pytest.importorskip("lightning")
    example, given = launcher.EXAMPLES / "torch_lightning.py", {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    text = f"import os, sys; os.execv(sys.executable, [sys.executable, {str(example)!r}, *sys.argv[1:]])"
    same_losses_as_with_gloo(lambda *words: script(text, *words, env=given))


@pytest.mark.nightly
def test_ray_train(script, folder, tmp_path):
    pytest.importorskip("ray")
    words, given = ["--folder", tmp_path / "files"], {"PYTHONPATH": str(folder), **RAY}
    example = launcher.EXAMPLES / "torch_ray_train.py"
    same_losses_as_with_gloo(lambda *more: script(RUN, example, *words, *more, env=given))


@pytest.fixture(scope="module")
def extensions(tmp_path_factory):
    """Returns the folder for the module that DeepSpeed compiles at its first start."""
    return str(tmp_path_factory.mktemp("extensions"))


@pytest.mark.nightly
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_deepspeed(torchrun, extensions, stage):
    pytest.importorskip("deepspeed")
    given = {"workers": 2, "TORCH_EXTENSIONS_DIR": extensions}
    same_losses_as_with_gloo(lambda *more: torchrun("torch_deepspeed.py", "--stage", stage, *more, **given))


SECOND = "zz-second"  # names of nodes are sorted, and the master runs on the first one
SLURM = """
ClusterName=pccl
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
SlurmdParameters=config_overrides
NodeName={host} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8
NodeName={second} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8
PartitionName=all Nodes=ALL Default=YES State=UP
"""


@pytest.fixture
def slurm(tmp_path, folder):
    """Starts a cluster of two nodes on this host. Returns the environment of its users."""
    host = socket.gethostname().partition(".")[0]
    ports = [support.free_port() for _ in range(3)]
    (tmp_path / "state").mkdir()
    (tmp_path / "slurm.conf").write_text(SLURM.format(folder=tmp_path, ports=ports, host=host, second=SECOND))
    master = shutil.which("pccl-master", path=os.path.dirname(pccl._programs.find()))
    path = os.pathsep.join([os.path.dirname(master), os.environ["PATH"]])
    more = {"PATH": path, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "SLURM_CONF": str(tmp_path / "slurm.conf")}
    env = support.environment(**more)
    commands = ["slurmctld -D -i", f"slurmd -D -N {host}", f"slurmd -D -N {SECOND}"]
    daemons = [
        subprocess.Popen(command.split(), env=env, stdout=log, stderr=log)
        for command in commands
        for log in [(tmp_path / command.replace(" ", "")).open("w")]
    ]
    run = functools.partial(subprocess.run, env=env, timeout=support.DEADLINE, text=True, capture_output=True)
    end = time.monotonic() + support.DEADLINE
    while run(["sinfo", "--noheader", "--format=%T %D"]).stdout != "idle 2\n":
        logs = [(tmp_path / command.replace(" ", "")).read_text() for command in commands]
        assert time.monotonic() < end and all(daemon.poll() is None for daemon in daemons), "\n".join(logs)
        time.sleep(0.1)
    yield more
    run(["scancel", "--user=root", "--full"])
    while run(["squeue", "--noheader"]).stdout:
        time.sleep(0.1)
    for daemon in daemons:
        daemon.terminate()
        daemon.wait()


@pytest.mark.nightly
@pytest.mark.skipif(not shutil.which("slurmctld") or os.getuid() != 0, reason="needs slurm-wlm, and root")
def test_a_torchrun_on_each_node_of_slurm(script, slurm, tmp_path):
    """A worker fails: its torchrun starts another one. All of a node's processes fail: the job continues, and the batch
    file starts the torchrun again."""
    said, port = tmp_path / "said", support.free_port()
    said.touch()
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--max-restarts=9"]
    batch = support.PACKAGE.parent / "packaging/slurm/pccl.sbatch"
    words = ["--nodes=2", f"--output={said}", f"--export=ALL,PORT={port}", "--open-mode=append", batch]
    words += [*torchrun, launcher.EXAMPLES / "elastic_ddp.py", "--pause=0.1"]
    job = script("import os, sys; os.execvp('sbatch', ['sbatch', '--wait', *sys.argv[1:]])", *words, env=slurm)
    lines = script("import os, sys; os.execvp('tail', ['tail', '-n', '+1', '-F', sys.argv[1]])", said)

    def of_second():
        """Returns its torchrun, and the torchrun's worker."""
        found = [one for one in processes() if one[2].startswith(sys.executable) and f":{port}" in one[2]]
        found = [one for one in found if f"SLURMD_NODENAME={SECOND}" in one[3]]
        launchers = {pid for pid, _, words, _ in found if "torch.distributed.run" in words}
        return [(parent, pid) for pid, parent, _, _ in found if parent in launchers][0]

    lines.line(": 2 peers")
    os.kill(of_second()[1], signal.SIGKILL)
    lines.line(": 1 peers")
    lines.line("exitcode: -9")
    lines.line(": 2 peers")
    for process in of_second():
        os.kill(process, signal.SIGKILL)
    lines.line(f"{SECOND}: attempt 1 ended with status 137")
    lines.line(": 1 peers")
    lines.line(": 2 peers")
    os.kill(of_second()[1], signal.SIGTERM)
    assert len({lines.line("digest ") for _ in range(2)}) == 1
    assert job.end() == 0, job.lines


@pytest.mark.nightly
def test_manifests_of_kubernetes():
    """Against Kubernetes' schemas, without unknown fields; for a JobSet, the jobs in it."""
    kubernetes_validate = pytest.importorskip("kubernetes_validate")
    import yaml

    def validate(thing):
        kubernetes_validate.validate(thing, kubernetes_validate.latest_version(), strict=True)

    found = []
    for path in sorted((support.PACKAGE.parent / "packaging/kubernetes").glob("*.yaml")):
        for thing in yaml.safe_load_all(path.read_text()):
            found.append(thing["kind"])
            if thing["kind"] != "JobSet":
                validate(thing)
                continue
            assert thing["spec"].keys() == {"network", "replicatedJobs"}
            for job in thing["spec"]["replicatedJobs"]:
                assert job.keys() == {"name", "replicas", "template"}
                validate({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "one"}, **job["template"]})
    assert {"Job", "JobSet"} <= set(found)  # scripts/packages checks the chart of the master
