# AFTERIMAGE_QUICK_BUILD: precompile common headers, and compile a room's sources in batches (unity build),
# so names in the unnamed namespaces of one room must be unique. The preset `plain` compiles without it and
# finds sources that do not include what they use.
#
# Sanitized code takes more than twice as long to optimise as to compile, so the preset `dev` optimises only HOT rooms.
#
# afterimage_quick_build(TARGET library|hot|headers|test|program)
#
# AFTERIMAGE_BATCH is how many sources are compiled at a time; of tests two thirds of it. A build from nothing is shortest with
# whole rooms (the presets `release` and `gcc`, the Python package, `make test BATCH=24`); `dev` recompiles fewer sources
# after a change.
option(AFTERIMAGE_QUICK_BUILD "Precompile the standard library's headers" OFF)
set(AFTERIMAGE_BATCH 6 CACHE STRING "Sources of a room that a quick build compiles at a time")

if(AFTERIMAGE_QUICK_BUILD)
  set(common <algorithm> <array> <atomic> <chrono> <expected> <filesystem> <functional> <map> <memory>
             <mutex> <optional> <set> <span> <string> <thread> <utility> <variant> <vector>
             <fmt/format.h> <nlohmann/json.hpp>)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/nothing.cc CONTENT "")
  set(kinds library test program)
  if(AFTERIMAGE_HOT_FLAGS)
    list(APPEND kinds hot)
  endif()
  foreach(kind IN LISTS kinds)
    add_library(afterimage_common_${kind} OBJECT ${PROJECT_BINARY_DIR}/nothing.cc)
    target_precompile_headers(afterimage_common_${kind} PRIVATE ${common})
    target_link_libraries(afterimage_common_${kind}
                          PRIVATE afterimage_warnings fmt::fmt nlohmann_json::nlohmann_json)
  endforeach()
  target_compile_options(afterimage_common_test PRIVATE -O0)
  target_precompile_headers(afterimage_common_program PRIVATE <CLI/CLI.hpp>)
  target_link_libraries(afterimage_common_program PRIVATE CLI11::CLI11)
  set_target_properties(afterimage_common_library PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(AFTERIMAGE_HOT_FLAGS)
    set_target_properties(afterimage_common_hot PROPERTIES POSITION_INDEPENDENT_CODE ON)
    target_compile_options(afterimage_common_hot PRIVATE ${AFTERIMAGE_HOT_FLAGS})
  endif()
  if(AFTERIMAGE_TESTS)
    target_precompile_headers(afterimage_common_test PRIVATE <gtest/gtest.h> <gmock/gmock.h>)
    target_link_libraries(afterimage_common_test PRIVATE GTest::gtest GTest::gmock)
  endif()
endif()

function(afterimage_quick_build target kind)
  if(AFTERIMAGE_QUICK_BUILD)
    if(kind STREQUAL "headers")
      set(kind library)
    else()
      if(kind STREQUAL "test")
        target_compile_options(${target} PRIVATE -O0)
      endif()
      # Several sources at a time: templates are instantiated once for all of them.
      set(batch ${AFTERIMAGE_BATCH})
      if(kind STREQUAL "test")
        math(EXPR batch "${batch} * 2 / 3")
      endif()
      set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
      # In a batch, g++ takes the sources for headers, and system macros for ours; what it sees inlined
      # there, g++ 12 warns about without cause.
      target_compile_options(
        ${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage;-Wno-old-style-cast;-Wno-maybe-uninitialized;-Wno-stringop-overread;-Wno-stringop-overflow>)
    endif()
    target_precompile_headers(${target} REUSE_FROM afterimage_common_${kind})
    # Precompiled headers can be reused only with the same macro definitions.
    foreach(library fmt::fmt nlohmann_json::nlohmann_json)
      target_compile_definitions(
        ${target} PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_COMPILE_DEFINITIONS>)
    endforeach()
  endif()
endfunction()
