# Finds the llama.cpp for the engine "llama"; never downloads it. scripts/build-llama.sh builds the pinned one.
#
#   AFTERIMAGE_LLAMA         AUTO (use it if found), ON (fail if not found), OFF
#   AFTERIMAGE_LLAMA_PREFIX  prefix with include/ and lib/ of a llama.cpp; if it has none, the system is searched
#
# Sets AFTERIMAGE_HAVE_LLAMA and, if true, defines afterimage::llama_cpp: libllama, libmtmd, libllama-common, ggml, and the
# macro AFTERIMAGE_LLAMA_BUILD, a string that identifies the build.
set(AFTERIMAGE_LLAMA AUTO CACHE STRING "The llama.cpp engine: AUTO, ON, OFF")
set_property(CACHE AFTERIMAGE_LLAMA PROPERTY STRINGS AUTO ON OFF)
set(AFTERIMAGE_LLAMA_PREFIX "${PROJECT_SOURCE_DIR}/build/llama/prefix" CACHE PATH
    "An installed llama.cpp with libmtmd")

set(AFTERIMAGE_HAVE_LLAMA FALSE)
if(NOT AFTERIMAGE_LLAMA)
  return()
endif()

# Never mix the headers of one installation with the libraries of another.
set(where "")
if(EXISTS "${AFTERIMAGE_LLAMA_PREFIX}/include/mtmd.h")
  set(where PATHS "${AFTERIMAGE_LLAMA_PREFIX}" PATH_SUFFIXES include lib NO_DEFAULT_PATH)
endif()
find_path(llama_headers mtmd-helper.h ${where} NO_CACHE)
set(llama_libraries "")
foreach(name mtmd llama ggml ggml-cpu ggml-base)
  find_library(llama_library_${name} ${name} ${where} NO_CACHE)
  list(APPEND llama_libraries "${llama_library_${name}}")
endforeach()

find_library(llama_library_common llama-common ${where} NO_CACHE)

set(missing "")
if("${llama_headers};${llama_libraries}" MATCHES "NOTFOUND")
  set(missing "No llama.cpp with libmtmd found in ${AFTERIMAGE_LLAMA_PREFIX} or on the system.")
elseif(NOT llama_library_common OR NOT EXISTS "${llama_headers}/llama-common/chat.h")
  set(missing "The llama.cpp in ${llama_headers} lacks its library 'common': libllama-common, headers in llama-common/.")
elseif(NOT EXISTS "${llama_headers}/llama-internal/llama-io.h")
  set(missing "The llama.cpp in ${llama_headers} lacks the headers of its state interface in llama-internal/.")
elseif(NOT EXISTS "${llama_headers}/llama-internal/ggml-cpu/traits.h")
  set(missing "The llama.cpp in ${llama_headers} lacks the headers of its CPU backend in llama-internal/ggml-cpu/.")
elseif(EXISTS "${AFTERIMAGE_LLAMA_PREFIX}/stamp" AND where)
  file(STRINGS "${AFTERIMAGE_LLAMA_PREFIX}/stamp" build LIMIT_COUNT 1)
  string(REGEX MATCH "^[a-z-]+ [0-9.]+" release "${build}")
  string(SHA256 build "${build}")
  string(SUBSTRING "${build}" 0 16 build)
  set(build "${release}, build ${build}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${AFTERIMAGE_LLAMA_PREFIX}/stamp")
else()
  # Not the pinned one: check that its interface matches, because it changes every month.
  set(build "not the pinned one")
  try_compile(fits
    SOURCE_FROM_CONTENT fits.cc "#include <mtmd-helper.h>
      int main() { mtmd_input_text text{\"\", 0, true, true}; return text.text_len; }"
    CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${llama_headers}" NO_CACHE)
  if(NOT fits)
    set(missing "The llama.cpp in ${llama_headers} has another version than the engine supports.")
  endif()
endif()

if(missing AND NOT AFTERIMAGE_LLAMA STREQUAL "AUTO")
  message(FATAL_ERROR "${missing} Build the pinned one with scripts/build-llama.sh, then configure again.")
elseif(missing)
  message(STATUS "Without the engine \"llama\": ${missing} scripts/build-llama.sh builds the pinned one.")
  return()
endif()

set(AFTERIMAGE_HAVE_LLAMA TRUE)
add_library(afterimage::llama_cpp INTERFACE IMPORTED GLOBAL)
target_include_directories(afterimage::llama_cpp SYSTEM INTERFACE "${llama_headers}" "${llama_headers}/llama-internal")
if(AFTERIMAGE_PORTABLE)
  file(GLOB llama_archives "${AFTERIMAGE_LLAMA_PREFIX}/lib/*.a")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libgomp.a OUTPUT_VARIABLE gomp OUTPUT_STRIP_TRAILING_WHITESPACE)
  list(JOIN llama_archives "," llama_archives)
  target_link_libraries(afterimage::llama_cpp INTERFACE "$<LINK_GROUP:RESCAN,${llama_archives},${gomp}>")
else()
  target_link_libraries(afterimage::llama_cpp INTERFACE ${llama_library_common} ${llama_libraries})
endif()
target_compile_definitions(afterimage::llama_cpp INTERFACE "AFTERIMAGE_LLAMA_BUILD=\"${build}\"")
message(STATUS "With the engine \"llama\": ${llama_library_llama} (${build})")
