# Warnings for our own targets; errors only where asked, never for users who build us as a part.
add_library(afterimage_warnings INTERFACE)
target_compile_options(
  afterimage_warnings
  INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
            -Wno-missing-field-initializers  # our structs have defaults; naming some fields is the idiom
            # GCC 12 sees overlapping copies in std::string's operator+ that are not there (GCC 105651).
            $<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict>
            # std::stable_sort of GCC 12 uses what it deprecates itself.
            $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
            $<$<BOOL:${AFTERIMAGE_WERROR}>:-Werror>)

if(AFTERIMAGE_SANITIZE)
  add_compile_options(-fsanitize=${AFTERIMAGE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${AFTERIMAGE_SANITIZE})
endif()
