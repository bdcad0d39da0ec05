# What every target of this project has in common, said once.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

option(MUSTER_WERROR "Warnings are errors" ON)
set(MUSTER_SANITIZE "" CACHE STRING "Sanitizers to build with, as -fsanitize= takes them")

find_program(MUSTER_CCACHE ccache)
if(MUSTER_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  file(RELATIVE_PATH up ${CMAKE_BINARY_DIR} ${CMAKE_SOURCE_DIR})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/ccache.sh ${CMAKE_SOURCE_DIR} ${up})
endif()
option(MUSTER_PCH "Compile the headers of other libraries once for all files of a target. OFF: shows a forgotten #include" ON)
find_program(MUSTER_MOLD mold)
if(MUSTER_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(muster_options INTERFACE)
target_compile_options(muster_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough
  "SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/libstdcxx.h")
if(MUSTER_WERROR)
  target_compile_options(muster_options INTERFACE -Werror)
endif()
target_compile_definitions(muster_options INTERFACE BOOST_ASIO_NO_DEPRECATED SPDLOG_FMT_EXTERNAL)
if(MUSTER_SANITIZE)
  add_compile_options(-fsanitize=${MUSTER_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${MUSTER_SANITIZE})
endif()

# Of the programs, not of the libraries: who links these chooses for himself. docs/decisions/0044-jemalloc.md
add_library(muster_allocator INTERFACE)
if(NOT MUSTER_SANITIZE)  # sanitizers have their own
  find_library(MUSTER_JEMALLOC jemalloc REQUIRED)
  target_link_libraries(muster_allocator INTERFACE ${MUSTER_JEMALLOC})
endif()

# What the headers of client/ read of others.
set(MUSTER_CLIENT_HEADERS <boost/asio/any_io_executor.hpp> <boost/asio/awaitable.hpp> <boost/asio/co_spawn.hpp>
  <boost/asio/steady_timer.hpp> <nlohmann/json.hpp> <random>)

# What the reconcilers and all who use them read of this project. Nearly every file of theirs reads all of it, so a change
# compiles them anew in any case.
set(MUSTER_RECONCILER_HEADERS ${MUSTER_CLIENT_HEADERS} <fmt/format.h> <muster/client/api.h> <muster/client/informer.h>
  <muster/crds/crds.h>)

# muster_precompile(<target> <header>…): these headers are compiled once for all files of the target. A header of this
# project belongs here only if nearly all files of the target read it: a change to it compiles the whole target anew.
function(muster_precompile target)
  if(MUSTER_PCH)
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <chrono> <cstdint> <functional> <map> <memory>
      <optional> <set> <string> <string_view> <utility> <vector> ${ARGN})
  endif()
endfunction()

# muster_library(<folder> SOURCES … PUBLIC … PRIVATE … [PRECOMPILE <header>…] [OPTIMIZE]): static library muster_<folder>, alias
# muster::<folder>, headers under <folder>/include. OPTIMIZE: also with sanitizers, whose presets do not optimise
# (that nearly halves their compile times), because it searches or recurses too much for that.
function(muster_library name)
  cmake_parse_arguments(A "OPTIMIZE" "" "SOURCES;PUBLIC;PRIVATE;PRECOMPILE" ${ARGN})
  add_library(muster_${name} STATIC ${A_SOURCES})
  add_library(muster::${name} ALIAS muster_${name})
  set_target_properties(muster_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(muster_${name}
    PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_compile_features(muster_${name} PUBLIC cxx_std_23)
  if(A_OPTIMIZE AND MUSTER_SANITIZE)
    target_compile_options(muster_${name} PRIVATE -O1)
  endif()
  target_link_libraries(muster_${name} PUBLIC ${A_PUBLIC} PRIVATE ${A_PRIVATE} $<BUILD_INTERFACE:muster_options>)
  muster_precompile(muster_${name} ${A_PRECOMPILE})
endfunction()

# Everything that is tested without a control plane, and what `make test` runs in the release preset: all but unit tests,
# which it runs with sanitizers.
add_custom_target(unit_tests)
add_custom_target(release_tests)

# A test is compiled more often than it runs, and most run for milliseconds: not to optimise its own code halves what
# it costs to compile. The libraries it tests are compiled as the preset says. With OPTIMIZE it computes much itself.
function(muster_test_compile_options name optimize)
  if(optimize)
    target_compile_options(${name} PRIVATE -O1)
  else()
    target_compile_options(${name} PRIVATE -O0)
  endif()
endfunction()

# muster_test(<name> SOURCES … LIBS … LABELS … [PRECOMPILE <header>…] [TIMEOUT …] [OPTIMIZE]): a GoogleTest program. Each
# of its tests is known to ctest; with AddressSanitizer the program is. The label says what it needs: unit, scenario,
# property (nothing), cluster, faults (a control plane).
function(muster_test name)
  cmake_parse_arguments(A "OPTIMIZE" "TIMEOUT" "SOURCES;LIBS;LABELS;PRECOMPILE" ${ARGN})
  if(NOT A_TIMEOUT)
    set(A_TIMEOUT 120)
  endif()
  if(MUSTER_SANITIZE)
    math(EXPR A_TIMEOUT "6 * ${A_TIMEOUT}")  # nothing is optimised, and everything is checked
  endif()
  find_package(GTest REQUIRED)
  include(GoogleTest)
  add_executable(${name} ${A_SOURCES})
  add_dependencies(unit_tests ${name})
  if(NOT A_LABELS STREQUAL unit)
    add_dependencies(release_tests ${name})
  endif()
  target_link_libraries(${name} PRIVATE ${A_LIBS} GTest::gmock GTest::gtest GTest::gtest_main muster_options)
  muster_test_compile_options(${name} ${A_OPTIMIZE})
  list(LENGTH A_SOURCES files)
  if(files GREATER 3)  # for fewer it does not pay
    muster_precompile(${name} <gmock/gmock.h> <gtest/gtest.h> ${A_PRECOMPILE})
  endif()
  if(MUSTER_SANITIZE MATCHES address)
    # One process for all of its tests: to start one takes longer than most of them.
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS "${A_LABELS}" TIMEOUT 1800)
  else()
    gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 DISCOVERY_MODE PRE_TEST
      PROPERTIES LABELS "${A_LABELS}" TIMEOUT ${A_TIMEOUT})
  endif()
endfunction()
