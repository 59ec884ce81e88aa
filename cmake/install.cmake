# lib/libpccl.so.1 with its links and libpccl.a, the headers, pkg-config, the CMake package, the program, the man pages.
include(CMakePackageConfigHelpers)

# Two export sets: who links the shared library needs nothing else; who links the static one needs libuv.
install(TARGETS pccl EXPORT pcclTargets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
    RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS pccl_static EXPORT pcclStaticTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES include/pccl.h include/pccl_collectives.h include/pccl_codecs.h include/pccl_loop.h include/pccl_sight.h include/ccoip.h
    include/ccoip_inet.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(pccl_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/pccl)
install(EXPORT pcclTargets NAMESPACE pccl:: DESTINATION ${pccl_package_dir})
install(EXPORT pcclStaticTargets NAMESPACE pccl:: DESTINATION ${pccl_package_dir})
configure_package_config_file(cmake/pcclConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/pcclConfig.cmake
    INSTALL_DESTINATION ${pccl_package_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/pcclConfigVersion.cmake COMPATIBILITY SameMajorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pcclConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/pcclConfigVersion.cmake
    DESTINATION ${pccl_package_dir})

# pccl.pc finds the prefix from its own location, so an installed tree can be moved; not with an absolute folder.
if(IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}")
    set(pccl_pc_prefix "${CMAKE_INSTALL_PREFIX}")
else()
    file(RELATIVE_PATH pccl_pc_prefix /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
    string(REGEX REPLACE "/$" "" pccl_pc_prefix "\${pcfiledir}/${pccl_pc_prefix}")
endif()
# An absolute folder replaces the prefix.
cmake_path(APPEND pccl_pc_libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
cmake_path(APPEND pccl_pc_includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
cmake_path(APPEND pccl_bin "\${CMAKE_INSTALL_PREFIX}" "${CMAKE_INSTALL_BINDIR}")
configure_file(cmake/pccl.pc.in ${CMAKE_CURRENT_BINARY_DIR}/pccl.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/pccl.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

if(TARGET pccl_tool)
    install(TARGETS pccl_tool RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
    # Its other names; the last one is for scripts written for PCCL 1.0.
    foreach(name IN ITEMS pccl-master pccl-perf ccoip_master)
        install(CODE "file(CREATE_LINK pccl
            \"\$ENV{DESTDIR}${pccl_bin}/${name}\" SYMBOLIC)")
    endforeach()
    install(FILES packaging/completions/pccl.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME pccl)
    install(FILES packaging/completions/_pccl DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES packaging/completions/pccl.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    # The service names the program where it is installed, which is known at that time only.
    install(CODE "
        file(READ \"${PROJECT_SOURCE_DIR}/packaging/systemd/pccl-master.service\" service)
        string(REPLACE \"/usr/bin/pccl-master\" \"${pccl_bin}/pccl-master\" service \"\${service}\")
        file(WRITE \"${CMAKE_CURRENT_BINARY_DIR}/pccl-master.service\" \"\${service}\")
        file(INSTALL DESTINATION \"\${CMAKE_INSTALL_PREFIX}/lib/systemd/system\" TYPE FILE
            FILES \"${CMAKE_CURRENT_BINARY_DIR}/pccl-master.service\")")
endif()
install(FILES man/pccl.1 man/pccl-master.1 man/pccl-perf.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES man/pccl.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
# The pages of the functions come from the comments of the headers. Without Python there are only the headers.
find_package(Python3 COMPONENTS Interpreter QUIET)
if(Python3_Interpreter_FOUND)
    set(pccl_manual ${CMAKE_CURRENT_BINARY_DIR}/man3)
    file(GLOB pccl_manual_sources CONFIGURE_DEPENDS include/*.h tools/api_doc.py tools/api_manual.py tools/python_source.py)
    add_custom_command(OUTPUT ${pccl_manual}/pccl_types.3 DEPENDS ${pccl_manual_sources}
        COMMAND ${CMAKE_COMMAND} -E rm -rf ${pccl_manual}
        COMMAND ${Python3_EXECUTABLE} -B ${PROJECT_SOURCE_DIR}/tools/api_manual.py ${pccl_manual})
    add_custom_target(pccl_manual ALL DEPENDS ${pccl_manual}/pccl_types.3)
    install(DIRECTORY ${pccl_manual}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man3)
endif()
install(FILES man/pccl.7 DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
