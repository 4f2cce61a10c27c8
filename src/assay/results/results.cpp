#include "assay/results/results.h"

#include "assay/results/metric.h"

namespace assay {

void Row::set(std::string_view tag, Value value) {
  metric(tag);  // refuses a tag that is not in the catalogue
  for (auto& [name, old] : values)
    if (name == tag) {
      old = std::move(value);
      return;
    }
  values.emplace_back(std::string(tag), std::move(value));
}

const Value* Row::find(std::string_view tag) const {
  for (const auto& [name, value] : values)
    if (name == tag) return &value;
  return nullptr;
}

const std::string& Row::parameter(std::string_view key) const {
  static const std::string none;
  for (const auto& [name, value] : parameters)
    if (name == key) return value;
  return none;
}

Value value_of_repeats(std::vector<double> in_time_order) {
  Value value;
  value.interval = repeated_median_interval(in_time_order);
  value.statistic = value.interval ? "median" : "mean";
  value.value = value.interval ? median(in_time_order) : mean(in_time_order);
  value.samples = std::move(in_time_order);
  return value;
}

}  // namespace assay
