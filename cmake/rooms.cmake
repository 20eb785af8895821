# rooms.cmake: rooms with walls.
#
# A room is a folder of sources. Its door is a folder of links to its headers that are not *_inside.h, and its include path
# holds the public headers and the doors of the rooms it may see, nothing else: an include that the table does not allow does
# not compile. A file names its own room's headers plainly ("csv.h") and those of another room with the room ("files/csv.h").

set(sosmc_doors "${PROJECT_BINARY_DIR}/doors")

# sosmc_room(NAME FOLDER SEES room...): declares a room and opens its door. Sets room_<NAME>_sources and room_<NAME>_includes.
function(sosmc_room name folder)
    cmake_parse_arguments(PARSE_ARGV 2 room "" "" "SEES")
    file(GLOB sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.c")
    file(GLOB headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.h")
    list(FILTER headers EXCLUDE REGEX "_inside\\.h$")
    file(REMOVE_RECURSE "${sosmc_doors}/${name}")
    file(MAKE_DIRECTORY "${sosmc_doors}/${name}/${name}")
    foreach(header IN LISTS headers)
        get_filename_component(file ${header} NAME)
        file(CREATE_LINK ${header} "${sosmc_doors}/${name}/${name}/${file}" SYMBOLIC)
    endforeach()
    # For the room's own tests: all headers, under the same names.
    file(GLOB all CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/${folder}/*.h")
    file(REMOVE_RECURSE "${sosmc_doors}-inside/${name}")
    file(MAKE_DIRECTORY "${sosmc_doors}-inside/${name}/${name}")
    foreach(header IN LISTS all)
        get_filename_component(file ${header} NAME)
        file(CREATE_LINK ${header} "${sosmc_doors}-inside/${name}/${name}/${file}" SYMBOLIC)
    endforeach()
    set(includes "${PROJECT_SOURCE_DIR}/include")
    foreach(seen IN LISTS room_SEES)
        list(APPEND includes "${sosmc_doors}/${seen}")
    endforeach()
    set(room_${name}_sources ${sources} PARENT_SCOPE)
    set(room_${name}_includes ${includes} PARENT_SCOPE)
    set_property(GLOBAL APPEND PROPERTY sosmc_rooms ${name})
    set_property(GLOBAL PROPERTY sosmc_room_folder_${name} ${folder})
    set_property(GLOBAL PROPERTY sosmc_room_sees_${name} "${room_SEES}")
endfunction()

# Puts every room in sight, for tests, benchmarks and fuzzers; of the rooms that follow, the inside too.
function(sosmc_sees_all target)
    get_property(rooms GLOBAL PROPERTY sosmc_rooms)
    foreach(room IN LISTS ARGN)
        target_include_directories(${target} PRIVATE "${sosmc_doors}-inside/${room}")
    endforeach()
    foreach(room IN LISTS rooms)
        target_include_directories(${target} PRIVATE "${sosmc_doors}/${room}")
    endforeach()
endfunction()

# The table of rooms as a file, for the test that tries every include which it does not allow.
function(sosmc_write_rooms file)
    get_property(rooms GLOBAL PROPERTY sosmc_rooms)
    set(text "")
    foreach(room IN LISTS rooms)
        get_property(folder GLOBAL PROPERTY sosmc_room_folder_${room})
        get_property(sees GLOBAL PROPERTY sosmc_room_sees_${room})
        string(REPLACE ";" " " sees "${sees}")
        string(APPEND text "${room} ${folder} ${sees}\n")
    endforeach()
    file(WRITE "${file}" "${text}")
endfunction()
