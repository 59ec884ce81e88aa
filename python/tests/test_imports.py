"""Modules of the package import downwards only: at the top, on first use, and for types alike."""

import ast
import importlib.util
import os
import pathlib
import subprocess
import sys

import pytest

import pccl

ROOT = pathlib.Path(pccl.__file__).parent

# Every module, from the bottom to the top: each imports only modules before it.
ORDER = """
    pccl._lazy
    pccl._native pccl._logging pccl._parameters pccl._programs pccl._progress pccl._results pccl._errors pccl._enums
    pccl._buffers pccl._codec pccl._core pccl._feedback pccl._recorder pccl._state pccl._threads pccl._master
    pccl.cuda pccl.master pccl.otlp pccl.perf pccl.recorder

    pccl.torch._commit pccl.torch._devices pccl.torch._forms pccl.torch._functional pccl.torch._lanes
    pccl.torch._numbers pccl.torch._pipeline pccl.torch._placing pccl.torch._seen pccl.torch._sparse pccl.torch._staging
    pccl.torch._untraced

    pccl._staged pccl._reduce pccl._operation pccl._handles pccl._collectives pccl._described pccl._settings
    pccl._operations pccl._calls pccl._run pccl._communicator pccl._loop pccl._pccl pccl._exchange pccl._end
    pccl.progress pccl
    pccl.mlx

    pccl.torch._layout pccl.torch._overlap pccl.torch._tensors pccl.torch._gradients pccl.torch._ddp pccl.torch._state
    pccl.torch._statistics
    pccl.torch._world pccl.torch._work pccl.torch._futures pccl.torch._call pccl.torch._transfers
    pccl.torch._launching pccl.torch._monitored pccl.torch._grid pccl.torch._rendezvous pccl.torch._reconfigure
    pccl.torch._backend

    pccl.diloco._copier pccl.diloco._arrays pccl.diloco._catch_up pccl.diloco._fragments pccl.diloco._inside
    pccl.diloco._outer pccl.diloco._eager pccl.diloco._reduction pccl.diloco._settings pccl.diloco._membership

    pccl.torch._replica pccl.torch._elastic pccl.torch._sampler

    pccl.diloco._sampler pccl.diloco._schedule pccl.diloco._shared pccl.diloco._fragment pccl.diloco._checkpoint
    pccl.diloco._member pccl.diloco._line pccl.diloco._trainer pccl.diloco

    pccl.torch._objects pccl.torch._moe pccl.torch._diloco pccl.torch

    pccl.methods._hooks pccl.methods._sparse pccl.methods._settings pccl.methods._method pccl.methods._accountant
    pccl.methods._cosine pccl.methods._decoupled
    pccl.methods._pipeline_plan pccl.methods._random pccl.methods._averages pccl.methods._dp_lora
    pccl.methods._one_byte pccl.methods._power_sgd pccl.methods._sarsa pccl.methods._sketch pccl.methods._sketched
    pccl.methods._sparse_loco pccl.methods._pipeline pccl.methods

    pccl.__main__
""".split()


def name_of(path):
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def base_of(path, statement):
    """Returns the module or package that `from ... import` names."""
    package = path.relative_to(ROOT.parent).parent.parts
    given = (statement.module or "").split(".") if statement.module else []
    return ".".join([*package[: len(package) + 1 - statement.level], *given] if statement.level else given)


def imports_of(path, modules):
    """Yields the modules that a file imports anywhere, with the lines."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            base = base_of(path, node)
            for alias in node.names:
                name = f"{base}.{alias.name}"
                if name in modules or base in modules:
                    yield name if name in modules else base, node.lineno
        elif is_lazy(node) and node.args[0].value in modules:
            yield node.args[0].value, node.lineno


def is_lazy(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Lazy"


def test_modules_import_downwards_only():
    files = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}
    assert sorted(ORDER) == sorted(files), "ORDER has each module once"
    place = {name: at for at, name in enumerate(ORDER)}
    upward = [
        f"{path.relative_to(ROOT.parent)}:{line}: imports {other}, which is above {name}"
        for name, path in files.items()
        for other, line in imports_of(path, files)
        if other != name and place[other] > place[name]
    ]
    assert not upward, "\n".join(upward)


def is_installed(name):
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # the package
        return False


def test_lazy_modules_exist():
    pytest.importorskip("torch")
    pytest.importorskip("resource")  # Unix only
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py")))
    names = {node.args[0].value for tree in trees for node in ast.walk(tree) if is_lazy(node)}
    missing = sorted(name for name in names if not is_installed(name))
    assert names and not missing, missing


def test_no_function_imports():
    """Modules that may be missing, or take long to import, are Lazy."""
    inside = [
        f"{path.relative_to(ROOT.parent)}:{node.lineno}"
        for path in sorted(ROOT.rglob("*.py"))
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    assert not inside, inside


@pytest.mark.parametrize("name", ["pccl", "pypccl", None])
def test_namesakes(tmp_path, name):
    """Other distributions with a package of this name cause a warning, those with similar names do not."""
    (tmp_path / "pccl").symlink_to(ROOT)
    for found in (f"{name}-1.0.0" if name else "pccl_peers-1.0.0", "pccl_other-1.0.0"):
        (tmp_path / f"{found}.dist-info").mkdir()
    command = [sys.executable, "-B", "-c", "import pccl"]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=True, timeout=60
    )
    said = f"RuntimeWarning: the distribution {name} is installed beside pccl-peers and has files of the same names"
    assert (said in done.stderr) == (name is not None), done.stderr


@pytest.mark.parametrize("platform, name", [
    ("linux", "libpccl.so.1"), ("darwin", "libpccl.1.dylib"), ("win32", "pccl.dll"),
])
def test_bundled_library_of_each_system(tmp_path, platform, name):
    """The package finds the file that has the system's name. It is no library here, so an error names it."""
    (tmp_path / "_native.py").write_bytes((ROOT / "_native.py").read_bytes())
    for file in ("libpccl.so.1", "libpccl.1.dylib", "pccl.dll"):
        (tmp_path / file).write_text("no library", encoding="utf-8")
    code = f"import ctypes, pathlib, sys, warnings; sys.platform = {platform!r}; import _native"
    env = {key: value for key, value in os.environ.items() if key != "PCCL_LIBRARY"}
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], env={**env, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True,
        check=False, timeout=60,
    )
    assert f"at PCCL_LIBRARY: {tmp_path / name}: " in done.stderr
