"""Renders the recipe for conda, runs its build with the libraries of this system, and runs its tests on the result.

    conda.py RECIPE SOURCES PREFIX VERSION
"""

import os
import pathlib
import subprocess
import sys

from rattler_build import Stage0Recipe

LIMIT_S = 600
FOLDERS = {"bin": "bin/{}", "lib": "lib/lib{}.so", "include": "include/{}"}


def run(script, sources, prefix):
    environment = {**os.environ, "PREFIX": str(prefix), "PATH": f"{prefix}/bin:{os.environ['PATH']}"}
    subprocess.run(
        ["bash", "-ec", "\n".join(script)], cwd=sources, env=environment, check=True, timeout=LIMIT_S,
        stdout=subprocess.DEVNULL,
    )


def main():
    path, sources, prefix, version = (*map(pathlib.Path, sys.argv[1:4]), sys.argv[4])
    (variant,) = Stage0Recipe.from_file(path).render()
    recipe = variant.recipe.to_dict()
    if recipe["package"] != {"name": "pccl", "version": version}:
        sys.exit(f"conda: {path}: {recipe['package']}, and the release is {version}")
    run(recipe["build"]["script"], sources, prefix)
    for name in recipe["about"]["license_file"]:
        assert (sources / name).is_file(), name
    for test in recipe["tests"]:
        if "script" in test:
            run(test["script"], sources, prefix)
        for folder, names in test.get("package_contents", {}).items():
            for name in names:
                file = prefix / FOLDERS[folder].format(name)
                assert file.exists(), f"{file} is missing"
    print("conda: rendered, built and tested")


main()
