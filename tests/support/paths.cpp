#include "support/paths.h"

const std::string& source_folder() {
  static const std::string path = ASSAY_SOURCE_DIR;
  return path;
}

const std::string& program_path() {
  static const std::string path = ASSAY_PROGRAM;
  return path;
}
