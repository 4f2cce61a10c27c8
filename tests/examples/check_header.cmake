# Compiles a file that includes assay/assay.h alone with COMPILER, and fails where a header of another library or one
# that is internal comes with it.
file(MAKE_DIRECTORY ${FOLDER})
file(WRITE ${FOLDER}/alone.cpp "#include \"assay/assay.h\"\nint main() { return 0; }\n")
execute_process(COMMAND ${COMPILER} -std=c++20 -Wall -Wextra -Werror -fsyntax-only -MD -MF ${FOLDER}/alone.d
  -I${SOURCES} ${FOLDER}/alone.cpp ERROR_VARIABLE errors RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "assay/assay.h does not compile alone:\n${errors}")
endif()
file(READ ${FOLDER}/alone.d closure)
if(NOT closure MATCHES "assay/assay[.]h" OR NOT closure MATCHES "assay/session/load[.]h")
  message(FATAL_ERROR "expected the headers that assay/assay.h includes, found\n${closure}")
endif()
foreach(forbidden "/nlohmann/" "/fmt/" "/CLI/" "assay/backend/" "assay/plan/" "assay/model/" "assay/checkpoint/"
    "assay/base/json" "assay/base/error[.]h" "assay/base/format[.]h" "assay/harness/journal" "assay/harness/sweep[.]h"
    "assay/harness/worker" "assay/harness/session" "assay/harness/case" "assay/studies/study[.]h" "_json[.]h")
  string(REGEX MATCH "[^ \n]*${forbidden}[^ \n]*" found "${closure}")
  if(found)
    message(FATAL_ERROR "assay/assay.h must not include ${found}")
  endif()
endforeach()
