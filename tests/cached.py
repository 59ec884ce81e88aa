"""How a copy of the sources is compiled like build/default, so that the compiler cache of that build has all of it.

The cache knows a compilation by its words: paths below CCACHE_BASEDIR go relative to the build folder, which has to be as
deep below the sources as build/default is.
"""


def environment(sources):
    """For setup.py and for CMake."""
    return {
        "CCACHE_BASEDIR": str(sources),
        "CCACHE_NOHASHDIR": "1",
        "CMAKE_ARGS": "-DPCCL_WERROR=ON",
        "CMAKE_GENERATOR": "Ninja",
        "PCCL_REL_WITH_DEBUG_SYMBOLS": "1",
    }
