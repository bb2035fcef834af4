# find_package(afterimage [COMPONENTS …]) defines the components of cmake/components.cmake, and afterimage::afterimage,
# which links those that were asked for.
include(CMakePackageConfigHelpers)

add_library(afterimage INTERFACE)
add_library(afterimage::afterimage ALIAS afterimage)
foreach(component IN LISTS afterimage_built)
  list(TRANSFORM afterimage_${component}_rooms PREPEND afterimage_ OUTPUT_VARIABLE rooms)
  # The components `remote` and `llama` are called as their rooms, which have the others below them.
  if(NOT TARGET afterimage_${component})
    add_library(afterimage_${component} INTERFACE)
    add_library(afterimage::${component} ALIAS afterimage_${component})
    set_target_properties(afterimage_${component} PROPERTIES EXPORT_NAME ${component})
    target_link_libraries(afterimage_${component} INTERFACE ${rooms})
    list(APPEND rooms afterimage_${component})
  endif()
  target_link_libraries(afterimage INTERFACE afterimage_${component})
  install(TARGETS ${rooms} EXPORT afterimage-${component} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(EXPORT afterimage-${component} NAMESPACE afterimage::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/afterimage)
endforeach()
# The umbrella header is above all rooms.
afterimage_link("${PROJECT_SOURCE_DIR}/include/afterimage/afterimage.h"
                "${PROJECT_BINARY_DIR}/rooms/afterimage/afterimage" afterimage.h)
target_include_directories(
  afterimage INTERFACE "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/rooms/afterimage>")
set_property(GLOBAL APPEND PROPERTY AFTERIMAGE_PUBLIC_HEADERS afterimage.h)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/afterimage DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

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
