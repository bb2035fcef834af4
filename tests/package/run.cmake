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
