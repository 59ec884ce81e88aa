"""A project of a user of Conan: the consumer of tests/install, linked to the package."""

import os

from conan import ConanFile
from conan.tools.cmake import CMake


class Test(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    generators = "CMakeToolchain", "CMakeDeps"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        self.run(os.path.join(self.build_folder, "consumer"))
        package = self.dependencies["pccl"]
        self.run(os.path.join(package.cpp_info.bindir, "pccl") + " perf -N 2 -e 64K -n 2")
