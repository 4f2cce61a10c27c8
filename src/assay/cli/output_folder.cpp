#include "assay/cli/output_folder.h"

#include "assay/base/format.h"
#include "assay/cli/console.h"
#include "assay/report/files.h"

namespace assay::cli {

void keep_earlier_run(const std::filesystem::path& folder, bool is_quiet) {
  const std::filesystem::path kept = report::keep_earlier_run(folder);
  if (!kept.empty() && !is_quiet)
    note(fmt::format("{} holds an earlier run, which is kept in {}", folder.string(), kept.string()));
}

}  // namespace assay::cli
