// Results as OpenMetrics text, for Prometheus and what reads the same.
#include <cmath>
#include <set>

#include "assay/base/format.h"
#include "assay/report/formats.h"
#include "assay/report/table.h"

namespace assay::report {

namespace {

constexpr std::size_t kLongestLabelValue = 200;

// What a unit of ours becomes: the end of the tag, what stands there instead, and the factor. Families whose
// name then ends in a unit say so.
struct BaseUnit {
  std::string_view unit, tag_end, name_end;
  double factor;
  std::string_view base;  // empty: the format has no word for it
};
constexpr BaseUnit kBaseUnits[] = {
    {"s", "_s", "_seconds", 1, "seconds"},
    {"ms", "_ms", "_seconds", 1e-3, "seconds"},
    {"us", "_us", "_seconds", 1e-6, "seconds"},
    {"B", "_bytes", "_bytes", 1, "bytes"},
    {"J", "_j", "_joules", 1, "joules"},
    {"%", "_percent", "_ratio", 1e-2, "ratio"},
    {"GB/s", "_gb_s", "_bytes_per_second", 1e9, ""},
    {"GFLOP/s", "_gflops", "_flops_per_second", 1e9, ""},
    {"tokens/s", "_per_sec", "_per_second", 1, ""},
};

struct MetricFamily {
  std::string stem, end;  // "assay_total_latency", "_seconds"
  double factor = 1;
  std::string_view base;
};

MetricFamily metric_family_of(const Metric& m) {
  for (const BaseUnit& unit : kBaseUnits)
    if (m.unit == unit.unit && m.tag.ends_with(unit.tag_end))
      return {fmt::format("assay_{}", m.tag.substr(0, m.tag.size() - unit.tag_end.size())),
              std::string(unit.name_end), unit.factor, unit.base};
  return {fmt::format("assay_{}", m.tag), "", 1, ""};
}

// Backslashes, quotes and line ends, in label values and in HELP.
std::string openmetrics_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"')
      out += std::string("\\") + c;
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string openmetrics_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

using LabelSet = std::vector<std::pair<std::string_view, std::string>>;
std::string label_text(const LabelSet& labels) {
  std::string text;
  for (const auto& [name, value] : labels)
    if (!value.empty())
      text += fmt::format("{}{}=\"{}\"", text.empty() ? "" : ",", name,
                          openmetrics_escaped(one_line(value, kLongestLabelValue)));
  return "{" + text + "}";
}

std::string labels_of(const ResultSet& results, const Row& row) {
  const std::string& model = row.setting.model;
  return label_text({{"model", model.empty() ? results.model.id : model},
                     {"scenario", std::string(name_of(row.scenario))},
                     {"case", row.label},
                     {"configuration", row.parameter("configuration")}});
}

// A family of samples; a set of labels stands in it once.
class SampleFamily {
 public:
  SampleFamily(std::string name, std::string_view base, std::string help)
      : name_(std::move(name)), base_(base), help_(std::move(help)) {}

  void add(const std::string& labels, double value) {
    if (seen_.insert(labels).second)
      samples_ += fmt::format("{}{} {}\n", name_, labels, openmetrics_number(value));
  }
  std::string text() const {
    if (samples_.empty()) return "";
    std::string text = fmt::format("# TYPE {} gauge\n", name_);
    if (!base_.empty()) text += fmt::format("# UNIT {} {}\n", name_, base_);
    return text + fmt::format("# HELP {} {}\n", name_, openmetrics_escaped(help_)) + samples_;
  }

 private:
  std::string name_;
  std::string_view base_;
  std::string help_, samples_;
  std::set<std::string> seen_;
};

std::string run_info(const ResultSet& results) {
  return "# TYPE assay_run info\n# HELP assay_run What was run, and where.\nassay_run_info" +
         label_text({{"run_id", results.run_id},
                     {"created", results.created},
                     {"version", results.build.version},
                     {"model", results.model.id},
                     {"model_sha256", results.model.sha256},
                     {"cpu", results.machine.cpu},
                     {"status", std::string(name_of(results.status))}}) +
         " 1\n";
}

}  // namespace

std::string to_openmetrics(const ResultSet& results) {
  std::string text = run_info(results);
  SampleFamily failed("assay_case_failed", "", "1 where the case failed, 0 where it was measured.");
  for (const Row& row : results.rows)
    failed.add(labels_of(results, row), row.status == RowStatus::ok ? 0 : 1);
  text += failed.text();
  for (const Metric& m : metric_catalogue()) {
    const MetricFamily own = metric_family_of(m);
    SampleFamily value(own.stem + own.end, own.base, std::string(m.definition));
    SampleFamily low(own.stem + "_ci_low" + own.end, own.base, "Lower end of the 95 % interval.");
    SampleFamily high(own.stem + "_ci_high" + own.end, own.base, "Upper end of the 95 % interval.");
    for (const Row& row : results.rows) {
      const Value* found = row.find(m.tag);
      if (found == nullptr) continue;
      const std::string labels = labels_of(results, row);
      value.add(labels, own.factor * found->value);
      if (!found->interval) continue;
      low.add(labels, own.factor * found->interval->low);
      high.add(labels, own.factor * found->interval->high);
    }
    text += value.text() + low.text() + high.text();
  }
  return text + "# EOF\n";
}

}  // namespace assay::report
