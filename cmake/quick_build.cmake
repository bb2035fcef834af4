# AFTERIMAGE_QUICK_BUILD: compile what nearly every source begins with once and not once a source.
# Only for builds that are compiled more than they run (presets dev and tsan). The others check that
# sources include what they use; headers are checked in every build (tests/house).
#
# Tests are not optimised either: compilers would spend most of their time on what the sanitizers add
# to gtest's macros, and tests do little of the work.
#
# afterimage_quick_build(TARGET library|test)
option(AFTERIMAGE_QUICK_BUILD "Precompile the standard library's headers" OFF)

if(AFTERIMAGE_QUICK_BUILD)
  set(common <algorithm> <array> <atomic> <chrono> <expected> <filesystem> <functional> <map> <memory>
             <mutex> <optional> <set> <span> <string> <thread> <utility> <variant> <vector>
             <fmt/format.h> <nlohmann/json.hpp>)
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/nothing.cc CONTENT "")
  foreach(kind library test)
    add_library(afterimage_common_${kind} OBJECT ${PROJECT_BINARY_DIR}/nothing.cc)
    target_precompile_headers(afterimage_common_${kind} PRIVATE ${common})
    target_link_libraries(afterimage_common_${kind}
                          PRIVATE afterimage_warnings fmt::fmt nlohmann_json::nlohmann_json)
  endforeach()
  target_compile_options(afterimage_common_test PRIVATE -O0)
  set_target_properties(afterimage_common_library PROPERTIES POSITION_INDEPENDENT_CODE ON)
  if(AFTERIMAGE_TESTS)
    target_precompile_headers(afterimage_common_test PRIVATE <gtest/gtest.h> <gmock/gmock.h>)
    target_link_libraries(afterimage_common_test PRIVATE GTest::gtest GTest::gmock)
  endif()
endif()

function(afterimage_quick_build target kind)
  if(AFTERIMAGE_QUICK_BUILD)
    if(kind STREQUAL "test")
      target_compile_options(${target} PRIVATE -O0)
    endif()
    target_precompile_headers(${target} REUSE_FROM afterimage_common_${kind})
    # Precompiled headers are of use only where the same macros are defined.
    foreach(library fmt::fmt nlohmann_json::nlohmann_json)
      target_compile_definitions(
        ${target} PRIVATE $<TARGET_PROPERTY:${library},INTERFACE_COMPILE_DEFINITIONS>)
    endforeach()
  endif()
endfunction()
