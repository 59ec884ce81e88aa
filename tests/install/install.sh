#!/bin/sh
# install.sh <case> <source> <build> <work>: what a stranger does with an installed PCCL, or with
# its sources. `prefix` installs into work/prefix, by way of another folder, since an installed tree
# may be moved; `files`, `pkg_config`, `example` and `find_package` use it.
set -eu
case=$1 source=$2 build=$3 work=$4
prefix=$work/prefix
CC=${CC:-cc} CXX=${CXX:-c++}
export CC CXX
mkdir -p "$work"
# The library's own folder, whatever the system calls it.
libdir() {
    dirname "$(find "$prefix" -name libpccl.a)"
}

fail() {
    echo "install/$case: $*" >&2
    exit 1
}

run_all() {
    for library in pccl pccl_static; do
        "$1/c_$library"
        "$1/cxx_$library"
    done
}

# build_consumer <its folder> <where to build> [<option of CMake>...]
build_consumer() {
    consumer=$1 place=$2
    shift 2
    rm -rf "${place:?}"
    cmake -S "$source/tests/install/$consumer" -B "$place" -DCMAKE_PREFIX_PATH="$prefix" -DPCCL_SOURCE="$source" "$@" \
        >"$work/$case.log" 2>&1 || { cat "$work/$case.log"; fail "configure"; }
    cmake --build "$place" --parallel 2 >"$work/$case.log" 2>&1 || { cat "$work/$case.log"; fail "build"; }
    run_all "$place"
}

# as_built <command>...: runs the command, which configures a build, with the flags of $build: its objects are copied from
# there (built.sh).
as_built() {
    PCCL_BUILT=$build PCCL_COPIED=$work/$case.copied
    export PCCL_BUILT PCCL_COPIED
    : >"$PCCL_COPIED"
    options=$(sed -n -E 's/^(CMAKE_BUILD_TYPE|CMAKE_C_FLAGS(_RELWITHDEBINFO)?|PCCL_WERROR):([^=]*)=(.*)$/-D\1=\4/p' "$build/CMakeCache.txt")
    old_separators=$IFS
    IFS='
'
    # shellcheck disable=SC2086 # one option a line
    "$@" -G Ninja $options -DCMAKE_C_COMPILER_LAUNCHER="$source/tests/install/built.sh"
    IFS=$old_separators
}

case $case in
prefix)
    rm -rf "$prefix" "$work/first"
    cmake --install "$build" --prefix "$work/first" >/dev/null
    mv "$work/first" "$prefix"
    ;;
files)
    lib=$(libdir)
    for file in include/pccl.h include/pccl_collectives.h include/pccl_codecs.h include/pccl_loop.h include/pccl_sight.h \
        include/ccoip.h include/ccoip_inet.h bin/pccl share/man/man1/pccl.1 \
        share/man/man1/pccl-master.1 share/man/man1/pccl-perf.1 share/man/man3/pccl.3 share/man/man7/pccl.7 \
        share/man/man3/pccl_communicator.3 share/man/man3/pcclConnect.3; do
        [ -f "$prefix/$file" ] || fail "$file is missing"
    done
    service=$prefix/lib/systemd/system/pccl-master.service
    [ -f "$service" ] || fail "the service is missing"
    grep -q '^ExecStart=/.*/bin/pccl-master$' "$service" || fail "the service does not name the installed program"
    for file in pkgconfig/pccl.pc cmake/pccl/pcclConfig.cmake cmake/pccl/pcclConfigVersion.cmake libpccl.a; do
        [ -f "$lib/$file" ] || fail "$file is missing"
    done
    [ -L "$lib/libpccl.so" ] && [ -L "$lib/libpccl.so.1" ] && [ -f "$lib/libpccl.so.1" ] || fail "links of libpccl.so"
    readelf -d "$lib/libpccl.so" | grep -q 'SONAME.*\[libpccl\.so\.1\]' || fail "the soname is not libpccl.so.1"
    ! readelf -d "$lib/libpccl.so" "$prefix/bin/pccl" | grep -Eq 'RPATH|RUNPATH' || fail "a run path was left in"
    for name in pccl-master pccl-perf ccoip_master; do
        [ "$(readlink "$prefix/bin/$name")" = pccl ] || fail "$name is not a link to pccl"
    done
    "$prefix/bin/pccl-perf" --help | grep -q collective || fail "pccl-perf --help is not pccl perf's"
    "$prefix/bin/ccoip_master" --help >"$work/help" || fail "ccoip_master --help"
    grep -q listen "$work/help" || fail "ccoip_master --help does not say how to listen"
    unwanted=$(cd "$prefix" && find . -type f | grep -Ev \
        '/(pccl\.h|pccl_collectives\.h|pccl_codecs\.h|pccl_loop\.h|pccl_sight\.h|ccoip\.h|ccoip_inet\.h|libpccl\.(a|so\.[0-9.]+)|pccl\.pc|pccl[A-Za-z-]*\.cmake|pccl-master\.service|bin/pccl|completions/pccl|site-functions/_pccl|pccl\.fish|pccl(-master|-perf)?\.[137]|(pccl|ccoip)[A-Za-z0-9_]*\.3)$' || true)
    [ -z "$unwanted" ] || fail "installed but not meant to be: $unwanted"
    ;;
