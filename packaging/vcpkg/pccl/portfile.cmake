# vcpkg install pccl --overlay-ports=packaging/vcpkg, in the source folder. The library has the linkage of the triplet.
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS FEATURE_OPTIONS FEATURES tools PCCL_BUILD_TOOLS)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}" OPTIONS ${FEATURE_OPTIONS}
    -DPCCL_BUILD_TESTS=OFF -DPCCL_INSTALL=ON "-DPCCL_XXHASH_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME pccl CONFIG_PATH lib/cmake/pccl)
vcpkg_fixup_pkgconfig()
if("tools" IN_LIST FEATURES)
    vcpkg_copy_tools(TOOL_NAMES pccl AUTO_CLEAN)
endif()

# Both libraries are built. A static library of the triplet needs no shared one.
if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    file(GLOB shared "${CURRENT_PACKAGES_DIR}/lib/*pccl*.so*" "${CURRENT_PACKAGES_DIR}/debug/lib/*pccl*.so*"
        "${CURRENT_PACKAGES_DIR}/lib/*pccl*.dylib" "${CURRENT_PACKAGES_DIR}/debug/lib/*pccl*.dylib")
    file(REMOVE ${shared})
endif()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
    "${CURRENT_PACKAGES_DIR}/lib/systemd" "${CURRENT_PACKAGES_DIR}/debug/lib/systemd")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/packaging/licences/xxhash.txt"
    "${SOURCE_PATH}/packaging/licences/libuv.txt")
