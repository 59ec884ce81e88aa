"""A source archive, a wheel made of it, installed into a fresh environment with only numpy, and used there: the
situation of a user who has only Python, a C compiler, CMake and libuv."""

import os
import re
import signal
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import numpy
import pytest
from support import DEADLINE, TWO, cached

ROOT = Path(os.environ.get("SOURCE_OF_PCCL", Path(__file__).resolve().parents[2]))

USE = TWO + """
import sys, threading
import numpy, pccl, pccl._programs
assert "torch" not in sys.modules
print("version", pccl.__version__, pccl.__file__, pccl._programs.find())
with open("/proc/self/maps") as maps:
    print("libraries", {line.split()[-1] for line in maps if "libpccl" in line or "libuv" in line})
with pccl.MasterNode("127.0.0.1:0") as master:
    address = f"127.0.0.1:{master.port}"
    first, second = two()
    memory = [numpy.full(100000, i + 1, numpy.float32) for i in range(2)]
    other = threading.Thread(target=second.all_reduce, args=(memory[1], memory[1]), kwargs={"op": pccl.ReduceOp.SUM})
    other.start()
    first.all_reduce(memory[0], memory[0], op=pccl.ReduceOp.SUM)
    other.join()
    assert (memory[0] == 3).all() and (memory[1] == 3).all()
    first.close()
    second.close()
print("works")
"""

# As in a workflow that builds a release.
REPOSITORY = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "somebody/pccl"}


def clean():
    """Returns an environment without our variables: the installed package must suffice."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("PCCL_", "PYTHON"))}


def run(*command, cwd, **more):
    env = {**clean(), **more}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=env, timeout=DEADLINE)
    assert done.returncode == 0, f"{command}: {done.stdout[-6000:]}{done.stderr[-6000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    folder = tmp_path_factory.mktemp("archive")
    run(sys.executable, "setup.py", "-q", "sdist", "-d", str(folder), cwd=ROOT)
    return next(folder.glob("pccl_peers-*.tar.gz"))


@pytest.fixture(scope="module")
def wheel(archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(archive) as files:
        files.extractall(folder)
    sources = next(folder.iterdir())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", "..", "."]
    run(*command, cwd=sources, **cached.environment(sources), **REPOSITORY)
    return next(folder.glob("pccl_peers-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "pip", "-q", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=folder)
    packages = Path(run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip())
    for part in Path(numpy.__path__[0]).parent.glob("numpy*"):
        (packages / part.name).symlink_to(part)
    return python


# Licences of the wheel's contents: of this project, of libuv, and of the header which is compiled in.
LICENCES = {
    "LICENSE": "PCCL contributors",
    "packaging/licences/libuv.txt": "libuv project contributors",
    "packaging/licences/xxhash.txt": "Yann Collet",
}


def test_archive(archive):
    with tarfile.open(archive) as files:
        names = {name.split("/", 1)[1] for name in files.getnames() if "/" in name}
    wanted = {"include/pccl.h", "src/CMakeLists.txt", "CMakeLists.txt", "python/native/CMakeLists.txt", *LICENCES}
    assert wanted <= names, wanted - names
    assert not [name for name in names if name.startswith("build/") or ".so" in name or name.endswith(".pyc")]


def test_wheel(wheel):
    assert wheel.name.split("-")[2:4] == ["py3", "none"]
    with zipfile.ZipFile(wheel) as files:
        names = set(files.namelist())
    bundled = {"pccl/libpccl.so.1", "pccl/libuv.so.1", "pccl/bin/pccl", "pccl/py.typed"}
    assert bundled <= names, bundled - names
    assert not [name for name in names if "tests" in name]


def test_backend_of_torch(installed):
    """`import torch` finds it in this way, and importing it imports neither torch nor pccl."""
    text = """
import importlib.metadata, sys
found = importlib.metadata.entry_points()
entry, = found.select(group="torch.backends") if hasattr(found, "select") else found["torch.backends"]
entry.load()
assert entry.name == "pccl" and "torch" not in sys.modules and "pccl" not in sys.modules
"""
    run(installed, "-c", text, cwd=installed.parent)


def test_licenses(wheel):
    folder = "-".join(wheel.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(wheel) as files:
        metadata = files.read(f"{folder}/METADATA").decode()
        for name, holder in LICENCES.items():
            assert f"License-File: {name}\n" in metadata
            text = files.read(f"{folder}/licenses/{name}").decode()
            assert holder in text and text == (ROOT / name).read_text(encoding="utf-8")


def test_links(wheel):
    """Pages to which the package's page links exist."""
    with zipfile.ZipFile(wheel) as files:
        metadata = files.read("-".join(wheel.name.split("-")[:2]) + ".dist-info/METADATA").decode()
    links = dict(re.findall(r"^Project-URL: (\w+), https://github.com/somebody/pccl/?(.*)$", metadata, re.MULTILINE))
    assert set(links) == {"Source", "Issues", "Documentation", "Changelog"} and links["Source"] == ""
    for name in ("Documentation", "Changelog"):
        assert (ROOT / links[name].replace("blob/main/", "")).is_file(), links[name]


def test_use(installed):
    output = run(installed, "-c", USE, cwd=installed.parent)
    assert "works" in output
    home = str(installed.parents[1])
    libraries = next(line for line in output.splitlines() if line.startswith("libraries"))
    assert libraries.count(home) == 2 and libraries.count("lib") >= 2, libraries
    version = next(line for line in output.splitlines() if line.startswith("version")).split()
    assert version[2].startswith(home) and version[3].startswith(home)
    metadata = run(installed, "-c", "import importlib.metadata as m; print(m.version('pccl-peers'))", cwd=home).strip()
    assert metadata == version[1]


def test_programs(installed):
    folder = installed.parent
    masters = [[folder / name] for name in ("pccl-master", "pccl_master", "ccoip_master")]
    masters.append([installed, "-m", "pccl.master"])
    said = {run(*master, "--help", cwd=folder) for master in masters}
    assert len(said) == 1 and "--log-format" in said.pop()
    for perf in ([folder / "pccl-perf"], [installed, "-m", "pccl.perf"], [folder / "pccl", "perf"]):
        assert "pccl-perf" in run(*perf, "--help", cwd=folder)
    assert "token create" in run(folder / "pccl", "token", "--help", cwd=folder)
    master = subprocess.Popen([folder / "pccl_master", "--listen-address", "127.0.0.1:0"], stderr=subprocess.PIPE,
                              text=True, env=clean())
    port = next(line for line in master.stderr if "listening" in line).split()[-1]
    run(installed, "-c", f"import pccl; c = pccl.Communicator('127.0.0.1:{port}'); c.connect(1)", cwd=folder)
    master.send_signal(signal.SIGTERM)
    assert master.wait(DEADLINE) == 0
    master.stderr.close()
