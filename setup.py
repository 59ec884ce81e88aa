"""Builds the C library by CMake and puts it, its program and libuv into the Python package. pyproject.toml has the
rest.

Needs a C compiler, CMake, libuv and the header of xxHash, and downloads nothing. From the environment: CC,
CMAKE_GENERATOR, CMAKE_ARGS, MAKE_PROGRAM, PCCL_ENABLE_DEBUG_SYMBOLS, PCCL_REL_WITH_DEBUG_SYMBOLS.
"""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.dist import Distribution

ROOT = Path(__file__).resolve().parent
BUILD = "build/python"
NATIVE = "build/native"  # as deep as the build folders of CMakePresets.json, which makes a compiler cache know it


def version():
    """As CMake reads it: the public header has it, and nothing else."""
    header = (ROOT / "include" / "pccl.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"^#define PCCL_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header, re.MULTILINE))


def urls():
    """Links of the package's page on PyPI. Only a workflow, which builds the releases, knows the repository."""
    repository = os.environ.get("GITHUB_REPOSITORY")
    if not repository:
        return {}
    home = os.environ.get("GITHUB_SERVER_URL", "https://github.com") + "/" + repository
    pages = {"Documentation": "docs/guide/README.md", "Changelog": "CHANGELOG.md"}
    links = {name: f"{home}/blob/main/{page}" for name, page in pages.items()}
    return {"Source": home, "Issues": f"{home}/issues", **links}


def is_on(name):
    return os.environ.get(name, "").upper() in ("1", "ON", "TRUE", "YES")


def build_type():
    if is_on("PCCL_ENABLE_DEBUG_SYMBOLS"):
        return "Debug"
    return "RelWithDebInfo" if is_on("PCCL_REL_WITH_DEBUG_SYMBOLS") else "Release"


class BuildWithLibrary(build_py):
    def run(self):
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)  # of earlier builds: it may have what is no longer there
        super().run()
        into = ROOT / "python" / "pccl" if self.editable_mode else Path(self.build_lib) / "pccl"
        for source, name in self.bundle():
            target = into / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)

    def bundle(self):
        work = Path(self.get_finalized_command("build").build_temp).resolve()
        configure = ["cmake", "-S", str(ROOT / "python" / "native"), "-B", str(work)]
        configure.append("-DCMAKE_BUILD_TYPE=" + build_type())
        if "CMAKE_GENERATOR" not in os.environ and shutil.which("ninja"):
            configure += ["-G", "Ninja"]
        if os.environ.get("MAKE_PROGRAM"):
            configure.append("-DCMAKE_MAKE_PROGRAM=" + os.environ["MAKE_PROGRAM"])
        configure += shlex.split(os.environ.get("CMAKE_ARGS", ""))
        jobs = os.environ.get("CMAKE_BUILD_PARALLEL_LEVEL") or str(os.cpu_count() or 2)
        targets = ["pccl", "pccl_tool"]
        for command in (configure, ["cmake", "--build", str(work), "--parallel", jobs, "--target", *targets]):
            subprocess.run(command, check=True)
        lines = (work / "bundle.txt").read_text(encoding="utf-8").splitlines()
        return [line.split("\t") for line in lines if line]


class PlatformWheel(bdist_wheel):
    """For one platform, and any version of Python: nothing is compiled against Python."""

    def finalize_options(self):
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


class BinaryDistribution(Distribution):
    def has_ext_modules(self):
        return True


setup(
    version=version(),
    project_urls=urls(),
    distclass=BinaryDistribution,
    cmdclass={"build_py": BuildWithLibrary, "bdist_wheel": PlatformWheel},
    options={"build": {"build_base": BUILD, "build_temp": NATIVE}, "bdist_wheel": {"bdist_dir": BUILD + "/bdist"}},
)
