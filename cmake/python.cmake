# python.cmake: the extension module sosmc._c, for Python 3.11 and later with one file (the stable ABI).

# AUTO: without what it needs it is left out, and the reason told.
function(sosmc_no_python why)
    if(NOT SOSMC_BUILD_PYTHON STREQUAL "AUTO")
        message(FATAL_ERROR "sosmc: the Python package needs ${why}")
    endif()
    message(STATUS "sosmc: the Python package needs ${why}; building without it")
    set(build_python OFF PARENT_SCOPE)
endfunction()

if(NOT build_program)
    sosmc_no_python("the run files of the program (see SOSMC_BUILD_PROGRAM)")
    return()
endif()
find_package(Python3 3.11 QUIET COMPONENTS Interpreter Development.Module)
if(NOT Python3_FOUND)
    sosmc_no_python("Python 3.11 or later with its headers: apt-get install python3-dev")
    return()
endif()
set(python_wants cffi)
if(SOSMC_BUILD_PYTHON STREQUAL "AUTO") # for the tests
    set(python_wants "cffi, numpy, pytest")
endif()
execute_process(COMMAND "${Python3_EXECUTABLE}" -c "import ${python_wants}" RESULT_VARIABLE python_lacks OUTPUT_QUIET ERROR_QUIET)
if(python_lacks)
    sosmc_no_python("the packages ${python_wants} in ${Python3_EXECUTABLE}")
    return()
endif()

set(python_c "${PROJECT_BINARY_DIR}/python/_c.c")
set(python_folders "${PROJECT_SOURCE_DIR}/python" ${room_python_includes})
file(GLOB python_headers CONFIGURE_DEPENDS include/sosmc/*.h python/*.h program/embed/*.h)
add_custom_command(OUTPUT "${python_c}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${PROJECT_BINARY_DIR}/python"
    COMMAND "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/python/cffi_build.py" "${CMAKE_C_COMPILER}" "${python_c}" ${python_folders}
    DEPENDS python/cffi_build.py ${python_headers}
    COMMENT "Writing the source of sosmc._c from the headers"
    VERBATIM)

add_library(sosmc_python MODULE "${python_c}" python/binding.c)
set_target_properties(sosmc_python PROPERTIES PREFIX "" OUTPUT_NAME _c SUFFIX ".abi3.so" C_STANDARD 11 C_EXTENSIONS ON
    C_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/python/sosmc")
set_source_files_properties(python/binding.c PROPERTIES COMPILE_OPTIONS "${sosmc_flags}")
target_include_directories(sosmc_python PRIVATE ${python_folders})
target_include_directories(sosmc_python SYSTEM PRIVATE ${Python3_INCLUDE_DIRS})
target_compile_definitions(sosmc_python PRIVATE Py_LIMITED_API=0x030B0000)
target_link_libraries(sosmc_python PRIVATE sosmc_embed)
# The module shows its one function to Python, and nothing of the libraries in it to anybody.
if(NOT APPLE)
    target_link_options(sosmc_python PRIVATE -Wl,--exclude-libs,ALL)
endif()

if(SKBUILD)
    install(TARGETS sosmc_python LIBRARY DESTINATION sosmc COMPONENT python)
    install(TARGETS sosmc_program sosmc_paper RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT python)
else()
    # `PYTHONPATH=build/python python` imports the package from the source tree.
    file(GLOB python_files CONFIGURE_DEPENDS python/sosmc/*.py python/sosmc/*.pyi python/sosmc/py.typed)
    file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/python/sosmc")
    foreach(file IN LISTS python_files)
        get_filename_component(name "${file}" NAME)
        file(CREATE_LINK "${file}" "${PROJECT_BINARY_DIR}/python/sosmc/${name}" SYMBOLIC)
    endforeach()
endif()
