# afterimage_room(NAME SOURCES … [HEADERS …] [DEPENDS room …] [LIBRARIES …] [PUBLIC_LIBRARIES …] [TESTS …])
#
# One room, one static library `afterimage_<name>`. Its headers stand beside its sources and are
# spelled "afterimage/<name>/x.h" inside and outside. The compiler finds that path only through a link
# of its own (build/rooms/<name>/afterimage/<name> -> src/<name>), which only rooms that DEPEND on this
# one can see: a wrong include does not compile.
#
# HEADERS are installed; headers not listed are the room's own, by agreement: a door shows the folder.
# TESTS name x_test.cc files beside the sources; together they are `<name>_test`, labelled with the room.
function(afterimage_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;HEADERS;DEPENDS;LIBRARIES;PUBLIC_LIBRARIES;TESTS" ${ARGN})
  set(target afterimage_${name})
  add_library(${target} STATIC ${ROOM_SOURCES})
  add_library(afterimage::${name} ALIAS ${target})
  target_compile_features(${target} PUBLIC cxx_std_23)
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} CXX_EXTENSIONS OFF
                                             POSITION_INDEPENDENT_CODE ON)
  afterimage_quick_build(${target} library)

  set(door "${PROJECT_BINARY_DIR}/rooms/${name}")
  file(MAKE_DIRECTORY "${door}/afterimage")
  if(NOT EXISTS "${door}/afterimage/${name}")
    file(CREATE_LINK "${CMAKE_CURRENT_SOURCE_DIR}" "${door}/afterimage/${name}" SYMBOLIC)
  endif()
  target_include_directories(
    ${target} PUBLIC "$<BUILD_INTERFACE:${door}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")

  foreach(dependency IN LISTS ROOM_DEPENDS)
    target_link_libraries(${target} PUBLIC afterimage_${dependency})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ROOM_PUBLIC_LIBRARIES}
                        PRIVATE ${ROOM_LIBRARIES} $<BUILD_INTERFACE:afterimage_warnings>)

  foreach(header IN LISTS ROOM_HEADERS)
    get_filename_component(folder "${header}" DIRECTORY)
    install(FILES "${header}"
            DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/afterimage/${name}/${folder}")
    set_property(GLOBAL APPEND PROPERTY AFTERIMAGE_PUBLIC_HEADERS "afterimage/${name}/${header}")
  endforeach()
  set_property(GLOBAL APPEND PROPERTY AFTERIMAGE_ROOMS ${target})

  if(AFTERIMAGE_TESTS AND ROOM_TESTS)
    add_executable(${name}_test ${ROOM_TESTS})
    target_link_libraries(${name}_test PRIVATE ${target} afterimage_testing GTest::gtest_main
                                               afterimage_warnings)
    afterimage_quick_build(${name}_test test)
    # A test that waits for another thread fails by its time limit.
    gtest_discover_tests(${name}_test TEST_PREFIX ${name}: NO_PRETTY_VALUES DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS ${name} TIMEOUT 300)
  endif()
endfunction()
