# afterimage_discover_tests(TARGET ROOM): the suites of a gtest program as tests of CTest, `<room>:<suite>`. A suite with
# parameters is one test for each parameter, `<room>:<suite>/<parameter>`.
#
# One process a suite, not one a test: a sanitized process takes a tenth of a second to start, and what a suite's tests share
# (a loaded model, servers) is made once. A failing test is named in the output; to run one test, run the program itself
# with --gtest_filter.
#
# As a script, after the program was linked: -DPROGRAM= -DROOM= -DLIST= (the file to write), -DEMULATOR= (what runs it).
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(AFTERIMAGE_DISCOVER_TESTS "${CMAKE_CURRENT_LIST_FILE}")
  function(afterimage_discover_tests target room)
    set(list "${CMAKE_CURRENT_BINARY_DIR}/${target}_suites.cmake")
    add_custom_command(TARGET ${target} POST_BUILD VERBATIM
                       COMMAND "${CMAKE_COMMAND}" -DPROGRAM=$<TARGET_FILE:${target}> -DROOM=${room} -DLIST=${list}
                               "-DEMULATOR=${CMAKE_CROSSCOMPILING_EMULATOR}" -P "${AFTERIMAGE_DISCOVER_TESTS}")
    set(include "${CMAKE_CURRENT_BINARY_DIR}/${target}_include.cmake")
    file(CONFIGURE OUTPUT "${include}" @ONLY CONTENT [[
if(EXISTS "@list@")
  include("@list@")
else()
  add_test("@room@:@target@_is_not_built" "@target@")
endif()
]])
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
  endfunction()
  return()
endif()

execute_process(COMMAND ${EMULATOR} "${PROGRAM}" --gtest_list_tests OUTPUT_VARIABLE output COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" lines "${output}")
set(groups "")  # filters
foreach(line IN LISTS lines)
  if(line MATCHES "^([A-Za-z0-9_/]+)\\.")
    set(suite "${CMAKE_MATCH_1}")
  elseif(line MATCHES "^  [A-Za-z0-9_]+/([A-Za-z0-9_]+)")
    list(APPEND groups "${suite}.*/${CMAKE_MATCH_1}")
  elseif(line MATCHES "^  [A-Za-z0-9_]+")
    list(APPEND groups "${suite}.*")
  endif()
endforeach()
list(REMOVE_DUPLICATES groups)

set(tests "")
foreach(filter IN LISTS groups)
  string(REPLACE ".*" "" name "${ROOM}:${filter}")
  # The timeout ends a test that waits forever for another thread.
  string(APPEND tests "add_test([==[${name}]==] ${EMULATOR} [==[${PROGRAM}]==] [==[--gtest_filter=${filter}]==])\n"
         "set_tests_properties([==[${name}]==] PROPERTIES LABELS ${ROOM} TIMEOUT 300)\n")
endforeach()
file(WRITE "${LIST}" "${tests}")
