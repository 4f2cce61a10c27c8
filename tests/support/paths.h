// Where the tests find the repository and the program.
#pragma once

#include <string>

// Defined in paths.cpp, the one file that the build tells them to.
const std::string& source_folder();
const std::string& program_path();

// Under a sanitizer everything takes several times as long, and memory of its own. Of the libraries: tests
// may be compiled without one (ASSAY_TEST_OBJECTS).
extern const bool kIsSanitized;
