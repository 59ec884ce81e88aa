# Runs a port of vcpkg without vcpkg, by functions that stand in for those of vcpkg:
#   cmake -D PORT=FOLDER -D OUT=FOLDER -D LINKAGE=static|dynamic -P vcpkg.cmake
set(CURRENT_PORT_DIR "${PORT}")
set(CURRENT_PACKAGES_DIR "${OUT}/package")
set(CURRENT_INSTALLED_DIR /usr)
set(VCPKG_LIBRARY_LINKAGE "${LINKAGE}")
set(FEATURES core tools)

function(vcpkg_check_features)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" OUT_FEATURE_OPTIONS FEATURES)
    set(options "")
    while(arg_FEATURES)
        list(POP_FRONT arg_FEATURES feature option)
        if(feature IN_LIST FEATURES)
            list(APPEND options -D${option}=ON)
        else()
            list(APPEND options -D${option}=OFF)
        endif()
    endwhile()
    set(${arg_OUT_FEATURE_OPTIONS} ${options} PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" SOURCE_PATH OPTIONS)
    execute_process(COMMAND ${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${OUT}/build -G Ninja -DCMAKE_BUILD_TYPE=Release
        -DCMAKE_INSTALL_PREFIX=${CURRENT_PACKAGES_DIR} -DCMAKE_INSTALL_LIBDIR=lib -DBUILD_SHARED_LIBS=OFF ${arg_OPTIONS}
        OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(vcpkg_cmake_install)
    execute_process(COMMAND ${CMAKE_COMMAND} --build ${OUT}/build --target install
        OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(need)
    foreach(file IN LISTS ARGN)
        if(NOT EXISTS "${file}")
            message(FATAL_ERROR "${file} is missing")
        endif()
    endforeach()
endfunction()

function(vcpkg_cmake_config_fixup)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "PACKAGE_NAME;CONFIG_PATH" "")
    need(${CURRENT_PACKAGES_DIR}/${arg_CONFIG_PATH}/${arg_PACKAGE_NAME}Config.cmake)
endfunction()

function(vcpkg_fixup_pkgconfig)
    need(${CURRENT_PACKAGES_DIR}/lib/pkgconfig/pccl.pc)
endfunction()

function(vcpkg_copy_tools)
    cmake_parse_arguments(PARSE_ARGV 0 arg AUTO_CLEAN "" TOOL_NAMES)
    list(TRANSFORM arg_TOOL_NAMES PREPEND ${CURRENT_PACKAGES_DIR}/bin/)
    need(${arg_TOOL_NAMES})
endfunction()

function(vcpkg_install_copyright)
    cmake_parse_arguments(PARSE_ARGV 0 arg "" "" FILE_LIST)
    need(${arg_FILE_LIST})
endfunction()

include(${PORT}/portfile.cmake)
need(${CURRENT_PACKAGES_DIR}/include/pccl.h ${CURRENT_PACKAGES_DIR}/lib/libpccl.a)
file(GLOB shared ${CURRENT_PACKAGES_DIR}/lib/*.so)
if(LINKAGE STREQUAL "static" AND shared OR LINKAGE STREQUAL "dynamic" AND NOT shared)
    message(FATAL_ERROR "the package of linkage ${LINKAGE} has these shared libraries: '${shared}'")
endif()
