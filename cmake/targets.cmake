# How our own targets are compiled. Everything is set per target: a project that includes us keeps its own flags.

# Files NAME_<system>.c implement NAME.h, or a part of it, there. posix: all systems but Windows; bsd: macOS and FreeBSD;
# other: all but Linux, for features that only Linux has.
set(pccl_other_systems windows posix linux bsd darwin freebsd other)
if(WIN32)
    set(pccl_system windows)
    list(REMOVE_ITEM pccl_other_systems windows other)
else()
    set(pccl_system posix)
    list(REMOVE_ITEM pccl_other_systems posix)
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
        list(REMOVE_ITEM pccl_other_systems linux)
    elseif(CMAKE_SYSTEM_NAME STREQUAL "Darwin")
        list(REMOVE_ITEM pccl_other_systems bsd darwin other)
    else()
        list(REMOVE_ITEM pccl_other_systems bsd freebsd other)
    endif()
endif()
list(JOIN pccl_other_systems "|" pccl_other_systems)

set(pccl_warnings "")
if(CMAKE_C_COMPILER_ID MATCHES "GNU|Clang")
    set(pccl_warnings
        -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wvla -Wwrite-strings -Wpointer-arith -Wcast-align -Wcast-qual
        -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wformat=2 -Wconversion)
    if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
        # clang does not read the comment that says so, and takes isnan and NAN of <math.h> for promotions
        list(APPEND pccl_warnings -Wimplicit-fallthrough -Wdouble-promotion)
    endif()
endif()

set(pccl_sanitizers "")
if(PCCL_SANITIZE)
    set(pccl_sanitizers -fsanitize=${PCCL_SANITIZE} -fno-omit-frame-pointer)
    if(PCCL_SANITIZE MATCHES "undefined")
        list(APPEND pccl_sanitizers -fno-sanitize-recover=undefined)
    endif()
endif()

if(PCCL_FUZZ)
    list(APPEND pccl_sanitizers -fsanitize=fuzzer-no-link)
endif()

# C11 without extensions, our warnings and sanitizers. HOSTED: may use the system's interfaces (never the pure modules).
function(pccl_compile target)
    cmake_parse_arguments(arg "HOSTED" "" "" ${ARGN})
    set_target_properties(${target} PROPERTIES
        C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS OFF C_VISIBILITY_PRESET hidden)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
    target_include_directories(${target} SYSTEM PRIVATE ${PCCL_XXHASH_INCLUDE_DIR})
    target_compile_options(${target} PRIVATE ${pccl_warnings} ${pccl_sanitizers})
    target_link_options(${target} PRIVATE ${pccl_sanitizers})
    if(PCCL_WERROR)
        target_compile_options(${target} PRIVATE -Werror)
    endif()
    if(WIN32) # no headers of Windows that nothing needs here
        target_compile_definitions(${target} PRIVATE WIN32_LEAN_AND_MEAN)
    endif()
    if(MINGW) # printf as in ISO C
        target_compile_definitions(${target} PRIVATE __USE_MINGW_ANSI_STDIO=1)
        target_compile_options(${target} PRIVATE -Wno-format -Wno-format-extra-args) # know the other printf
    endif()
    if(arg_HOSTED)
        target_compile_definitions(${target} PRIVATE _GNU_SOURCE)
    endif()
endfunction()

# Lets ThreadSanitizer see that libuv closes a descriptor: for every program of ours.
function(pccl_show_closes target)
    if(PCCL_SANITIZE STREQUAL "thread")
        target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/tsan_libuv.c)
        target_link_options(${target} PRIVATE -Wl,--export-dynamic-symbol=syscall)
    endif()
endfunction()

# A program of ours that may look inside the library: the tools and the tests.
function(pccl_program target)
    add_executable(${target} ${ARGN})
    pccl_show_closes(${target})
    pccl_compile(${target} HOSTED)
    target_link_libraries(${target} PRIVATE pccl_static)
    if(MINGW) # needs no other files
        target_link_options(${target} PRIVATE -static)
    endif()
endfunction()
