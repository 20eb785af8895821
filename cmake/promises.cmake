# promises.cmake: builds that would break what the library promises are refused, and release builds are hardened.
#
# The same bits everywhere need IEEE arithmetic as it is written: no -ffast-math or part of it, and doubles that are computed as
# doubles, which the x87 does not. Whoever sets such flags, in CFLAGS, in CC or in a CMake variable, gets a sentence.

string(TOUPPER "${CMAKE_BUILD_TYPE}" build_type)
set(given_flags "${CMAKE_C_COMPILER_ARG1} ${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${build_type}}")
get_directory_property(given_options COMPILE_OPTIONS)
foreach(flag IN ITEMS -ffast-math -Ofast -funsafe-math-optimizations -fassociative-math -freciprocal-math -ffinite-math-only
        -fno-signed-zeros -fsingle-precision-constant -fcx-limited-range -mfpmath=387 -mfpmath=both -mno-sse2)
    if(" ${given_flags} ${given_options} " MATCHES "[ ;]${flag}[ ;]")
        message(FATAL_ERROR "sosmc: the flags contain ${flag}, which changes the arithmetic: a run would no longer have the same bits "
            "everywhere, and its tests for values that are not finite might not work. Remove it; models of your own may be compiled "
            "with it.")
    endif()
endforeach()

# What the compiler itself says, whichever way it was told. Asked anew every time, because the flags may have changed.
separate_arguments(type_flags UNIX_COMMAND "${CMAKE_C_FLAGS_${build_type}}")
unset(SOSMC_ARITHMETIC_IS_IEEE CACHE)
try_compile(SOSMC_ARITHMETIC_IS_IEEE "${PROJECT_BINARY_DIR}/CMakeFiles/ieee" SOURCES "${CMAKE_CURRENT_LIST_DIR}/ieee.c"
    COMPILE_DEFINITIONS ${type_flags})
if(NOT SOSMC_ARITHMETIC_IS_IEEE)
    message(FATAL_ERROR "sosmc: this compiler with these flags does not compute doubles as IEEE doubles (cmake/ieee.c does not "
        "compile): it uses the x87, whose results depend on registers, or takes liberties like those of -ffast-math. The same bits "
        "everywhere are not possible then. On 32-bit x86 add -msse2 -mfpmath=sse.")
endif()

# A release build, also one of a distribution, is position independent, has canaries on the stack, calls that know the sizes of their
# buffers, tables that are read-only once the program has started, stacks that grow page by page, checked jumps, and local variables
# that are zero until they are set: each where the compiler knows it, and does it right (test `builds`).
set(sosmc_hardened OFF)
if(top_level AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$" AND NOT SOSMC_SANITIZE AND NOT SOSMC_COVERAGE)
    set(sosmc_hardened ON)
    include(CheckPIESupported)
    check_pie_supported(LANGUAGES C)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    add_compile_options(-fstack-protector-strong)
    include(CheckCCompilerFlag)
    foreach(flag IN ITEMS -fstack-clash-protection -fcf-protection)
        string(MAKE_C_IDENTIFIER "SOSMC_COMPILER_HAS${flag}" known)
        check_c_compiler_flag(${flag} ${known})
        if(${known})
            add_compile_options(${flag})
        endif()
    endforeach()
    # gcc 12 knows this flag and damages variables with it, so a program is run that would notice.
    if(NOT CMAKE_CROSSCOMPILING)
        file(READ "${CMAKE_CURRENT_LIST_DIR}/zeroed.c" zeroed)
        set(CMAKE_REQUIRED_FLAGS -ftrivial-auto-var-init=zero)
        include(CheckCSourceRuns)
        check_c_source_runs("${zeroed}" SOSMC_ZEROED_VARIABLES_ARE_RIGHT)
        unset(CMAKE_REQUIRED_FLAGS)
        if(SOSMC_ZEROED_VARIABLES_ARE_RIGHT)
            add_compile_options(-ftrivial-auto-var-init=zero)
        endif()
    endif()
    # Level 3 needs a compiler that follows sizes through variables, and headers that use it; others warn and fall back to 2.
    set(CMAKE_REQUIRED_FLAGS "-O2 -Werror -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3")
    check_c_source_compiles("#include <string.h>
        #if !defined __USE_FORTIFY_LEVEL || __USE_FORTIFY_LEVEL < 3
        #error no third level
        #endif
        int main(void) { return 0; }" SOSMC_HAS_FORTIFY_3)
    unset(CMAKE_REQUIRED_FLAGS)
    if(SOSMC_HAS_FORTIFY_3)
        add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3)
    else()
        add_compile_options(-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
    endif()
    if(CMAKE_SYSTEM_NAME STREQUAL "Linux")
        add_link_options(-Wl,-z,relro -Wl,-z,now)
    endif()
endif()
