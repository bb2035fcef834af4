# Included by the pinned llama.cpp's own CMake (scripts/build-llama.sh): of its library `common`, which llama-server
# and the tools share, the engine needs chat templates, grammars and tokenizing. Leaves out the rest, which makes up much
# of its compile time, and optimises less what runs once a request.
if(NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
  return()
endif()

function(afterimage_trim_llama)
  get_target_property(sources llama-common SOURCES)
  list(FILTER sources EXCLUDE REGEX
       "(^|/)(arg|console|debug|download|hf-cache|imatrix-loader|llguidance|preset|subproc)\\.cpp$")
  get_target_property(libraries llama-common LINK_LIBRARIES)
  list(REMOVE_ITEM libraries cpp-httplib)
  set_target_properties(llama-common PROPERTIES SOURCES "${sources}" LINK_LIBRARIES "${libraries}")
  target_compile_options(llama-common PRIVATE -O1)
  get_target_property(sources mtmd SOURCES)
  list(FILTER sources INCLUDE REGEX "models/.*\\.cpp$")  # they build compute graphs and compute nothing
  set_source_files_properties(${sources} TARGET_DIRECTORY mtmd PROPERTIES COMPILE_OPTIONS -O1)
endfunction()
cmake_language(DEFER CALL afterimage_trim_llama)
