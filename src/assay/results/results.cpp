#include "assay/results/results.h"

#include <algorithm>
#include <iterator>
#include <set>

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

int Row::processes() const {
  std::set<int> all;
  for (const SamplePlace& place : places) all.insert(place.process);
  return std::max(1, static_cast<int>(all.size()));
}

LossBlocks loss_blocks(std::span<const double> losses) {
  LossBlocks blocks;
  blocks.tokens = static_cast<std::int64_t>(losses.size());
  constexpr auto kTokens = static_cast<std::size_t>(LossBlocks::kTokens);
  for (std::size_t i = 0; i < losses.size(); i += kTokens) {
    double sum = 0;
    for (const double loss : losses.subspan(i, std::min(kTokens, losses.size() - i))) sum += loss;
    blocks.sums.push_back(sum);
  }
  return blocks;
}

Value value_of_repeats(std::vector<double> in_time_order) {
  Value value;
  value.interval = statistics::repeated_median_interval(in_time_order);
  value.statistic = value.interval ? "median" : "mean";
  value.value = value.interval ? statistics::median(in_time_order) : statistics::mean(in_time_order);
  value.samples = std::move(in_time_order);
  return value;
}

namespace {

template <typename T>
void append(std::vector<T>& to, std::vector<T>& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

// Of a result set or an experiment's result, which hold the same lists.
template <typename Results>
void append_lists(Results& to, ExperimentResult& from) {
  append(to.rows, from.rows);
  append(to.comparisons, from.comparisons);
  append(to.audit, from.audit);
  append(to.texts, from.texts);
  append(to.remarks, from.remarks);
  if (from.noise) to.noise = from.noise;
}

}  // namespace

void ExperimentResult::add(ExperimentResult other) {
  append_lists(*this, other);
  is_interrupted = is_interrupted || other.is_interrupted;
}

const Row* ExperimentResult::find(const std::string& label) const {
  for (const Row& row : rows)
    if (row.label == label && row.status == RowStatus::ok) return &row;
  return nullptr;
}

void ResultSet::add(ExperimentResult found) {
  append_lists(*this, found);
  if (found.is_interrupted) status = RunStatus::interrupted;
}

}  // namespace assay
