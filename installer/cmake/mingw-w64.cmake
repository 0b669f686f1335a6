# Cross-compiling for 64-bit Windows with mingw-w64. Libraries come from the cache that installer/deps/build-windows-deps.sh
# fills; programs that run during the build (protoc-c, python3) are this machine's.
set(CMAKE_SYSTEM_NAME Windows)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER x86_64-w64-mingw32-gcc)
set(CMAKE_RC_COMPILER x86_64-w64-mingw32-windres)

if(DEFINED ENV{EA_DEPS_CACHE})
  set(EA_WINDOWS_DEPS $ENV{EA_DEPS_CACHE})
else()
  set(EA_WINDOWS_DEPS $ENV{HOME}/.cache/etwagent/windows-x64)
endif()
if(NOT EXISTS ${EA_WINDOWS_DEPS}/stamp)
  message(FATAL_ERROR "No Windows libraries in ${EA_WINDOWS_DEPS}: run installer/deps/build-windows-deps.sh")
endif()

set(CMAKE_FIND_ROOT_PATH ${EA_WINDOWS_DEPS} /usr/x86_64-w64-mingw32)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(ENV{PKG_CONFIG_LIBDIR} ${EA_WINDOWS_DEPS}/lib/pkgconfig)
set(ENV{PKG_CONFIG_PATH} "")

# One file that imports nothing but Windows' own DLLs, the same bytes for the same source.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-static -Wl,--no-insert-timestamp -Wl,--dynamicbase -Wl,--nxcompat -Wl,--high-entropy-va")

# EA_PDB: clang and lld in place of gcc and ld, which write no PDB. The preset windows-pdb has it.
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES EA_PDB)
if(EA_PDB)
  execute_process(COMMAND ${CMAKE_C_COMPILER} -print-libgcc-file-name OUTPUT_VARIABLE libgcc OUTPUT_STRIP_TRAILING_WHITESPACE)
  get_filename_component(libgcc ${libgcc} DIRECTORY) # of libssp, too; clang does not look there by itself
  set(CMAKE_C_COMPILER clang)
  set(CMAKE_C_COMPILER_TARGET x86_64-w64-mingw32)
  set(CMAKE_C_FLAGS_INIT "-g -gcodeview")
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -fuse-ld=lld -L${libgcc} -Wl,--pdb=")
endif()
