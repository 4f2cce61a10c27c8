#include "support/paths.h"

const std::string& source_folder() {
  static const std::string path = ASSAY_SOURCE_DIR;
  return path;
}

const std::string& program_path() {
  static const std::string path = ASSAY_PROGRAM;
  return path;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
const bool kIsSanitized = true;
#else
const bool kIsSanitized = false;
#endif
