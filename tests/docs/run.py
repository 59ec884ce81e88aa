#!/usr/bin/env python3
"""Executes the blocks of a page of the guide, in their order, as a reader would; pages.py says how
blocks are marked.

    run.py --root SOURCES --build BUILD [--machines | --alone] PAGE

A page has a folder of its own, which is also its home, and terminals that stand there; they find
this build's library, programs and headers, and the Python of build/venv with the package. The
terminal "sources" stands in a copy of the sources instead and finds nothing of the build: there the
page itself builds and installs.

Elsewhere than in a page, three texts in blocks are replaced: 10.0.0.1, which is the master's
machine in all pages, by 127.0.0.1; its port 48148 by a free one; and /usr/local by a folder of the
page's. With --machines nothing is replaced: there are two machines, network namespaces with the
addresses 10.0.0.1 and 10.0.0.2 (as root; otherwise it is skipped), with terminal 1 on the one and
terminal 2 on the other. Only what is typed into terminals is executed then. With --alone the page
is, for root, in a network namespace where nobody else has a port that it names.
"""

import argparse
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "e2e")]

import cached  # noqa: E402
import endings  # noqa: E402
import installed  # noqa: E402
import pages  # noqa: E402
import ports  # noqa: E402
import terminal  # noqa: E402

SECONDS = 240  # of everything that is waited for: a watchdog, not a judge
MASTER, PORT, PREFIX = "10.0.0.1", "48148", "/usr/local"
PLACE = "# the block"  # in a program of around/
CACHES = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # of pip and ccache: pages have other homes
LAST = "over"  # what those print at their end whose end is not in our hands alone


def write(path, text, mode=0o644):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def copy_sources(root, into):
    """What a clone of this tree would have."""
    listed = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, check=False)
    if listed.returncode == 0:
        for name in listed.stdout.decode().split("\0"):
            source = root / name
            if name and source.is_file():
                (into / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, into / name)
    else:
        shutil.copytree(root, into, ignore=shutil.ignore_patterns("build", ".git", "shared", "__pycache__"))


class Machine:
    """One on which all is; two of them are in machines.py."""

    def __init__(self):
        self.port = str(ports.free_port())

    def prefix(self, _terminal):
        return []

    def translate(self, text, folder, port):
        return text.replace(MASTER, "127.0.0.1").replace(PORT, port).replace(PREFIX, str(folder / PREFIX.lstrip("/")))

    def listen(self):
        """Where a master listens that is not told."""
        return {"PCCL_LISTEN": f"127.0.0.1:{self.port}"}

    def close(self):
        pass


