# Writes OUTPUT, which tells ctest of each suite of PROGRAM.
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE list COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." names "${list}")
if(NOT names)
  message(FATAL_ERROR "${PROGRAM} lists no tests")
endif()

# Those that take longest start first, so that none is left to run alone at the end.
set(longest All/BlockFormats Mix CudaGraphProfile Formats/CudaGroupedModel HeldDivergence CudaTunedPrograms CudaStepPrograms
  Isas/GeneratorTest OfFamilies/FamilyModel OfFamilies/CudaModel Cases/CudaPrecision Precisions/NonFiniteModel SharedDemoModel CliSweep CliStreams CliCalibration
  RunQuantizationExercise KvCache Calibrate Isas/AttentionKernelTest Isas/NonFiniteKernelTest Isas/KernelTest
  CliRunReport CliBench CliBadOutput Outliers CliQuantize Cases/Int8Folder CheckpointLimits TokenizerLoad
  TokenizerVariants Levels/EqualConfigurations)
set(text "")
foreach(name ${names})
  string(REGEX REPLACE "[\n.]" "" name "${name}")
  set(cost 0)
  list(FIND longest "${name}" place)
  if(NOT place EQUAL -1)
    math(EXPR cost "100 - ${place}")
  endif()
  # What runs the program or a whole model from end to end on good input, of which other suites run each part, or repeats
  # a simulation.
  set(labels "")
  if(name MATCHES "^Cli" AND NOT name MATCHES "^Cli(Bad|NonFinite|FullDisk|HubCache)" OR
      name MATCHES "^(RunQuantizationExercise|AblateCacheAndPadding|ProbeEdgePrompts|MeasureBatched|Noise/|Levels/|PairedShift|Cases/CudaLibraryModel|Cases/CudaPrecision|CudaLibrary$|Cases/Int8Folder|Precisions/NonFiniteModel|DemoModel$|Outliers$|StaticPtq$|All/Longrope$|TokenizerVariants$|OfFamilies/CudaModel$|OfFamilies/FamilyModel$|CudaSteps$|CudaGraphProfile$|CudaTunedPrograms$|CudaStepPrograms$|Formats/CudaGroupedModel$|Generator$|Tuning$|Mix$)")
    set(labels "LABELS end_to_end")
  endif()
  string(APPEND text "add_test(\"${name}\" \"${PROGRAM}\" \"--gtest_filter=${name}.*\" --gtest_brief=1)\n"
    "set_tests_properties(\"${name}\" PROPERTIES COST ${cost} TIMEOUT ${TIMEOUT} ${labels} "
    "ENVIRONMENT \"ASSAY_MODELS=${MODELS};XDG_CACHE_HOME=${CACHE}\")\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
