"""Conan recipe of the C library and the program pccl: `conan create packaging/conan` in the source folder."""

import os
import re

from conan import ConanFile
from conan.tools.cmake import CMake, CMakeToolchain
from conan.tools.files import copy, load, rmdir
from conan.tools.gnu import PkgConfigDeps

FOLDERS = ("cmake", "include", "man", "packaging", "src", "tools")


class Pccl(ConanFile):
    name = "pccl"
    description = "Fault-tolerant collective communication over TCP"
    license = "MIT"
    topics = ("distributed-training", "fault-tolerance", "collective-communication", "all-reduce")
    package_type = "shared-library"
    settings = "os", "arch", "compiler", "build_type"

    @property
    def _root(self):
        return os.path.join(self.recipe_folder, os.pardir, os.pardir)

    def set_version(self):
        header = load(self, os.path.join(self._root, "include", "pccl.h"))
        self.version = ".".join(re.findall(r"^#define PCCL_VERSION_(?:MAJOR|MINOR|PATCH) +(\d+)", header, re.MULTILINE))

    def export_sources(self):
        for name in ("CMakeLists.txt", "LICENSE", *(f"{folder}/*" for folder in FOLDERS)):
            copy(self, name, self._root, self.export_sources_folder, excludes="*/__pycache__/*")

    def configure(self):
        self.settings.rm_safe("compiler.cppstd")  # C
        self.settings.rm_safe("compiler.libcxx")

    def requirements(self):
        self.requires("libuv/[>=1.33]", transitive_headers=False)
        self.requires("xxhash/[>=0.8]", visible=False)  # its header only

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["PCCL_BUILD_TESTS"] = False
        header = self.dependencies["xxhash"].cpp_info.includedirs[0]
        toolchain.cache_variables["PCCL_XXHASH_INCLUDE_DIR"] = header.replace("\\", "/")
        toolchain.generate()
        packages = PkgConfigDeps(self)
        packages.set_property("libuv", "pkg_config_name", "libuv")  # also where it is a static library
        packages.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        CMake(self).install()
        for name in ("LICENSE", "packaging/licences/xxhash.txt", "packaging/licences/libuv.txt"):
            copy(self, name, self.source_folder, os.path.join(self.package_folder, "licenses"), keep_path=False)
        rmdir(self, os.path.join(self.package_folder, "share"))
        rmdir(self, os.path.join(self.package_folder, "lib", "systemd"))

    def package_info(self):
        self.cpp_info.libs = ["pccl"]
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "pccl")]
        self.cpp_info.set_property("cmake_find_mode", "none")  # the files of PCCL's installation
        self.cpp_info.set_property("pkg_config_name", "pccl")
