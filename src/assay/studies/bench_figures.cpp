#include "assay/studies/bench_figures.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "assay/harness/roofline.h"
#include "assay/statistics/statistics.h"

namespace assay {

namespace {

constexpr double kGiga = 1e9;

// What a generation is made of, and a test is not.
constexpr std::string_view kOfGenerations[] = {"avg_latency_per_token_ms",
                                               "time_to_first_token_s",
                                               "time_to_first_token_from_text_s",
                                               "prefill_latency_s",
                                               "prefill_tokens_per_sec",
                                               "decode_latency_s",
                                               "decode_tokens_per_sec",
                                               "time_per_output_token_ms",
                                               "tokens_generated",
                                               "prompt_tokens",
                                               "tokenize_s",
                                               "sampling_s",
                                               "detokenize_s",
                                               "end_to_end_s",
                                               "sequences",
                                               "tokens_per_sec_per_sequence"};

std::int64_t whole_parameter(const Row& row, std::string_view key) {
  const std::string& text = row.parameter(key);
  std::int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

double value_or_0(const Row& row, std::string_view tag) {
  const Value* value = row.find(tag);
  return value == nullptr ? 0 : value->value;
}

std::vector<double> samples_or_0(const Row& row, std::string_view tag, double scale) {
  const Value* value = row.find(tag);
  if (value == nullptr || value->samples.empty()) return {0};
  std::vector<double> scaled;
  for (const double sample : value->samples) scaled.push_back(scale * sample);
  return scaled;
}

Cost cost_of_run(const Row& row, const BenchCase& spec) {
  const auto tokens = static_cast<double>(spec.tokens());
  Cost cost;
  cost.weight_bytes = {std::llround(tokens * value_or_0(row, "bytes_per_token"))};
  cost.flops = {tokens * value_or_0(row, "flops_per_token")};
  return cost;
}

bool is_of_too_high_a_share(const Warning& warning) {
  return warning.kind == WarningKind::roofline_disturbed && warning.limit == roofline_warning(0).limit;
}

}  // namespace

void set_speed(BenchRow& row, const Cost& cost) {
  const double bytes = static_cast<double>((cost.weight_bytes + cost.kv_bytes).value);
  const auto tokens = static_cast<double>(row.spec.tokens());
  row.median_s = statistics::median(row.samples_s);
  if (row.samples_s.size() > 1)
    row.spread = (statistics::quantile(row.samples_s, 0.75) - statistics::quantile(row.samples_s, 0.25)) /
                 row.median_s;
  row.tokens_per_sec = tokens / row.median_s;
  row.bytes_per_token = bytes / tokens;
  row.flops_per_token = cost.flops.value / tokens;
  row.achieved_gb_s = bytes / row.median_s / kGiga;
  row.achieved_gflops = cost.flops.value / row.median_s / kGiga;
}

void set_roofline(BenchRow& row, const Cost& cost, std::span<const double> reading,
                  std::span<const double> computing) {
  const Roofline::Peaks peaks{statistics::median(reading), statistics::median(computing)};
  if (peaks.bytes_per_second <= 0) return;
  row.roofline_gb_s = peaks.bytes_per_second / kGiga;
  row.roofline_gflops = peaks.operations_per_second / kGiga;
  const double allowed = peaks.seconds(cost);
  row.bound = peaks.is_memory_bound(cost) ? "memory" : "compute";
  row.percent_of_roofline = 100 * allowed / row.median_s;
  // Beyond what the probes' own noise explains: such a roofline is none.
  constexpr double kSurelyAbove = 103;
  if (const double lowest = 100 * allowed / statistics::median_interval(row.samples_s).second;
      lowest > kSurelyAbove)
    row.warnings.push_back(roofline_warning(lowest));
}

BenchRow figures_of(const Row& row) {
  BenchRow figures;
  figures.spec = {.prompt_tokens = whole_parameter(row, "prompt_tokens"),
                  .new_tokens = whole_parameter(row, "new_tokens"),
                  .depth = whole_parameter(row, "depth"),
                  .batch = whole_parameter(row, "batch")};
  figures.test = figures.spec.name();
  figures.precision = row.parameter("precision");
  figures.device = row.parameter("device");
  figures.kernels = figures.isa = row.parameter("kernels");
  figures.tuning = row.parameter("tuning");
  figures.threads = static_cast<int>(whole_parameter(row, "threads"));
  figures.weight_bytes = whole_parameter(row, "weight_bytes");
  figures.status = row.status;
  figures.reason = row.reason;
  const Value* latency = row.find("total_latency_s");
  if (row.status != RowStatus::ok || latency == nullptr || latency->samples.empty()) return figures;
  figures.samples_s = latency->samples;
  const Cost cost = cost_of_run(row, figures.spec);
  set_speed(figures, cost);
  set_roofline(figures, cost, samples_or_0(row, "roofline_gb_s", kGiga),
               samples_or_0(row, "roofline_gflops", kGiga));
  return figures;
}

void set_figures(Row& row, const BenchRow& figures) {
  std::erase_if(row.values, [](const auto& entry) {
    return std::find(std::begin(kOfGenerations), std::end(kOfGenerations), entry.first) !=
           std::end(kOfGenerations);
  });
  std::vector<double> rates;
  for (const double seconds : figures.samples_s)
    rates.push_back(static_cast<double>(figures.spec.tokens()) / seconds);
  row.set("tokens_per_sec", Value{.value = figures.tokens_per_sec,
                                  .interval = {},
                                  .samples = std::move(rates),
                                  .statistic = "median",
                                  .processes = row.processes()});
  row.set("achieved_gb_s", figures.achieved_gb_s);
  row.set("achieved_gflops", figures.achieved_gflops);
  if (!figures.bound.empty()) {
    row.set("percent_of_roofline", figures.percent_of_roofline);
    row.set("roofline_latency_s", figures.percent_of_roofline / 100 * figures.median_s);
    std::erase_if(row.parameters, [](const auto& parameter) { return parameter.first == "bound"; });
    row.parameters.emplace_back("bound", figures.bound);
  }
  std::erase_if(row.warnings, [](const Warning& warning) {
    return warning.kind == WarningKind::too_few_runs || is_of_too_high_a_share(warning);
  });
  row.warnings.insert(row.warnings.end(), figures.warnings.begin(), figures.warnings.end());
}

std::vector<BenchRow> bench_rows(std::span<const Row> rows, const ModelFacts& model) {
  std::vector<BenchRow> all;
  for (const Row& row : rows) {
    if (row.scenario != Scenario::bench) continue;
    BenchRow& figures = all.emplace_back(figures_of(row));
    figures.model = model.id;
    figures.parameters = model.parameters;
    if (const std::string& own = row.parameter("model"); !own.empty()) {  // one of several
      figures.model = own;
      figures.parameters = std::atoll(row.parameter("model_parameters").c_str());
    }
    figures.warnings = row.warnings;
  }
  return all;
}

}  // namespace assay
