# The words of build/default that a project around us, or a reader of a page, does not say.
set(PCCL_WERROR ON CACHE BOOL "as in build/default")
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG" CACHE STRING "as in build/default")