class Page:
    def __init__(self, root, build, machine, scratch):
        self.root, self.build, self.machine = root, build, machine
        self.scratch = scratch
        self.folder = scratch / "page"
        self.folder.mkdir()
        self.block_seconds = self.output_seconds = SECONDS
        self.terminals = {}
        self.printed = []  # who the block printed by: something with expect()
        self._prepare()

    # ---- what a reader has

    def _clean(self):
        unwanted = ("PCCL_", "PYTHON", "VIRTUAL_ENV", "LD_LIBRARY", "PKG_CONFIG")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
        kept.update(HOME=str(self.folder), XDG_CACHE_HOME=CACHES, TMPDIR=str(self.scratch), BASH_ENV="",
                    OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                    PIP_DISABLE_PIP_VERSION_CHECK="1", PIP_NO_COMPILE="1")
        kept.update(self.machine.listen())
        return kept

    def _prepare(self):
        """What belongs into the search path of terminals: programs, and for all of them what only
        root may do."""
        shims = (HERE / "shims.sh").read_text(encoding="utf-8")
        write(self.scratch / "shims.sh", shims)
        write(self.scratch / "bin/pccl_master", '#!/bin/sh\nexec python -m pccl.master "$@"\n', 0o755)
        write(self.scratch / "pc/pccl.pc",
              f"Name: pccl\nDescription: this build\nVersion: 0\nLibs: -L{self.build}/src -lpccl\n"
              f"Cflags: -I{self.root}/include\n")

    def _system(self, path):
        """/usr/local is where systems look by themselves, so its stand-in has to be, too."""
        local = self.folder / PREFIX.lstrip("/")
        return {
            "PATH": f"{local}/bin:{path}",
            "PKG_CONFIG_PATH": f"{local}/lib/pkgconfig:{local}/lib64/pkgconfig",
            "LD_LIBRARY_PATH": f"{local}/lib:{local}/lib64",
        }

    def environment(self):
        env = self._clean()
        path = [self.scratch / "bin", self.build / "tools", self.root / "build/venv/bin", env.get("PATH", "")]
        env.update(
            PATH=":".join(str(part) for part in path),
            PKG_CONFIG_PATH=str(self.scratch / "pc"),
            LD_LIBRARY_PATH=str(self.build / "src"),
            PCCL_LIBRARY=str(self.build / "src/libpccl.so.1"),
            PYTHONPATH=f"{self.root / 'python'}:{installed.metadata(self.scratch / 'installed')}",
            PYTHONPYCACHEPREFIX=str(self.root / "build/pycache"),
        )
        return env

    def terminal(self, name):
        if name not in self.terminals:
            folder, env = self.folder, self.environment()
            if name == "sources":
                folder, env = self.folder / "pccl", self._clean()
                env.update(self._system(env.get("PATH", "")), **cached.environment(folder))
                copy_sources(self.root, folder)
            opened = terminal.Terminal(name, self.machine.prefix(name), folder, env)
            opened.run((self.scratch / "shims.sh").read_text(encoding="utf-8"), str(self.scratch), SECONDS)
            self.terminals[name] = opened
        return self.terminals[name]

    def translate(self, text, port=None):
        return self.machine.translate(text, self.folder, port or self.machine.port)

    # ---- kinds of blocks

    def sh(self, block):
        here = self.terminal(block.options.get("terminal", "1"))
        for other in self.terminals.values():
            other.start = len(other.lines.texts)
        here.run(self.translate(block.text), str(self.scratch), self.block_seconds)
        self.printed = [here.lines]

    def file(self, block):
        write(self.folder / block.value, self.translate(block.text))

    def peers(self, block):
        """So many processes of a program with the block in it, which meet at a master of their
        own."""
        if not block.value.isdigit() or int(block.value) < 1:
            raise pages.BadPage(f"{block.where}: peers={block.value} is not a number")
        port = str(ports.free_port())
        command = self._program(block, port)
        env = dict(self.environment(), PCCL_LISTEN=f"127.0.0.1:{port}")
        env.update(MASTER=f"127.0.0.1:{port}", PEERS=block.value)
        started = []

        def start(what, **more):
            started.append(subprocess.Popen(
                what, cwd=self.folder, env=dict(env, **more), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT))
            return terminal.Lines(started[-1].stdout)

        try:
            master = start(["pccl-master"])
            if master.expect([terminal.as_pattern("...listening on port...")], 0, SECONDS) is not None:
                raise terminal.Failure(f"the master does not listen: {master.texts}")
            self.printed = [start(command, INDEX=str(index)) for index in range(int(block.value))]
            for index, process in enumerate(started[1:]):
                status = process.wait(self.block_seconds)
                if not endings.ended_well(status, self.printed[index].drain(), LAST):
                    raise terminal.Failure(f"peer {index + 1} ended with status {status}")
        except subprocess.TimeoutExpired as error:
            raise terminal.Failure(f"the peers have not ended after {self.block_seconds} s") from error
        finally:
            for process in started:
                process.kill()
                process.wait()

    def _program(self, block, port):
        """The command that runs a block as a peer."""
        suffix = {"python": ".py", "c": ".c"}.get(block.language)
        if suffix is None:
            raise pages.BadPage(f"{block.where}: peers are programs in python or c")
        text = self.translate(block.text, port)
        if "around" in block.options:
            around = HERE / "around" / (block.options["around"] + suffix)
            if not around.exists():
                raise pages.BadPage(f"{block.where}: there is no {around.name} in tests/docs/around")
            text = put_into(around.read_text(encoding="utf-8"), text)
        program = self.scratch / f"block{block.line}{suffix}"
        write(program, text)
        if suffix == ".py":
            return ["python", str(program)]
        binary = program.with_suffix("")
        flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{self.root}/include"]
        compiler = shlex.split(os.environ.get("CC", "cc"))
        done = subprocess.run(
            [*compiler, *flags, str(program), "-o", str(binary), f"-L{self.build}/src", "-lpccl", "-lm"],
            capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise terminal.Failure(f"it does not compile:\n{done.stderr}")
        return [str(binary)]

    def output(self, block):
        lines = [self.translate(line) for line in block.text.splitlines() if line.strip()]
        patterns = [terminal.as_pattern(line) for line in lines]
        if not patterns:
            raise pages.BadPage(f"{block.where}: an output without lines")
        if "times" in block.options:
            everywhere = [(opened.lines, opened.start) for opened in self.terminals.values()]
            for pattern in patterns:
                terminal.expect_times(everywhere, pattern, block.number("times", 1), self.output_seconds)
            return
        starts = {id(opened.lines): opened.start for opened in self.terminals.values()}
        missing = [lines.expect(patterns, starts.get(id(lines), 0), self.output_seconds) for lines in self.printed]
        wanted = block.number("peers", len(self.printed))
        if missing.count(None) < wanted:
            pattern = next(pattern for pattern in missing if pattern is not None)
            raise terminal.Failure(f"no line like this, or not in this order: {pattern.pattern!r}")

    def none(self, block):
        pass

    # ---- all of it

    def report(self):
        for opened in self.terminals.values():
            print(f"---- terminal {opened.name}:\n{opened.text()}")
        for lines in self.printed:
            if lines not in [opened.lines for opened in self.terminals.values()]:
                print("---- a peer:\n" + "\n".join(lines.texts))

    def close(self):
        for opened in self.terminals.values():
            opened.close()


def put_into(around, block):
    """The block in place of the line that says so, with its indent."""
    lines = around.splitlines()
    places = [index for index, line in enumerate(lines) if PLACE in line]
    if len(places) != 1:
        raise pages.BadPage(f"a program around a block needs one line with {PLACE!r}")
    place = lines[places[0]]
    indent = place[: len(place) - len(place.lstrip())]
    lines[places[0]:places[0] + 1] = [indent + line if line.strip() else "" for line in block.splitlines()]
    return "\n".join(lines) + "\n"


def execute(page, blocks, kinds):
    """Runs the blocks; what went wrong, or None."""
    counts = dict.fromkeys(kinds, 0)
    for block in blocks:
        if block.kind not in kinds:
            continue
        try:
            getattr(page, block.kind)(block)
        except terminal.Failure as failure:
            page.report()
            return f"{block.where}: {failure}"
        counts[block.kind] += 1
    print(", ".join(f"{count} {kind}" for kind, count in counts.items() if count) or "no blocks")
    return None


def go_alone():
    """Does not return."""
    lo_up = 'ip link set lo up && exec "$@"'
    again = [sys.executable, *sys.orig_argv[1:]]
    again.remove("--alone")
    os.execvp("unshare", ["unshare", "--net", "sh", "-c", lo_up, "sh", *again])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--machines", action="store_true")
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("page", type=pathlib.Path)
    options = parser.parse_args()
    if options.alone and os.geteuid() == 0:
        go_alone()
    root, build = options.root.resolve(), options.build.resolve()
    machine, kinds = Machine(), ("sh", "file", "peers", "output", "none")
    if options.machines:
        import machines

        machine, kinds = machines.Two(root), ("sh", "file", "output")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="pccl-docs-"))
    page, problem = None, None
    try:
        blocks = pages.read(str(options.page), options.page.read_text(encoding="utf-8"))
        if options.machines:
            blocks = machines.typed(blocks)
        page = Page(root, build, machine, scratch)
        problem = execute(page, blocks, kinds)
    except pages.BadPage as bad:
        problem = str(bad)
    finally:
        if page is not None:
            page.close()
        machine.close()
        shutil.rmtree(scratch, ignore_errors=True)
    if problem:
        print(problem)
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
