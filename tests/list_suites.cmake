# Writes OUTPUT, which tells ctest of each suite of PROGRAM.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." names "${list}")
if(NOT names)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()
set(text "")
foreach(name ${names})
  string(REGEX REPLACE "[\n.]" "" name "${name}")
  string(APPEND text "add_test(\"${name}\" \"${PROGRAM}\" \"--gtest_filter=${name}.*\" --gtest_brief=1)\n"
    "set_tests_properties(\"${name}\" PROPERTIES TIMEOUT ${TIMEOUT} ENVIRONMENT \"ASSAY_MODELS=${MODELS}\")\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
