# Warnings for our own targets; errors only with AFTERIMAGE_WERROR, so that embedding projects still build.
add_library(afterimage_warnings INTERFACE)
target_compile_options(
  afterimage_warnings
  INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
            -Wno-missing-field-initializers  # our structs have defaults, so initialisers name only some fields
            # GCC 12 reports false overlapping copies in std::string's operator+ (GCC 105651).
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
            # GoogleTest's macros are safe in an `if` without braces; clang sees that, GCC does not.
            $<$<CXX_COMPILER_ID:GNU>:-Wno-dangling-else>
            # GCC 12's std::stable_sort uses a function that GCC deprecates.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
            $<$<BOOL:${AFTERIMAGE_WERROR}>:-Werror>)

if(AFTERIMAGE_SANITIZE)
  add_compile_options(-fsanitize=${AFTERIMAGE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${AFTERIMAGE_SANITIZE})
endif()