pkg_config)
    PKG_CONFIG_PATH=$(libdir)/pkgconfig
    export PKG_CONFIG_PATH
    cd "$work"
    for language in c cpp; do
        [ $language = c ] && compiler="$CC -std=c99 -pedantic-errors" || compiler="$CXX -std=c++11 -Wno-deprecated"
        # shellcheck disable=SC2046 # the flags are words
        $compiler "$source/tests/install/consumer.$language" -o pkg_$language $(pkg-config --cflags --libs pccl)
        LD_LIBRARY_PATH=$(libdir) ./pkg_$language
    done
    # Static: the archive by name, so that the shared library next to it is not taken.
    # shellcheck disable=SC2046
    $CC "$source/tests/install/consumer.c" -o pkg_static $(pkg-config --static --cflags pccl) \
        "$(libdir)/libpccl.a" $(pkg-config --libs --static libuv)
    ./pkg_static
    case " $(pkg-config --static --libs pccl) " in *" -luv "*) ;; *) fail "pkg-config --static does not name libuv" ;; esac
    case " $(pkg-config --libs pccl) " in *" -luv "*) fail "users of the shared library are told to link libuv" ;; esac
    ;;
example)
    # The installed master and two peers of the example, built with the flags of pkg-config: both
    # end with the same bits.
    PKG_CONFIG_PATH=$(libdir)/pkgconfig
    LD_LIBRARY_PATH=$(libdir)
    export PKG_CONFIG_PATH LD_LIBRARY_PATH
    cd "$work"
    # shellcheck disable=SC2046
    $CC -std=c99 "$source/examples/all_reduce.c" -o all_reduce $(pkg-config --cflags --libs pccl)
    "$prefix/bin/ccoip_master" --listen 127.0.0.1:0 2>master.log &
    master=$!
    trap 'kill $master' EXIT
    port=""
    while [ -z "$port" ]; do
        kill -0 $master 2>/dev/null || { cat master.log; fail "the master ended"; }
        sleep 0.02
        port=$(sed -n 's/.*listening on port \([0-9]*\)$/\1/p' master.log)
    done
    ./all_reduce "127.0.0.1:$port" 2 10 >first &
    first=$!
    ./all_reduce "127.0.0.1:$port" 2 10 >second || fail "the second peer"
    wait $first || fail "the first peer"
    grep -q '^parameters [0-9a-f]\{8\}$' first || fail "the first peer printed: $(cat first)"
    cmp first second || fail "the peers ended with different parameters"
    kill -TERM $master
    trap - EXIT
    wait $master || fail "the master ended with status $?"
    ;;
find_package | add_subdirectory)
    build_consumer "$case" "$work/$case"
    ;;
add_subdirectory_built)
    # No object is copied if the commands differ because a flag of one project reached the other.
    as_built build_consumer add_subdirectory "$work/add_subdirectory_built"
    compiled=$(grep -o '"file": ".*/src/[a-z]*/[a-z0-9_]*\.c"' "$build/compile_commands.json" | sort -u | wc -l)
    copied=$(wc -l <"$PCCL_COPIED")
    [ "$copied" -eq "$compiled" ] || fail "the commands of $copied of $compiled sources are those of $build"
    ;;
absolute)
    # The folders of an installation may be absolute paths outside the prefix. CMake allows no headers in the sources.
    place=$(mktemp -d)
    trap 'rm -r "$place"' EXIT
    rm -rf "$work/absolute"
    as_built cmake -S "$source" -B "$work/absolute" -DPCCL_BUILD_TESTS=OFF -DCMAKE_INSTALL_PREFIX="$place/prefix" \
        -DCMAKE_INSTALL_LIBDIR="$place/libraries" -DCMAKE_INSTALL_INCLUDEDIR="$place/headers" \
        -DCMAKE_INSTALL_BINDIR="$place/programs" >"$work/absolute.log"
    cmake --build "$work/absolute" --parallel 2 >"$work/absolute.log"
    cmake --install "$work/absolute" >"$work/absolute.log"
    PKG_CONFIG_PATH=$place/libraries/pkgconfig
    export PKG_CONFIG_PATH
    [ "$(pkg-config --variable=prefix pccl)" = "$place/prefix" ] || fail "pccl.pc has another prefix than $place/prefix"
    # shellcheck disable=SC2046 # the flags are words
    $CC "$source/tests/install/consumer.c" -o "$place/consumer" $(pkg-config --cflags --libs pccl)
    LD_LIBRARY_PATH=$place/libraries "$place/consumer"
    "$place/programs/ccoip_master" --help >/dev/null || fail "ccoip_master is not a link to pccl"
    grep -q "^ExecStart=$place/programs/pccl-master" "$place/prefix/lib/systemd/system/pccl-master.service" ||
        fail "the service does not name the installed program"
    ;;
*)
    fail "no such case"
    ;;
esac
