# Included by the pinned llama.cpp's own CMake (scripts/build-llama.sh): of its library `common`, which llama-server
# and the tools share, the engine needs chat templates, grammars and tokenizing. Leaves out the rest, which makes up much
# of its compile time, compiles small sources together, and optimises less what computes nothing.
if(NOT CMAKE_CURRENT_SOURCE_DIR STREQUAL CMAKE_SOURCE_DIR)
  return()
endif()

# The target's sources that match `pattern`, with their folders.
function(afterimage_sources_of target pattern result)
  get_target_property(sources ${target} SOURCES)
  get_target_property(folder ${target} SOURCE_DIR)
  list(FILTER sources INCLUDE REGEX "${pattern}")
  set(found "")
  foreach(source IN LISTS sources)
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY "${folder}")
    list(APPEND found "${source}")
  endforeach()
  set(${result} "${found}" PARENT_SCOPE)
endfunction()

# Compiles those of the target's sources that match `pattern` as `count` files.
function(afterimage_compile_together target pattern count)
  afterimage_sources_of(${target} "${pattern}" sources)
  set(i 0)
  foreach(source IN LISTS sources)
    math(EXPR group "${i} % ${count}")
    set_source_files_properties("${source}" TARGET_DIRECTORY ${target}
                                PROPERTIES UNITY_GROUP "${group}" SKIP_UNITY_BUILD_INCLUSION OFF)
    math(EXPR i "${i} + 1")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()

function(afterimage_trim_llama)
  get_target_property(sources llama-common SOURCES)
  list(FILTER sources EXCLUDE REGEX
       "(^|/)(arg|console|debug|download|hf-cache|imatrix-loader|llguidance|preset|subproc)\\.cpp$")
  get_target_property(libraries llama-common LINK_LIBRARIES)
  list(REMOVE_ITEM libraries cpp-httplib)
  set_target_properties(llama-common PROPERTIES SOURCES "${sources}" LINK_LIBRARIES "${libraries}")
  target_compile_options(llama-common PRIVATE -O1)
  afterimage_compile_together(llama-common "(parsers|jinja)/.*\\.cpp$" 3)
  # Of the media library only these compute; the rest builds compute graphs.
  target_compile_options(mtmd PRIVATE -O1)
  afterimage_sources_of(mtmd "mtmd-(audio|image)\\.cpp$" computing)
  set_source_files_properties(${computing} TARGET_DIRECTORY mtmd PROPERTIES COMPILE_OPTIONS -O3)
  afterimage_compile_together(mtmd "models/.*\\.cpp$" 4)
  # So do the sources of the models, three quarters of the library.
  target_compile_options(llama PRIVATE -O1)
  afterimage_sources_of(llama "(^|/)(llama-(batch|context|grammar|graph|kv-cache|memory-recurrent|quant|sampler|vocab)|unicode)\\.cpp$" computing)
  set_source_files_properties(${computing} TARGET_DIRECTORY llama PROPERTIES COMPILE_OPTIONS -O3)
  afterimage_compile_together(llama "(models/.*|llama-(adapter|arch|chat|cparams|hparams|impl|io|kv-cache-.*|memory|memory-hybrid.*|mmap|model.*)|llama)\\.cpp$" 10)
endfunction()
cmake_language(DEFER CALL afterimage_trim_llama)
