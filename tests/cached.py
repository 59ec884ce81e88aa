"""How a copy of the sources is compiled like build/default, so that the compiler cache (ccache) has
all of it already.

The cache knows a compilation by its words, in which paths below CCACHE_BASEDIR are relative to the
build folder: that has to be as deep below the sources as build/default is.
"""

import pathlib


def environment(sources):
    """For setup.py and for CMake."""
    return {
        "CCACHE_BASEDIR": str(sources),
        "CCACHE_NOHASHDIR": "1",
        "CMAKE_GENERATOR": "Ninja",
        "CMAKE_TOOLCHAIN_FILE": str(pathlib.Path(__file__).resolve().with_name("cached.cmake")),
        "PCCL_REL_WITH_DEBUG_SYMBOLS": "1",
    }
