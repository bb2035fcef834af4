# afterimage_room(SOURCES … [PUBLIC …] [DEPENDS room …] [LIBRARIES …] [PUBLIC_LIBRARIES …]
#                 [TESTS …] [TESTS_ALONE …] [TEST_DEPENDS target …] [HOT])
#
# Declares one room: the folder src/<group>/<room>, or lab/<room>, and a static library `afterimage_<room>`. Its headers
# are in the same folder and are included as "<group>/<room>/x.h". The compiler finds that path through
# the room's own symbolic link (build/rooms/<room>/<group>/<room> -> src/<group>/<room>), which only rooms
# that DEPEND on this one see: an include of a room above, or of an undeclared neighbour, does not compile.
#
# PUBLIC lists headers in include/afterimage that this room implements. They are included as
# "afterimage/x.h", are found the same way, and are the only installed headers.
# DEPENDS is transitive. Packages that are headers only are needed to build, and not to use, the room. TESTS lists x_test.cc files, which become the program `<room>_test` with the
# room's label; a quick build compiles them in batches, those in TESTS_ALONE one by one, because their private
# names are also those of another. TEST_DEPENDS may list rooms above this one.
# HOT: tests spend their time in this room; AFTERIMAGE_HOT_FLAGS are added to its sources.
function(afterimage_room)
  cmake_parse_arguments(
    ROOM "HOT" "" "SOURCES;PUBLIC;DEPENDS;LIBRARIES;PUBLIC_LIBRARIES;TESTS;TESTS_ALONE;TEST_DEPENDS" ${ARGN})
  set(tree "${PROJECT_SOURCE_DIR}/src")
  set(rooms AFTERIMAGE_ROOMS)  # installed
  set(lab "${PROJECT_SOURCE_DIR}/lab")
  cmake_path(IS_PREFIX lab "${CMAKE_CURRENT_SOURCE_DIR}" in_lab)
  if(in_lab)
    set(tree "${PROJECT_SOURCE_DIR}")
    set(rooms AFTERIMAGE_LAB_ROOMS)
  endif()
  file(RELATIVE_PATH folder "${tree}" "${CMAKE_CURRENT_SOURCE_DIR}")
  get_filename_component(group "${folder}" DIRECTORY)
  get_filename_component(room "${folder}" NAME)
  set(target afterimage_${room})
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(afterimage::${room} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_23)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${room} CXX_EXTENSIONS OFF
                                             POSITION_INDEPENDENT_CODE ON)
  if(ROOM_HOT AND AFTERIMAGE_HOT_FLAGS)
    target_compile_options(${target} PRIVATE ${AFTERIMAGE_HOT_FLAGS})
    afterimage_quick_build(${target} hot)
  else()
    afterimage_quick_build(${target} library)
  endif()

  set(door "${PROJECT_BINARY_DIR}/rooms/${room}")
  afterimage_link("${CMAKE_CURRENT_SOURCE_DIR}" "${door}/${group}" ${room})
  foreach(header IN LISTS ROOM_PUBLIC)
    afterimage_link("${PROJECT_SOURCE_DIR}/include/afterimage/${header}" "${door}/afterimage" ${header})
    set_property(GLOBAL APPEND PROPERTY AFTERIMAGE_PUBLIC_HEADERS ${header})
  endforeach()
  target_include_directories(
    ${target} PUBLIC "$<BUILD_INTERFACE:${door}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  foreach(dependency IN LISTS ROOM_DEPENDS)
    target_link_libraries(${target} PUBLIC afterimage_${dependency})
  endforeach()
  afterimage_check_component(${room} "${ROOM_DEPENDS}")
  list(TRANSFORM ROOM_LIBRARIES REPLACE "^(Boost::headers|nlohmann_json::nlohmann_json)$" "$<BUILD_INTERFACE:\\1>")
  target_link_libraries(${target} PUBLIC ${ROOM_PUBLIC_LIBRARIES}
                        PRIVATE ${ROOM_LIBRARIES} $<BUILD_INTERFACE:afterimage_warnings>)
  set_property(GLOBAL APPEND PROPERTY ${rooms} ${target})

  if(AFTERIMAGE_TESTS AND ROOM_TESTS)
    add_executable(${room}_test ${ROOM_TESTS} ${ROOM_TESTS_ALONE})
    set_source_files_properties(${ROOM_TESTS_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_link_libraries(${room}_test PRIVATE ${target} ${ROOM_TEST_DEPENDS} afterimage_testing
                                               GTest::gtest_main afterimage_warnings)
    afterimage_quick_build(${room}_test test)
    afterimage_discover_tests(${room}_test ${room})
  endif()
endfunction()

# Creates the symbolic link folder/name to `target`.
function(afterimage_link target folder name)
  file(MAKE_DIRECTORY "${folder}")
  if(NOT EXISTS "${folder}/${name}")
    file(CREATE_LINK "${target}" "${folder}/${name}" SYMBOLIC)
  endif()
endfunction()
