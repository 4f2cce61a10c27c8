#include "assay/quantize/target.h"

#include <system_error>

#include "assay/base/error.h"

namespace assay {

namespace fs = std::filesystem;

void check_folder_target(const fs::path& out, const ModelSource& source, bool replaces) {
  std::error_code code;
  if (out.empty()) throw UsageError("OUT: expected the name of a new folder, found an empty one");
  if (!fs::exists(out, code)) return;
  if (fs::equivalent(out, source.path(), code))
    throw UsageError("{}: the target is the model itself: expected another folder", out.string());
  if (!replaces)
    throw Error("{} exists already: expected a new name, or --force to replace a model there", out.string());
  if (fs::is_directory(out, code) && !fs::is_empty(out, code) && !fs::exists(out / "config.json", code))
    throw Error("{}: --force replaces model folders, and this one has no config.json", out.string());
}

}  // namespace assay
