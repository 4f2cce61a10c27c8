// Where the tests find the repository and the program.
#pragma once

#include <string>

// Defined in paths.cpp, the one file that the build tells them to.
const std::string& source_folder();
const std::string& program_path();

// Under a sanitizer everything takes several times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif
