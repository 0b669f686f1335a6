# How every part is built: static libraries, one set of warnings. tests/lint_includes.py enforces the include rules.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

option(EA_BUILD_TESTS "build the tests" ON)
option(EA_BUILD_FUZZERS "build libFuzzer targets (clang)" OFF)
set(EA_FUZZING_ENGINE "-fsanitize=fuzzer" CACHE STRING "what a libFuzzer target is linked with")
option(EA_WERROR "warnings are errors" ON)
option(EA_ASSERTIONS "EA_ASSERT and ea_mutex_assert_held check invariants" OFF)
option(EA_PDB "on Windows: a PDB beside each program; when cross-compiling, clang builds them" OFF)
set(EA_SANITIZE "" CACHE STRING "sanitizers, as in -fsanitize=")

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE})
endif()

if(MSVC)
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "cl.exe lacks 128-bit integers and vectors: use Visual Studio's clang-cl (-T ClangCL)")
  endif()
  # an enumeration without negative values is an int in Microsoft's ABI, and unsigned in all others
  add_compile_options(/W4 /utf-8 -Wthread-safety -Wno-gcc-compat -Wno-sign-compare)
  # Microsoft's library calls C's own functions deprecated; libyaml's header wants to know that it is a static library
  add_compile_definitions(_CRT_SECURE_NO_WARNINGS _CRT_NONSTDC_NO_WARNINGS YAML_DECLARE_STATIC)
  # vcpkg's; FindPkgConfig would take a pkg-config that the path has first, such as Perl's
  find_program(PKG_CONFIG_EXECUTABLE NAMES pkgconf)
  # Windows' own DLLs alone are imported (proto/base/CMakeLists.txt: /DEPENDENTLOADFLAG finds no other)
  set(CMAKE_MSVC_RUNTIME_LIBRARY "MultiThreaded$<$<CONFIG:Debug>:Debug>")
  # clang calls functions of its own library to divide integers of 128 bits, and links that library on no Microsoft target
  get_filename_component(EA_CLANG "${CMAKE_C_COMPILER}" DIRECTORY)
  file(GLOB EA_CLANG_BUILTINS "${EA_CLANG}/../lib/clang/*/lib/windows/clang_rt.builtins-x86_64.lib"
       "${EA_CLANG}/../lib/clang/*/lib/x86_64-pc-windows-msvc/clang_rt.builtins.lib")
  if(NOT EA_CLANG_BUILTINS)
    message(FATAL_ERROR "${CMAKE_C_COMPILER} has no clang_rt.builtins library, which divides integers of 128 bits")
  endif()
  list(GET EA_CLANG_BUILTINS -1 EA_CLANG_BUILTINS)
  link_libraries("${EA_CLANG_BUILTINS}")
  if(EA_PDB)
    add_compile_options(/Z7)
    add_link_options(/DEBUG /OPT:REF /OPT:ICF)
  endif()
  if(EA_WERROR)
    add_compile_options(/WX)
  endif()
else()
  add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith -Wcast-qual
                      -Wwrite-strings -Wvla -Wundef -Wformat=2 -fno-strict-aliasing -fno-common)
  if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
    add_compile_options(-Wthread-safety -Wno-gcc-compat) # gcc has no attributes at a definition (proto/base/thread_safety.h)
  endif()
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-format-truncation) # a message that does not fit is cut on purpose: snprintf bounds it
  endif()
  if(EA_WERROR)
    add_compile_options(-Werror)
  endif()
endif()
if(NOT MSVC AND NOT EA_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^Rel")
  add_compile_options(-fstack-protector-strong)
  if(WIN32)
    add_link_options(-fstack-protector-strong) # brings libssp
  else()
    add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    add_link_options(-Wl,-z,relro -Wl,-z,now)
  endif()
endif()
if(NOT MSVC AND CMAKE_BUILD_TYPE STREQUAL "Release") # a release's bytes do not depend on the folder it was built in
  add_compile_options(-ffile-prefix-map=${CMAKE_SOURCE_DIR}/= -ffile-prefix-map=${CMAKE_BINARY_DIR}/=build/)
endif()
if(WIN32)
  add_compile_definitions(_WIN32_WINNT=0x0A00 WINVER=0x0A00 WIN32_LEAN_AND_MEAN UNICODE _UNICODE __USE_MINGW_ANSI_STDIO=1)
else()
  add_compile_definitions(_GNU_SOURCE)
endif()
if(MINGW)
# at the end of every link, so that static OpenSSL finds what it needs of Windows; what nothing uses is not imported
  string(APPEND CMAKE_C_STANDARD_LIBRARIES " -lws2_32 -lcrypt32 -lbcrypt -lgdi32 -luser32 -ladvapi32")
endif()
if(MINGW)
  # bcrypt.dll and crypt32.dll are no KnownDLLs: Windows looks for them beside the program first. So they are imported at their
  # first use, from System32 (proto/base/delay_windows.c), by import libraries that are found before the tool chain's own of
  # the same names, also where OpenSSL's and curl's archives ask for them.
  set(EA_LATE_IMPORTS ${CMAKE_BINARY_DIR}/late)
  file(MAKE_DIRECTORY ${EA_LATE_IMPORTS}/lib)
  set(gcc ${CMAKE_C_COMPILER})
  if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set(gcc x86_64-w64-mingw32-gcc) # clang does not know the folder
  endif()
  foreach(name bcrypt crypt32)
    execute_process(COMMAND ${gcc} -print-file-name=lib${name}.a OUTPUT_VARIABLE archive OUTPUT_STRIP_TRAILING_WHITESPACE
                    COMMAND_ERROR_IS_FATAL ANY)
    execute_process(COMMAND ${CMAKE_NM} ${archive} OUTPUT_VARIABLE symbols ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "__imp_[A-Za-z0-9_]+" functions "${symbols}")
    list(REMOVE_DUPLICATES functions)
    list(TRANSFORM functions REPLACE "__imp_" "")
    list(JOIN functions "\n" functions)
    file(WRITE ${EA_LATE_IMPORTS}/${name}.def "LIBRARY ${name}.dll\nEXPORTS\n${functions}\n")
    execute_process(COMMAND ${CMAKE_DLLTOOL} -d ${EA_LATE_IMPORTS}/${name}.def --output-delaylib ${EA_LATE_IMPORTS}/lib/lib${name}.a
                    COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
  list(PREPEND CMAKE_FIND_ROOT_PATH ${EA_LATE_IMPORTS})
endif()
if(EA_ASSERTIONS)
  add_compile_definitions(EA_ASSERTIONS)
endif()
if(EA_BUILD_FUZZERS)
  add_compile_options(-fsanitize=fuzzer-no-link) # the libraries' coverage leads the fuzzer
endif()
if(EA_SANITIZE)
  add_compile_options(-fsanitize=${EA_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${EA_SANITIZE})
endif()

# Includes are paths from the repository's root; a generated header is at the same place below the build folder.
include_directories(${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})

# ea_library(name SOURCES a.c ... [EXPORTS lib ...] [NEEDS lib ...]): a folder's library. EXPORTS: libraries whose headers its
# own headers include; NEEDS: those that only its C files use. tests/lint_includes.py refuses an include of any other library.
function(ea_library name)
  cmake_parse_arguments(L "" "" "SOURCES;EXPORTS;NEEDS" ${ARGN})
  add_library(${name} STATIC ${L_SOURCES})
  target_link_libraries(${name} PUBLIC ${L_EXPORTS} PRIVATE ${L_NEEDS})
endfunction()
