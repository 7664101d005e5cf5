# Compile options that every target of ours shares.
add_library(syncline_options INTERFACE)
target_compile_features(syncline_options INTERFACE cxx_std_20)
target_include_directories(syncline_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(syncline_options INTERFACE -Wall -Wextra -Wshadow -Wpedantic)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies and uninitialised parts inside its own std::string and std::optional when it inlines
  # them (gcc.gnu.org/bugzilla 105329, 105651, 105562).
  target_compile_options(syncline_options INTERFACE -Wno-restrict -Wno-maybe-uninitialized)
endif()
if(SYNCLINE_WERROR)
  target_compile_options(syncline_options INTERFACE -Werror)
endif()
if(SYNCLINE_SANITIZE)
  target_compile_options(syncline_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(syncline_options INTERFACE -fsanitize=address,undefined)
endif()

# What most sources include. Whoever works on the code leaves it off: then every source shows what it needs.
set(SYNCLINE_COMMON_HEADERS <fmt/format.h> <algorithm> <cmath> <cstdint> <functional> <map> <memory> <optional> <set>
  <span> <stdexcept> <string> <string_view> <vector>)
function(syncline_precompile target)
  if(SYNCLINE_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE ${SYNCLINE_COMMON_HEADERS} ${ARGN})
  endif()
endfunction()
# Those of another target, which is compiled with the same options.
function(syncline_precompile_as target other)
  if(SYNCLINE_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

# Compiles several sources as one where headers are most of the work (JSON, options): a third of the time.
function(syncline_unite target)
  if(SYNCLINE_PRECOMPILE)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 8)
  endif()
endfunction()

# syncline_library(NAME SOURCES a.cpp ... [PUBLIC targets] [PRIVATE targets]): one library a folder, syncline::NAME.
function(syncline_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(syncline_${name} STATIC ${ARG_SOURCES})
  add_library(syncline::${name} ALIAS syncline_${name})
  target_link_libraries(syncline_${name} PUBLIC syncline_options ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  if(name STREQUAL "core")
    syncline_precompile(syncline_core)
  else()
    syncline_precompile_as(syncline_${name} syncline_core)
  endif()
endfunction()

# syncline_test(NAME SOURCES a.cpp ... LIBS targets): one doctest program a folder, run by ctest.
function(syncline_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LIBS" ${ARGN})
  add_executable(test_${name} ${ARG_SOURCES})
  target_link_libraries(test_${name} PRIVATE syncline_options syncline_test_main ${ARG_LIBS})
  target_compile_definitions(test_${name} PRIVATE SYNCLINE_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                                  SYNCLINE_PROGRAM="$<TARGET_FILE:syncline>")
  target_compile_options(test_${name} PRIVATE -O0)  # what they call is optimised; they build in half the time
  syncline_precompile_as(test_${name} syncline_test_headers)
  add_test(NAME ${name} COMMAND test_${name} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
endfunction()
