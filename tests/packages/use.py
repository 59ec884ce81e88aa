"""Installs a wheel where there is no compiler, and uses it: its programs, and its package with a given Python. A master
with two peers reduces, first in the clear, then with a token, for which OpenSSL must be loaded.

    use.py WHEEL --python PYTHON                           in a new virtual environment of this Python
    use.py WHEEL --prefix "qemu-aarch64 -L ROOT"           programs only, started by the words of the prefix
    use.py WHEEL --prefix PREFIX --python ROOT/bin/python  both started by the prefix, which may be wine64
    use.py PROGRAM [--prefix PREFIX]                       the program `pccl`, without a wheel
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

LIMIT_S = 300  # for anything that could hang

# Two peers in one process: a wheel needs neither numpy nor torch.
PEERS = """
import array, shutil, sys, threading
import pccl
assert "numpy" not in sys.modules and "torch" not in sys.modules
assert not any(map(shutil.which, ("cc", "gcc", "clang", "cmake")))
def peer(results):
    with pccl.Communicator(sys.argv[1]) as communicator:
        communicator.connect(2)
        while communicator.get_attribute(pccl.Attribute.GLOBAL_WORLD_SIZE) < 2:
            communicator.update_topology()
        values = array.array("f", range(1000))
        communicator.all_reduce(values, values, op=pccl.ReduceOp.SUM)
        results.append(values == array.array("f", range(0, 2000, 2)))
results = []
threads = [threading.Thread(target=peer, args=(results,)) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert results == [True, True], results
print("python", sys.version.split()[0], "pccl", pccl.__version__, pccl.__file__)
"""


def limit(process):
    """Lets the process be killed after LIMIT_S, which also ends reads from its pipes."""
    process.limit = threading.Timer(LIMIT_S, process.kill)
    process.limit.start()


def begin(command, environment):
    process = subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    limit(process)
    return process


def finish(process, command, fails=False):
    """Waits until the program has ended, and returns its output. Exits if it has failed, or must fail and has not."""
    output, words = process.communicate()
    process.limit.cancel()
    if process.returncode == -signal.SIGKILL:
        sys.exit(f"use.py: {' '.join(command)}: did not end within {LIMIT_S} s\n{output}{words}")
    if (process.returncode == 0) == fails:
        sys.exit(f"use.py: {' '.join(command)}: status {process.returncode}\n{output}{words}")
    return output


def run(command, environment, fails=False):
    return finish(begin(command, environment), command, fails)


def install(wheel, python, folder):
    """Returns the folder of the package, and the interpreter: of a new environment if `python` is given."""
    bare = {"PATH": os.path.dirname(sys.executable), "HOME": folder}
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    source = ["--no-index", "--no-deps", "--no-compile", wheel]
    if python:
        run([python, "-m", "venv", "--without-pip", f"{folder}/venv"], bare)
        python = f"{folder}/venv/bin/python"
        run([*pip, "--python", python, "install", *source], bare)
        return run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], bare).strip(), python
    platform = os.path.basename(wheel)[: -len(".whl")].split("-")[-1]
    target = ["--target", f"{folder}/site", "--platform", platform, "--only-binary=:all:"]
    run([*pip, "install", *target, *source], bare)
    return f"{folder}/site", None


class Master:
    def __init__(self, start, environment, *arguments):
        self.command = [*start("master"), "--listen", "127.0.0.1:0", *arguments]
        self.process = begin(self.command, environment)
        self.log = ""
        for line in self.process.stderr:
            self.log += line
            if "listening on port" in line:
                break
        self.process.limit.cancel()
        found = re.search(r"listening on port (\d+)", self.log)
        if not found:
            sys.exit(f"use.py: {' '.join(self.command)}: does not listen\n{self.log}")
        self.address = f"127.0.0.1:{found.group(1)}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        limit(self.process)
        # Programs for Windows receive no signals: this one ends the process.
        finish(self.process, self.command, fails=self.command[0].endswith("wine64"))


def use(start, python, environment, state):
    """Runs a master and peers. `state`: with a token, which the master makes in this folder."""
    with Master(start, environment, *(["--state", state] if state else [])) as master:
        peer = [*start("perf"), "--connect", master.address, "-N", "2", "--sizes", "4,256K,4M", "-n", "3"]
        if state:
            run(peer, environment, fails=True)  # without the token
            create = [*start("token"), "create", "--uses", "1", "--state", state]
            token = run(create, environment).strip()
            environment = dict(environment, PCCL_TOKEN_FILE=f"{state}/run.token")
            second = {name: value for name, value in environment.items() if name != "PCCL_TOKEN_FILE"}
            second["PCCL_TOKEN"] = token
        else:
            second = environment
        other = begin(peer, second)
        try:
            run(peer, environment)
            finish(other, peer)
        finally:
            other.kill()
            other.limit.cancel()
        if python:
            said = run([*python, "-c", PEERS, master.address], environment).strip()
            print(said, "with a token" if state else "in the clear")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file", help="a wheel, or the program pccl")
    parser.add_argument("--python")
    parser.add_argument("--prefix", default="")
    given = parser.parse_args()
    prefix = given.prefix.split()
    with tempfile.TemporaryDirectory(prefix="pccl-wheel-") as folder:
        program, site, python = os.path.abspath(given.file), None, None
        if program.endswith(".whl"):
            site, python = install(program, None if prefix else given.python, folder)
            program = str(next(pathlib.Path(site, "pccl/bin").iterdir()))
        environment = {"PATH": f"{folder}/venv/bin:/nowhere", "HOME": folder, "PCCL_LOCAL_DIR": f"{folder}/local"}
        if prefix:
            environment["PYTHONPATH"] = site or ""
            environment["PATH"] = "/nowhere"
            prefix[0] = shutil.which(prefix[0]) or prefix[0]
        environment.update({name: value for name, value in os.environ.items() if name.startswith("WINE")})
        command = [*prefix, python or given.python] if given.python else None

        def start(command):
            return [*prefix, program, command]

        for state in (None, f"{folder}/state"):
            use(start, command, environment, state)
        print(os.path.basename(given.file), "works: in the clear and with a token")


main()
