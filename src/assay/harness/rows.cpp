#include "assay/harness/rows.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/config/fields.h"
#include "assay/harness/journal.h"
#include "assay/machine/energy.h"
#include "assay/results/results_json.h"

namespace assay {

namespace {

double per(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

class RowBuilder {
 public:
  RowBuilder(const CaseResult& result, const ExperimentContext& context)
      : result_(result), context_(context), first_(result.samples.begin()->second) {}

  void add_values(Row& row) const {
    add_times(row);
    add_counts(row);
    add_memory(row);
    add_energy(row);
    add_roofline(row);
  }

  void add_warnings(Row& row) const {
    Disturbance all;
    GpuUse gpu;
    std::set<std::string> hashes;
    for (const auto& [place, sample] : result_.samples) {
      all += sample.disturbance;
      if (sample.gpu) gpu += *sample.gpu;
      hashes.insert(sample.ids_hash);
    }
    for (Warning& warning : warnings_of(all, static_cast<int>(allowed_processors().size())))
      row.warnings.push_back(std::move(warning));
    for (Warning& warning : warnings_of(gpu)) row.warnings.push_back(std::move(warning));
    if (gpu.highest_mhz > 0)
      row.parameters.emplace_back(
          "gpu_state", fmt::format("{:.0f} to {:.0f} MHz, {:.0f} W, up to {:.0f} C", gpu.lowest_mhz,
                                   gpu.highest_mhz, gpu.mean_watts, gpu.highest_celsius));
    if (all.highest_mhz > 0)
      row.parameters.emplace_back("frequency_mhz",
                                  fmt::format("{:.0f} to {:.0f}", all.lowest_mhz, all.highest_mhz));
    int repeats = 0;
    for (const auto& [place, sample] : result_.samples) repeats += sample.roofline_repeats > 0 ? 1 : 0;
    const std::size_t runs = result_.samples.size();
    if (repeats > 0)
      row.warnings.push_back({WarningKind::roofline_disturbed,
                              fmt::format("the roofline was disturbed{} and was measured again",
                                          runs == 1 ? "" : fmt::format(" in {} of {} runs", repeats, runs)),
                              repeats, 0});
    if (hashes.size() > 1)
      row.warnings.push_back({WarningKind::nondeterministic, "equal runs generated different token ids",
                              static_cast<double>(hashes.size()), 1});
    const std::vector<double> times = result_.each(&Sample::total_latency_s);
    if (const auto found = statistics::outliers(times); found.size() * 10 > times.size())
      row.warnings.push_back({WarningKind::outliers,
                              "more than a tenth of the runs are outliers, which are kept",
                              static_cast<double>(found.size()) / static_cast<double>(times.size()), 0.1});
    if (times.size() >= 2 * statistics::kMinForInterval) {
      const std::size_t half = times.size() / 2;
      const double early = statistics::median(std::span(times).first(half)),
                   late = statistics::median(std::span(times).last(half));
      constexpr double kDrift = 1.1;
      if (late > kDrift * early || early > kDrift * late)
        row.warnings.push_back(
            {WarningKind::drift,
             fmt::format("the second half of the runs was more than 10 % {} than the first",
                         late > early ? "slower" : "faster"),
             100 * (std::max(early, late) / std::min(early, late) - 1), 100 * (kDrift - 1)});
    }
    std::set<int> processes;
    for (const SampleId& place : result_.places()) processes.insert(place.process);
    if (const auto count = static_cast<int>(processes.size()); count < kMinProcesses)
      row.warnings.push_back(
          {WarningKind::too_few_runs,
           count == 1 ? fmt::format("{} in one process {} too few for a verdict",
                                    times.size() == 1 ? "1 run" : fmt::format("{} runs", times.size()),
                                    times.size() == 1 ? "is" : "are")
                      : fmt::format("{} processes are too few for an interval or a verdict", count),
           count, kMinProcesses});
  }

 private:
  template <typename Of>
  void set(Row& row, std::string_view tag, const Of& of) const {
    std::vector<double> values;
    for (const auto& [place, sample] : result_.samples) values.push_back(of(sample));
    row.set(tag, value_of_processes(std::move(values), result_.places()));
  }

  void add_times(Row& row) const {
    const auto new_tokens = [](const Sample& s) { return static_cast<double>(s.new_tokens); };
    set(row, "total_latency_s", [](const Sample& s) { return s.total_latency_s; });
    set(row, "tokens_per_sec", [&](const Sample& s) { return per(new_tokens(s), s.total_latency_s); });
    set(row, "avg_latency_per_token_ms",
        [&](const Sample& s) { return 1e3 * s.total_latency_s / new_tokens(s); });
    set(row, "time_to_first_token_s", [](const Sample& s) { return s.first_token_s; });
    set(row, "time_to_first_token_from_text_s",
        [](const Sample& s) { return s.first_tokenize_s + s.first_token_s; });
    set(row, "prefill_latency_s", [](const Sample& s) { return s.prefill_s; });
    set(row, "prefill_tokens_per_sec",
        [](const Sample& s) { return per(static_cast<double>(s.prompt_tokens), s.prefill_s); });
    if (!first_.step_s.empty()) {
      set(row, "decode_latency_s", [](const Sample& s) { return s.decode_s(); });
      set(row, "decode_tokens_per_sec", [&](const Sample& s) {
        return per(new_tokens(s) - static_cast<double>(s.sequences), s.decode_s());
      });
      set(row, "time_per_output_token_ms",
          [](const Sample& s) { return 1e3 * s.decode_s() / static_cast<double>(s.step_s.size()); });
      set(row, "step_latency_ms", [](const Sample& s) { return 1e3 * statistics::median(s.step_s); });
      add_percentile(row, "inter_token_p90_ms", 0.9);
      add_percentile(row, "inter_token_p95_ms", 0.95);
      add_percentile(row, "inter_token_p99_ms", 0.99);
      for (const auto& [place, sample] : result_.samples) row.step_s.push_back(sample.step_s);
    }
    set(row, "tokenize_s", [](const Sample& s) { return s.tokenize_s; });
    set(row, "sampling_s", [](const Sample& s) { return s.sampling_s; });
    set(row, "detokenize_s", [](const Sample& s) { return s.detokenize_s; });
    set(row, "end_to_end_s", [](const Sample& s) { return s.end_to_end_s; });
  }

  void add_percentile(Row& row, const char* tag, double p) const {
    if (statistics::supported_quantile(first_.step_s, p))
      set(row, tag, [p](const Sample& s) { return 1e3 * statistics::quantile(s.step_s, p); });
    else
      row.absent.emplace_back(
          tag, fmt::format("a run has {}, and this percentile needs {:.0f}",
                           first_.step_s.size() == 1 ? "1 decode step"
                                                     : fmt::format("{} decode steps", first_.step_s.size()),
                           std::ceil(1 / (1 - p) - 1e-9)));
  }

  void add_energy(Row& row) const {
    double joules = 0, tokens = 0;
    for (const auto& [place, sample] : result_.samples) {
      if (!sample.energy_j) {
        const std::string& why = sample.energy_why_not;
        row.absent.emplace_back("energy_per_token_j",
                                why.empty() ? "a run could not read the energy counters" : why);
        return;
      }
      joules += *sample.energy_j;
      tokens += static_cast<double>(sample.new_tokens);
    }
    row.set("energy_per_token_j", joules / tokens);
  }

  void add_counts(Row& row) const {
    row.set("tokens_generated", static_cast<double>(first_.new_tokens));
    row.set("prompt_tokens", static_cast<double>(first_.prompt_tokens));
    if (first_.sequences < 2) return;
    row.set("sequences", static_cast<double>(first_.sequences));
    const auto batches = static_cast<double>(first_.batches),
               sequences = static_cast<double>(first_.sequences);
    // One sequence's share of its batch's time, in the mean over batches.
    set(row, "tokens_per_sec_per_sequence", [&](const Sample& s) {
      return per(static_cast<double>(s.new_tokens) / sequences, s.total_latency_s / batches);
    });
  }

  void add_memory(Row& row) const {
    row.set("memory_bytes", static_cast<double>(result_.facts.model.memory_bytes));
    row.set("resident_weights_bytes", static_cast<double>(result_.facts.model.resident_weights_bytes));
    row.set("workspace_bytes", static_cast<double>(result_.facts.model.workspace_bytes));
    row.set("kv_cache_bytes", result_.first.kv_cache_bytes);
    row.set("measured_memory_bytes", result_.first.measured_memory_bytes);
    row.set("working_memory_bytes", static_cast<double>(result_.facts.model.resident_weights_bytes +
                                                        result_.facts.model.workspace_bytes) +
                                        result_.first.kv_cache_bytes);
    // 0: the system does not tell.
    if (result_.first.peak_rss_bytes > 0) row.set("peak_rss_bytes", result_.first.peak_rss_bytes);
    if (result_.first.current_rss_bytes > 0) row.set("current_rss_bytes", result_.first.current_rss_bytes);
    if (result_.first.device_used_bytes > 0) row.set("device_used_bytes", result_.first.device_used_bytes);
    row.set("load_s", result_.facts.model.load_s);
    if (result_.facts.model.head_computed_share)
      row.set("head_computed_percent", 100 * *result_.facts.model.head_computed_share);
    const CoverageFacts& coverage = result_.facts.model.coverage;
    if (coverage.quantized > 0) {
      row.set("quantized_weights_percent", 100 * coverage.weights_share);
      row.set("bits_per_weight", coverage.bits_per_weight);
      if (coverage.outlier_share) row.set("outlier_columns_percent", 100 * *coverage.outlier_share);
      if (coverage.saturation) row.set("saturation_percent", 100 * *coverage.saturation);
    }
    if (!context_.predicted_memory) return;
    const auto sequences =
        (first_.sequences + first_.batches - 1) / std::max<std::int64_t>(1, first_.batches);
    const std::int64_t depth = result_.spec.random_prompts ? result_.spec.random_prompts->depth : 0;
    const std::int64_t tokens = depth + first_.prompt_tokens / std::max<std::int64_t>(1, first_.sequences) +
                                result_.spec.new_tokens - 1;
    const Bytes predicted = context_.predicted_memory(result_.spec.configuration, sequences, tokens);
    if (predicted.value > 0) row.set("predicted_memory_bytes", static_cast<double>(predicted.value));
  }

  void add_roofline(Row& row) const {
    const auto all_tokens = static_cast<double>(first_.new_tokens);
    row.set("bytes_per_token", first_.bytes / all_tokens);
    row.set("flops_per_token", first_.flops / all_tokens);
    if (first_.roofline_s <= 0) return;
    set(row, "roofline_gb_s", [](const Sample& s) { return s.roofline_gb_s; });
    if (first_.round_trip_us > 0)
      set(row, "thread_round_trip_us", [](const Sample& s) { return s.round_trip_us; });
    if (first_.roofline_gflops > 0)
      set(row, "roofline_gflops", [](const Sample& s) { return s.roofline_gflops; });
    const double roofline = statistics::median(result_.each(&Sample::roofline_s)),
                 time = statistics::median(result_.each(&Sample::total_latency_s));
    row.set("roofline_latency_s", roofline);
    row.set("percent_of_roofline", 100 * roofline / time);
    row.set("achieved_gb_s", first_.bytes / time / 1e9);
    row.set("achieved_gflops", first_.flops / time / 1e9);
    row.parameters.emplace_back("bound",
                                2 * first_.memory_bound_s >= first_.roofline_s ? "memory" : "compute");
    add_gap(row);
    const std::optional<statistics::Interval> interval = row.find("total_latency_s")->interval;
    if (interval && 100 * roofline / interval->high > 103)
      row.warnings.push_back(roofline_warning(100 * roofline / interval->high));
  }

  void add_gap(Row& row) const {
    const CaseProfile::Part* worst = nullptr;
    double whole = 0;
    for (const CaseProfile::Part& part : result_.first.profile.parts) {
      const double gap = std::max(0.0, part.seconds - part.roofline_s);
      whole += gap;
      if (worst == nullptr || gap > worst->seconds - worst->roofline_s) worst = &part;
    }
    if (worst == nullptr || whole <= 0) return;
    row.parameters.emplace_back("largest_gap",
                                fmt::format("{} ({:.0f} % of the time above the roofline)", worst->phase,
                                            100 * std::max(0.0, worst->seconds - worst->roofline_s) / whole));
  }

  const CaseResult& result_;
  const ExperimentContext& context_;
  const Sample& first_;
};

}  // namespace

Setting setting_of(const RunConfig& config, const SessionFacts& facts) {
  Setting setting;
  setting.model = config.model.value_or("");
  if (config.precision) setting.precision = name_of(*config.precision);
  if (config.recipe) setting.precision = field("recipe").print(config).front();
  if (config.quantize_head) setting.lm_head = recipe_name_of(*config.quantize_head);
  if (config.recipe && config.recipe->lm_head && is_quantized(*config.recipe->lm_head))
    setting.lm_head = recipe_name_of(*config.recipe->lm_head);
  if (config.activations) setting.activations = *config.activations == Activations::int8 ? "int8" : "dtype";
  if (config.kv_cache) setting.kv_cache = name_of(*config.kv_cache);
  setting.device = facts.device;
  setting.kernels = facts.kernels;
  setting.threads = facts.threads;
  return setting;
}

Setting setting_of(const Case& spec, const SessionFacts& facts) {
  Setting setting = setting_of(spec.configuration, facts);
  setting.cache = spec.uses_cache;
  if (spec.sequences() > 1) {
    setting.batch_size = spec.batch_size == 0 ? spec.sequences() : spec.batch_size;
    setting.padding = name_of(spec.padding);
  }
  return setting;
}

Row row_of(const CaseResult& result, const ExperimentContext& context) {
  const Case& spec = result.spec;
  Row row;
  row.scenario = spec.scenario;
  row.label = spec.label;
  row.status = result.status;
  row.reason = result.reason;
  row.setting = setting_of(spec, result.facts);
  row.parameters = {
      {"configuration", spec.configuration.label()},
      {"precision", result.facts.model.dtype.empty() ? spec.configuration.label() : result.facts.model.dtype},
      {"device", result.facts.device},
      {"kernels", result.facts.kernels},
      {"threads", std::to_string(result.facts.threads)},
      {"max_new_tokens", std::to_string(spec.new_tokens)},
      {"cache", spec.uses_cache ? "on" : "off"}};
  if (spec.configuration.model) row.parameters.emplace_back("model", *spec.configuration.model);
  if (!result.facts.tuning.empty()) row.parameters.emplace_back("tuning", result.facts.tuning);
  if (spec.configuration.recipe)
    row.parameters.emplace_back("recipe", field("recipe").print(spec.configuration).front());
  if (row.setting.batch_size > 0) {
    row.parameters.emplace_back("batch_size", std::to_string(row.setting.batch_size));
    row.parameters.emplace_back("padding", name_of(spec.padding));
  }
  for (const auto& parameter : spec.parameters) row.parameters.push_back(parameter);
  row.warnings = result.facts.warnings;
  row.warnings.insert(row.warnings.end(), result.warnings.begin(), result.warnings.end());
  if (row.status != RowStatus::ok || result.samples.empty()) return row;
  row.places = result.places();
  const RowBuilder builder(result, context);
  builder.add_values(row);
  builder.add_warnings(row);
  return row;
}

std::optional<Comparison> compare_cases(const CaseResult& candidate, const CaseResult& baseline,
                                        const ExperimentContext& context) {
  if (candidate.status != RowStatus::ok || baseline.status != RowStatus::ok) return std::nullopt;
  const auto ratios = log_ratios(candidate, baseline, &Sample::total_latency_s);
  if (ratios.empty()) return std::nullopt;
  Comparison comparison = compare_processes(ratios, context.margin);
  comparison.scenario = candidate.spec.scenario;
  comparison.subject = candidate.spec.label;
  comparison.baseline = baseline.spec.label;
  comparison.metric = "total_latency_s";
  comparison.seconds_each = candidate.visit_s;
  return comparison;
}

std::vector<AuditRow> audit(const ExperimentContext& context, const std::vector<RunConfig>& configurations,
                            const std::vector<Prompt>& prompts, std::int64_t new_tokens) {
  std::vector<AuditRow> rows;
  const ShouldStop& should_stop = context.sweep.should_stop;
  for (const RunConfig& configuration : configurations) {
    const auto made = [&] {
      if (should_stop && should_stop()) throw Stopped("interrupted");
      if (context.sweep.on_progress)
        context.sweep.on_progress("audit: " + configuration.label(), 0, 1, std::nullopt);
      std::vector<AuditRow> own = context.sessions->of(configuration).audit(prompts, new_tokens);
      for (AuditRow& row : own) row.configuration = configuration.label();
      return own;
    };
    std::vector<AuditRow> own;
    const Attempt attempt = context.sessions->attempt(
        configuration,
        [&] {
          own = resumed(
              context.sweep.journal, "audit", configuration.key(), audit_rows_from_json,
              [](const std::vector<AuditRow>& all) { return to_json(all); }, made);
        },
        should_stop);
    if (attempt.end == Attempt::End::stopped) return rows;
    rows.insert(rows.end(), own.begin(), own.end());
  }
  return rows;
}

}  // namespace assay
