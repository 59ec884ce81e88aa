"""Stands in for the packages libuv and xxhash of a remote: contains the header files and the library of this system."""

import os

from conan import ConanFile
from conan.tools.files import copy

FILES = {"libuv": ("uv.h", "uv/*"), "xxhash": ("xxhash.h",)}


class System(ConanFile):
    settings = "os", "arch", "compiler", "build_type"
    package_type = "shared-library"

    def package(self):
        for header in FILES[self.name]:
            copy(self, header, "/usr/include", os.path.join(self.package_folder, "include"))
        copy(self, "*/libuv.so*", "/usr/lib", os.path.join(self.package_folder, "lib"), keep_path=False)

    def package_info(self):
        self.cpp_info.libs = ["uv"] if self.name == "libuv" else []
        # The name that the static library has there.
        self.cpp_info.set_property("pkg_config_name", f"{self.name}-static")
