# Installs this build into a fresh prefix, builds the examples against that alone, and runs them.
file(REMOVE_RECURSE ${WORK})
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT code EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\n${out}")
  endif()
endfunction()
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/tests/package -B ${WORK}/build
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DAFTERIMAGE_SOURCE=${SOURCE}
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/build)
foreach(example hello_encoder own_engine own_policy)
  run(${WORK}/build/${example})
endforeach()
run(${WORK}/prefix/bin/afterimage --version)

# Who wants the caches needs four packages: fmt, OpenSSL, xxHash and liburing.
set(not_needed Boost CLI11 GIF JPEG PNG ZLIB nlohmann_json prometheus-cpp simdjson)
list(TRANSFORM not_needed REPLACE "(.+)" "-DCMAKE_DISABLE_FIND_PACKAGE_\\1=ON" OUTPUT_VARIABLE without)
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE}/tests/package/cache -B ${WORK}/cache
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DAFTERIMAGE_SOURCE=${SOURCE} ${without}
    "-DCMAKE_CXX_COMPILER=${COMPILER}" "-DCMAKE_CXX_FLAGS=${FLAGS}")
run(${CMAKE_COMMAND} --build ${WORK}/cache)
foreach(example one_cache hello_encoder own_engine)
  run(${WORK}/cache/${example})
endforeach()
execute_process(COMMAND ldd ${WORK}/cache/one_cache OUTPUT_VARIABLE linked COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "lib(ssl|av[a-z]+|curl|gif|hiredis|jpeg|llama|mpg123|openjp2|png|prometheus|simdjson|sndfile|swscale|tomlplusplus|webp)[^\n]*"
       stray "${linked}")
if(stray)
  message(FATAL_ERROR "a program with one cache is linked with ${stray}")
endif()

# To build them it takes Boost's headers, too, and nothing of the others.
list(FILTER without EXCLUDE REGEX "_Boost=")
run(${CMAKE_COMMAND} -G ${GENERATOR} -S ${SOURCE} -B ${WORK}/from_source -DAFTERIMAGE_COMPONENTS=cache ${without}
    "-DCMAKE_CXX_COMPILER=${COMPILER}")
file(GLOB_RECURSE of_the_lab ${WORK}/prefix/*afterimage-lab* ${WORK}/prefix/*libafterimage_experiment*)
if(of_the_lab)
  message(FATAL_ERROR "the lab is installed with the product: ${of_the_lab}")
endif()
