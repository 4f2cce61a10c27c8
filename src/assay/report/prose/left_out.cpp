// What a budget of time left out, as sentences.
#include "assay/base/format.h"
#include "assay/report/prose/prose.h"

namespace assay::report {

std::vector<std::string> sentences_of(std::span<const LeftOut> left_out) {
  std::vector<std::string> all;
  for (const LeftOut& one : left_out) {
    std::string text = fmt::format("Left out of {}: {}", one.study, one.what);
    if (!one.reason.empty()) text += fmt::format(", because {}", one.reason);
    if (!one.command.empty())
      text += fmt::format("; measured in about {} by: {}", shown_duration(one.predicted_s), one.command);
    else
      text += ".";
    all.push_back(std::move(text));
  }
  return all;
}

}  // namespace assay::report
