"""How packaging/ starts the programs: its scripts, with stand-ins for what they call, and the names
in its files, in those of .github/ and in the pages for contributors."""
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"
LIMIT_S = 60

# Says what it was called with, and runs the command so often as there would be tasks.
SRUN = """#!/bin/bash
echo "srun $*" >>"$LOG"
tasks=2
while [ "${1#--}" != "$1" ]; do
    [ "$1" != --ntasks=1 ] || tasks=1
    shift
done
trap 'kill $(jobs -p) 2>/dev/null' TERM
for task in $(seq $tasks); do SLURM_PROCID=$((task - 1)) "$@" & done
status=0
for pid in $(jobs -p); do wait "$pid" || status=1; done
exit $status
"""
# Dies once, then stays until it is told to end.
MASTER = """#!/bin/bash
echo "master $*" >>"$LOG"
[ -e died ] || { touch died; kill -KILL $$; }
touch serves
trap 'exit 0' TERM
while :; do sleep 0.05; done
"""
# The first attempt fails; those after it end well, once the master serves.
PEER = """#!/bin/bash
echo "peer $PCCL_NAME $*" >>"$LOG"
[ -e "failed$SLURM_PROCID" ] || { touch "failed$SLURM_PROCID"; exit 3; }
until [ -e serves ] || [ -n "${ELSEWHERE:-}" ]; do sleep 0.05; done
"""


class Slurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.stand_in("scontrol", '#!/bin/sh\n[ "$*" = "show hostnames node[7-8]" ] && echo node7 && echo node8\n')
        for name, text in (("srun", SRUN), ("pccl-master", MASTER), ("peer", PEER)):
            self.stand_in(name, text)

    def stand_in(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def submit(self, *arguments, **variables):
        """(exit status, what was called)"""
        env = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", LOG=str(self.folder / "log"))
        env.update(SLURM_JOB_NODELIST="node[7-8]", SLURMD_NODENAME="node7", **variables)
        done = subprocess.run(
            ["bash", str(PACKAGING / "slurm/pccl.sbatch"), *arguments],
            cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False,
        )
        log = self.folder / "log"
        return done.returncode, sorted(log.read_text().splitlines()) if log.exists() else []

    def test_a_run(self):
        status, calls = self.submit("peer", "a b")
        self.assertEqual(status, 0)
        self.assertEqual(calls.count("master --listen [::]:48148"), 2, "it is started again once it died")
        for name in ("node7-0", "node7-1"):
            self.assertEqual(calls.count(f"peer {name} a b node7:48148"), 2, "it is started again once it failed")
        self.assertEqual(len([call for call in calls if call.startswith("srun") and "--nodelist=node7" in call]), 1)

    def test_another_port(self):
        self.assertIn("master --listen [::]:5000", self.submit("peer", PORT="5000")[1])

    def test_a_master_elsewhere(self):
        status, calls = self.submit("peer", MASTER="host:9000", ELSEWHERE="1")
        self.assertEqual(status, 0)
        self.assertIn("peer node7-0 host:9000", calls)
        self.assertFalse([call for call in calls if call.startswith("master")])

    def test_no_command(self):
        self.assertEqual(self.submit(), (2, []))


class Kubernetes(unittest.TestCase):
    def test_the_end_of_the_pod_is_no_end_of_the_run(self):
        """The command of the container must kill the master and not let it say good-bye."""
        text = (PACKAGING / "kubernetes/chart/templates/master.yaml").read_text(encoding="utf-8")
        command = re.search(r'args: \["(.*)"\]', text).group(1)
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "pccl"
            program.write_text("#!/bin/sh\ntrap 'echo good-bye' TERM\necho serves\nwhile :; do sleep 0.05; done\n")
            program.chmod(0o755)
            env = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
            pod = subprocess.Popen(["/bin/sh", "-c", command], env=env, stdout=subprocess.PIPE, text=True)
            self.addCleanup(pod.kill)
            self.assertEqual(pod.stdout.readline(), "serves\n")
            pod.send_signal(signal.SIGTERM)
            rest, _ = pod.communicate(timeout=LIMIT_S)  # ends when the master, which holds the pipe too, has ended
        self.assertEqual(rest, "")

    def test_ports(self):
        header = (ROOT / "include/ccoip.h").read_text(encoding="utf-8")
        ports = dict(re.findall(r"CCOIP_PROTOCOL_PORT_(\w+) (\d+)", header))
        for name in ("chart/templates/master", "peers"):
            text = (PACKAGING / f"kubernetes/{name}.yaml").read_text(encoding="utf-8")
            used = set(re.findall(r"(?:\bport|\bcontainerPort|pccl-master): ?(48\d{3})\b", text))
            self.assertLessEqual(used - {"48180"}, {ports["MASTER"], ports["SHARED_STATE"]})  # 48180: HTTP
            self.assertTrue(used)


class Names(unittest.TestCase):
    """Each variable and parameter that is named exists."""

    FILES = ("kubernetes/chart/templates/master.yaml", "kubernetes/chart/values.yaml", "kubernetes/peers.yaml", "kubernetes/torch.yaml", "kubernetes/torch-jobset.yaml",
             "slurm/pccl.sbatch", "systemd/pccl-master.service", "docker/Dockerfile", "docker/compose.yaml")

    def test_variables(self):
        table = "".join((ROOT / name).read_text(encoding="utf-8")
                        for name in ("src/config/params.h", "src/master/params.h", "src/peer/params.h"))
        known = set(re.findall(r'"(PCCL_\w+)"', table)) | {"PCCL_LISTEN", "PCCL_LOG_FORMAT", "PCCL_BUILD_TESTS", "PCCL_MASTER"}
        texts = [PACKAGING / name for name in self.FILES] + [ROOT / "docs/guide/deployment.md"]
        for path in texts:
            text = path.read_text(encoding="utf-8")
            unknown = set(re.findall(r"\bPCCL_[A-Z_]*[A-Z]\b", text)) - known
            self.assertEqual(unknown, set(), path.name)
        parameters = {name[len("PCCL_"):].lower() for name in known}
        guide = texts[-1].read_text(encoding="utf-8")
        words = set(re.findall(r"`(\w+_(?:ms|bytes|size|address|addresses|range))`", guide))
        self.assertEqual(words - parameters, set())
        self.assertTrue(words)

    def test_metrics(self):
        """The dashboard and the guide name metrics that there are, and the dashboard shows all."""
        table = (ROOT / "docs/METRICS.md").read_text(encoding="utf-8")
        known = {name for name, _ in re.findall(r"^\| `(pccl_\w+)` \| (\w+) \|", table, re.M)}
        histograms = set(re.findall(r"^\| `(pccl_\w+)` \| histogram \|", table, re.M))
        known |= {name + part for name in histograms for part in ("_bucket", "_sum", "_count")}
        dashboard = json.loads((PACKAGING / "grafana/pccl-master.json").read_text(encoding="utf-8"))
        named = set()
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                named |= set(re.findall(r"\bpccl_\w+", target["expr"]))
        self.assertEqual(named - known, set())
        self.assertEqual(known - named - histograms, set())
        rules = (PACKAGING / "kubernetes/chart/rules.yaml").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"\bpccl_\w+", rules)) - known, set())
        guide = (ROOT / "docs/guide/metrics.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"\bpccl_\w+", guide)) - known - {"pccl_master"}, set())

    def test_targets_and_scripts(self):
        made = set(re.findall(r"^([a-z-]+(?: [a-z-]+)*):(?!=)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.M))
        targets = {target for names in made for target in names.split()}
        pages = [ROOT / name for name in ("CONTRIBUTING.md", "docs/HACKING.md", "docs/RELEASING.md", "docs/TESTING.md")]
        for path in [*(ROOT / ".github").rglob("*.*"), *pages]:
            text = path.read_text(encoding="utf-8")
            used = set(re.findall(r"(?:`|^ *|&& |run: )make ([a-z-]+)", text, re.M))
            used |= {name for names in re.findall(r"^ *target: \[(.*)\]", text, re.M) for name in names.split(", ")}
            scripts = re.findall(r"(?:`|^ *|&& |run: )(scripts/[\w.-]+|\.ci/run)", text, re.M)
            with self.subTest(path.name):
                self.assertEqual(used - targets, set(), "targets that the Makefile does not have")
                self.assertEqual([name for name in scripts if not (ROOT / name).exists()], [])

    def test_the_version_in_the_changelog_and_the_citation(self):
        header = (ROOT / "include/pccl.h").read_text(encoding="utf-8")
        version = ".".join(re.findall(r"^#define PCCL_VERSION_\w+ (\d+)", header, re.M)[:3])
        newest = re.search(r"^## \[(.*)\] - ", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M).group(1)
        self.assertEqual(newest, version)
        chart = (PACKAGING / "kubernetes/chart/Chart.yaml").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r'^(?:version|appVersion): "?([0-9.]+)"?$', chart, re.M), [version, version])
        cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.M).group(1)
        self.assertEqual(cited, version)


if __name__ == "__main__":
    unittest.main()
