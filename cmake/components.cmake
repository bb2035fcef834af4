# The installed library in components. Each is a CMake target, afterimage::<component>, and what find_package(afterimage
# COMPONENTS …) finds; whoever names one needs the packages of that one and of those that it requires.
#
#   AFTERIMAGE_COMPONENTS  which components to build: all, with the programs, tests and examples; or a list such as
#                          cache or cache;remote, with nothing else
set(AFTERIMAGE_COMPONENTS all CACHE STRING "Parts to build: all, or a list of cache, remote, gateway and llama")

set(afterimage_components cache remote gateway llama)
set(afterimage_cache_rooms
    types crypto platform text memory shared_files block_io disk encryption device eviction pressure identity invalidation
    language answers encoder prefix scheduling engine_api reuse)
set(afterimage_remote_rooms redis remote)
set(afterimage_remote_requires cache)
set(afterimage_gateway_rooms
    json http media documents telemetry stores similarity certificate config openai prompts protocol anthropic responses files endpoints keys
    access draws proxy fleet kv_publisher engine_backend admin service model_server)
set(afterimage_gateway_requires remote cache)
set(afterimage_llama_rooms llama_kernels llama_library llama)
set(afterimage_llama_requires gateway remote cache)

set(afterimage_built ${AFTERIMAGE_COMPONENTS})
if(AFTERIMAGE_COMPONENTS STREQUAL "all")
  set(afterimage_built ${afterimage_components})
else()
  foreach(component IN LISTS AFTERIMAGE_COMPONENTS)
    if(NOT component IN_LIST afterimage_components)
      message(FATAL_ERROR "AFTERIMAGE_COMPONENTS: there is no ${component}; there are ${afterimage_components}")
    endif()
    list(APPEND afterimage_built ${afterimage_${component}_requires})
  endforeach()
  list(REMOVE_DUPLICATES afterimage_built)
  foreach(part TESTS EXAMPLES BENCH FUZZ LAB)
    set(AFTERIMAGE_${part} OFF)
  endforeach()
endif()

# The folder of a room, if it is built; rooms of no component are built with all of them.
function(afterimage_add_room folder)
  get_filename_component(room "${folder}" NAME)
  foreach(component IN LISTS afterimage_components)
    if(room IN_LIST afterimage_${component}_rooms AND NOT component IN_LIST afterimage_built)
      return()
    endif()
  endforeach()
  add_subdirectory(${folder})
endfunction()

# The component that installs a room; empty: none does.
function(afterimage_component_of room result)
  set(${result} "" PARENT_SCOPE)
  foreach(component IN LISTS afterimage_components)
    if(room IN_LIST afterimage_${component}_rooms)
      set(${result} ${component} PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# A room may use rooms of its own component and of those that its component requires: otherwise who asks for one
# would get the packages of another.
function(afterimage_check_component room dependencies)
  afterimage_component_of(${room} own)
  if(NOT own)
    return()
  endif()
  foreach(dependency IN LISTS dependencies)
    afterimage_component_of(${dependency} other)
    if(NOT other STREQUAL own AND NOT other IN_LIST afterimage_${own}_requires)
      message(FATAL_ERROR "${room} is part of afterimage::${own} and depends on ${dependency}, which is not part of "
                          "what that requires (cmake/components.cmake)")
    endif()
  endforeach()
endfunction()
