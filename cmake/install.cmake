# find_package(afterimage) defines afterimage::afterimage, which links all library rooms.
include(CMakePackageConfigHelpers)

get_property(rooms GLOBAL PROPERTY AFTERIMAGE_ROOMS)
add_library(afterimage INTERFACE)
add_library(afterimage::afterimage ALIAS afterimage)
target_link_libraries(afterimage INTERFACE ${rooms})

install(TARGETS afterimage ${rooms} EXPORT afterimageTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The umbrella header is above all rooms.
afterimage_link("${PROJECT_SOURCE_DIR}/include/afterimage/afterimage.h"
                "${PROJECT_BINARY_DIR}/rooms/afterimage/afterimage" afterimage.h)
target_include_directories(
  afterimage INTERFACE "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/rooms/afterimage>")
set_property(GLOBAL APPEND PROPERTY AFTERIMAGE_PUBLIC_HEADERS afterimage.h)

get_property(headers GLOBAL PROPERTY AFTERIMAGE_PUBLIC_HEADERS)
list(REMOVE_DUPLICATES headers)
list(TRANSFORM headers PREPEND ${PROJECT_SOURCE_DIR}/include/afterimage/)
install(FILES ${headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/afterimage)
install(EXPORT afterimageTargets NAMESPACE afterimage::
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/afterimage)

configure_package_config_file(
  cmake/afterimageConfig.cmake.in ${PROJECT_BINARY_DIR}/afterimageConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/afterimage)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/afterimageConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/afterimageConfig.cmake
              ${PROJECT_BINARY_DIR}/afterimageConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/afterimage)

# Installs the llama.cpp that the program was built with; a system-wide one is not copied.
if(AFTERIMAGE_HAVE_LLAMA)
  # For `serve --demo`.
  install(FILES ${PROJECT_SOURCE_DIR}/build/models/seer.gguf ${PROJECT_SOURCE_DIR}/build/models/seer.mmproj.gguf
          DESTINATION ${CMAKE_INSTALL_DATADIR}/afterimage COMPONENT program OPTIONAL)
  install(FILES cmake/llama.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/afterimage)
  if(EXISTS "${AFTERIMAGE_LLAMA_PREFIX}/lib")
    install(DIRECTORY "${AFTERIMAGE_LLAMA_PREFIX}/lib/"
            DESTINATION ${CMAKE_INSTALL_LIBDIR}/afterimage COMPONENT program FILES_MATCHING PATTERN "*.so.*"
            PATTERN "libllama-server*" EXCLUDE PATTERN "llama-common" EXCLUDE PATTERN cmake EXCLUDE PATTERN pkgconfig EXCLUDE)
    # CPack strips programs only.
    install(CODE "if(CMAKE_INSTALL_DO_STRIP)
        file(GLOB libraries \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/afterimage/*.so.*\")
        execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded \${libraries} COMMAND_ERROR_IS_FATAL ANY)
      endif()" COMPONENT program)
    set_target_properties(afterimage_cli PROPERTIES
      INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}/afterimage")
  endif()
endif()
