# cmake --install: the program, the libraries with their headers, a CMake package, and the model that ships.
include(CMakePackageConfigHelpers)
get_property(layers GLOBAL PROPERTY ASSAY_LAYERS)

add_library(assay_all INTERFACE)
add_library(assay::assay ALIAS assay_all)
set_target_properties(assay_all PROPERTIES EXPORT_NAME assay)
target_link_libraries(assay_all INTERFACE assay_studies assay_quantize assay_report)

install(TARGETS assay RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(TARGETS ${layers} assay_all EXPORT assay_targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY src/assay DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h" PATTERN "cli" EXCLUDE
  PATTERN "probes" EXCLUDE PATTERN "*-inl.h" EXCLUDE
  PATTERN "cpu" EXCLUDE PATTERN "cuda" EXCLUDE)  # what only a device includes itself
install(DIRECTORY models/demo DESTINATION ${CMAKE_INSTALL_DATADIR}/assay/models)
install(EXPORT assay_targets NAMESPACE assay:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/assay FILE assay-targets.cmake)
configure_package_config_file(cmake/assay-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/assay-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/assay)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/assay-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/assay-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/assay-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/assay)
