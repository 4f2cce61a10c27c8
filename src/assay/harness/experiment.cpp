#include "assay/harness/experiment.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/stored_quantization.h"

namespace assay {

namespace {

double per(double amount, double seconds) {
  return seconds > 0 ? amount / seconds : 0;
}

class RowBuilder {
 public:
  RowBuilder(const CaseResult& result, const ExperimentContext& experiment)
      : result_(result), experiment_(experiment), first_(result.samples.begin()->second) {}

  void add_values(Row& row) const {
    add_times(row);
    add_counts(row);
    add_memory(row);
    add_roof(row);
  }

  void add_warnings(Row& row) const {
    Disturbance all;
    std::set<std::string> hashes;
    for (const auto& [block, sample] : result_.samples) {
      all += sample.disturbance;
      hashes.insert(sample.ids_hash);
    }
    for (Warning& warning : warnings_of(all, experiment_processors()))
      row.warnings.push_back(std::move(warning));
    if (all.highest_mhz > 0)
      row.parameters.emplace_back("frequency_mhz",
                                  fmt::format("{:.0f} to {:.0f}", all.lowest_mhz, all.highest_mhz));
    if (hashes.size() > 1)
      row.warnings.push_back({WarningKind::nondeterministic, "equal runs generated different token ids"});
    const std::vector<double> times = result_.each(&Sample::total_latency_s);
    if (const auto found = outliers(times); found.size() * 10 > times.size())
      row.warnings.push_back(
          {WarningKind::outliers, "more than a tenth of the runs are outliers, which are kept"});
    if (times.size() >= 2 * kFewestForInterval) {
      const std::size_t half = times.size() / 2;
      const double early = median(std::span(times).first(half)), late = median(std::span(times).last(half));
      constexpr double kDrift = 1.1;
      if (late > kDrift * early || early > kDrift * late)
        row.warnings.push_back(
            {WarningKind::drift,
             fmt::format("the second half of the runs was more than 10 % {} than the first",
                         late > early ? "slower" : "faster")});
    }
    if (times.size() < kFewestForInterval)
      row.warnings.push_back(
          {WarningKind::too_few_runs, fmt::format("{} {} too few for an interval or a verdict", times.size(),
                                                  times.size() == 1 ? "run is" : "runs are")});
  }

 private:
  static int experiment_processors() { return static_cast<int>(allowed_processors().size()); }

  template <typename Of>
  void set(Row& row, std::string_view tag, const Of& of) const {
    std::vector<double> values;
    for (const auto& [block, sample] : result_.samples) values.push_back(of(sample));
    row.set(tag, value_of_repeats(std::move(values)));
  }

  void add_times(Row& row) const {
    const auto new_tokens = [](const Sample& s) { return static_cast<double>(s.new_tokens); };
    set(row, "total_latency_s", [](const Sample& s) { return s.total_latency_s; });
    set(row, "tokens_per_sec", [&](const Sample& s) { return per(new_tokens(s), s.total_latency_s); });
    set(row, "avg_latency_per_token_ms",
        [&](const Sample& s) { return 1e3 * s.total_latency_s / new_tokens(s); });
    set(row, "time_to_first_token_s", [](const Sample& s) { return s.first_token_s; });
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
      set(row, "step_latency_ms", [](const Sample& s) { return 1e3 * median(s.step_s); });
      if (supported_quantile(first_.step_s, 0.9))
        set(row, "inter_token_p90_ms", [](const Sample& s) { return 1e3 * quantile(s.step_s, 0.9); });
    }
    set(row, "tokenize_s", [](const Sample& s) { return s.tokenize_s; });
    set(row, "sampling_s", [](const Sample& s) { return s.sampling_s; });
    set(row, "detokenize_s", [](const Sample& s) { return s.detokenize_s; });
    set(row, "end_to_end_s", [](const Sample& s) { return s.end_to_end_s; });
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
    if (result_.facts.model.head_computed_share)
      row.set("head_computed_percent", 100 * *result_.facts.model.head_computed_share);
    const CoverageFacts& coverage = result_.facts.model.coverage;
    if (coverage.quantized > 0) {
      row.set("quantized_weights_percent", 100 * coverage.weights_share);
      row.set("bits_per_weight", coverage.bits_per_weight);
      if (coverage.outlier_share) row.set("outlier_columns_percent", 100 * *coverage.outlier_share);
      if (coverage.saturation) row.set("saturation_percent", 100 * *coverage.saturation);
    }
    if (!experiment_.predicted_memory) return;
    const auto sequences =
        (first_.sequences + first_.batches - 1) / std::max<std::int64_t>(1, first_.batches);
    const std::int64_t tokens =
        first_.prompt_tokens / std::max<std::int64_t>(1, first_.sequences) + result_.what.new_tokens - 1;
    const Bytes predicted = experiment_.predicted_memory(result_.what.configuration, sequences, tokens);
    if (predicted.value > 0) row.set("predicted_memory_bytes", static_cast<double>(predicted.value));
  }

  void add_roof(Row& row) const {
    const auto all_tokens = static_cast<double>(first_.new_tokens);
    row.set("bytes_per_token", first_.bytes / all_tokens);
    row.set("flops_per_token", first_.flops / all_tokens);
    if (first_.roof_s <= 0) return;
    set(row, "roof_gb_s", [](const Sample& s) { return s.roof_gb_s; });
    if (first_.roof_gflops > 0) set(row, "roof_gflops", [](const Sample& s) { return s.roof_gflops; });
    const double roof = median(result_.each(&Sample::roof_s)),
                 time = median(result_.each(&Sample::total_latency_s));
    row.set("roof_latency_s", roof);
    row.set("percent_of_roof", 100 * roof / time);
    row.set("achieved_gb_s", first_.bytes / time / 1e9);
    row.set("achieved_gflops", first_.flops / time / 1e9);
    row.parameters.emplace_back("bound", 2 * first_.memory_bound_s >= first_.roof_s ? "memory" : "compute");
    add_gap(row);
    const auto interval = repeated_median_interval(result_.each(&Sample::total_latency_s));
    if (interval && 100 * roof / interval->high > 103)
      row.warnings.push_back(roofline_warning(100 * roof / interval->high));
  }

  void add_gap(Row& row) const {
    const CaseProfile::Part* worst = nullptr;
    double whole = 0;
    for (const CaseProfile::Part& part : result_.first.profile.parts) {
      const double gap = std::max(0.0, part.seconds - part.roof_s);
      whole += gap;
      if (worst == nullptr || gap > worst->seconds - worst->roof_s) worst = &part;
    }
    if (worst == nullptr || whole <= 0) return;
    row.parameters.emplace_back("largest_gap",
                                fmt::format("{} ({:.0f} % of the time above the roofline)", worst->phase,
                                            100 * std::max(0.0, worst->seconds - worst->roof_s) / whole));
  }

  const CaseResult& result_;
  const ExperimentContext& experiment_;
  const Sample& first_;
};

}  // namespace

LocalExperiment::LocalExperiment(const LoadedModel& loaded, SweepOptions sweep) {
  ShouldStop should_stop = sweep.should_stop;
  experiment_.baseline.precision = loaded.model->precision().name;
  experiment_.common = experiment_.baseline;
  experiment_.tokenizer = loaded.tokenizer;
  experiment_.context = loaded.model->spec().context;
  experiment_.sweep = std::move(sweep);
  const Configuration own = experiment_.baseline;
  sessions_ = std::make_unique<Sessions>([loaded, should_stop, own](const Configuration& configuration) {
    if (!(configuration == own))
      throw Error("{}: expected the configuration of the loaded model ({})", configuration.label(),
                  own.label());
    return local_session(loaded, should_stop);
  });
  experiment_.sessions = sessions_.get();
}

LocalExperiment::LocalExperiment(std::vector<std::string> candidates, const Configuration& baseline,
                                 SweepOptions sweep) {
  ShouldStop should_stop = sweep.should_stop;
  experiment_.common = experiment_.baseline = baseline;
  experiment_.sweep = std::move(sweep);
  sessions_ = std::make_unique<Sessions>([candidates, should_stop](const Configuration& configuration) {
    const Bytes before = read_process_memory().anonymous;
    return local_session(
        load_model_and_tokenizer(candidates, configuration.precision, device_from_name(configuration.device),
                                 configuration.load_options()),
        should_stop, before);
  });
  experiment_.sessions = sessions_.get();
  const auto folder = first_candidate(candidates, [](const std::string& c) { return locate_model(c); });
  experiment_.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder));
  experiment_.context = sessions_->facts(baseline).context;
}

namespace {

// What a program takes beside weights, activations and cache: code, tokenizer, stacks.
constexpr std::int64_t kProcess = std::int64_t{40} << 20;

// By the plan of each configuration, laid out as its backend would.
class MemoryPredictor {
 public:
  MemoryPredictor(std::shared_ptr<const ModelFolder> folder, ModelSpec spec)
      : folder_(std::move(folder)), spec_(std::move(spec)) {}

  Bytes operator()(const Configuration& configuration, std::int64_t sequences, std::int64_t tokens) {
    Known& known = known_[configuration.label()];
    if (known.backend == nullptr) {
      LoadOptions options = configuration.load_options();
      options.backend.pins_caller = false;
      const Device device = device_from_name(configuration.device);
      known.backend = make_backend(device, options.backend);
      known.plan = plan_forward(spec_, precision_of(*folder_, spec_, folder_->path().string(),
                                                    configuration.precision, device, options)
                                           .precision);
    }
    const PredictedMemory memory = known.backend->predict(known.plan, tokens);
    return {(memory.program.weights + memory.program.packing + memory.program.workspace).value +
            sequences * memory.kv_cache.value};
  }

 private:
  struct Known {
    std::shared_ptr<Backend> backend;
    Plan plan;
  };
  std::shared_ptr<const ModelFolder> folder_;
  ModelSpec spec_;
  std::map<std::string, Known> known_;
};

}  // namespace

WorkerExperiment::WorkerExperiment(const WorkerExperimentOptions& options) {
  folder_ = first_candidate(options.candidates, [&](const std::string& candidate) {
    auto folder = std::make_shared<const ModelFolder>(locate_model(candidate));
    id_ = candidate;
    return folder;
  });
  const ModelSpec spec = spec_from_folder(*folder_);
  experiment_.context = spec.context;
  experiment_.common = options.common;
  experiment_.baseline = options.baseline;
  experiment_.sweep = options.sweep;
  const auto stored = stored_precision(*folder_, spec);
  experiment_.is_quantized_already = stored.has_value();
  if (options.baseline.precision == kAutoPrecision && !stored) experiment_.baseline.precision = "float32";
  experiment_.tokenizer = std::make_shared<const Tokenizer>(Tokenizer::load(folder_->path()));
  auto predictor = std::make_shared<MemoryPredictor>(folder_, spec);
  experiment_.predicted_memory = [predictor](const Configuration& configuration, std::int64_t sequences,
                                             std::int64_t tokens) {
    return (*predictor)(configuration, sequences, tokens);
  };
  WorkerOptions worker{.program = options.program,
                       .candidates = options.candidates,
                       .configuration = {},
                       .needs_tokenizer = true,
                       .memory_limit = options.worker_memory_limit,
                       .time_limit = options.case_time_limit,
                       .should_stop = options.sweep.should_stop};
  const auto make = [worker](const Configuration& configuration) {
    WorkerOptions own = worker;
    own.configuration = configuration;
    return worker_session(own);
  };
  // Eight full sequences, a probe as large as the weights.
  const std::int64_t context = spec.context;
  const auto memory_of = [predictor, context](const Configuration& configuration) {
    try {
      return Bytes{(*predictor)(configuration, 8, context).value + (*predictor)(configuration, 0, 1).value +
                   kProcess};
    } catch (const Error&) {
      return Bytes{};  // loading will say why
    }
  };
  Bytes budget = options.memory_budget;
  if (budget.value == 0) budget = {available_memory().value / 10 * 9};
  sessions_ = std::make_unique<Sessions>(make, memory_of, budget);
  experiment_.sessions = sessions_.get();
}

void ExperimentResult::add(ExperimentResult other) {
  const auto move = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  move(other.rows, rows);
  move(other.comparisons, comparisons);
  move(other.audit, audit);
  move(other.texts, texts);
  move(other.remarks, remarks);
  is_interrupted = is_interrupted || other.is_interrupted;
}

const Row* ExperimentResult::find(const std::string& label) const {
  for (const Row& row : rows)
    if (row.label == label && row.status == RowStatus::ok) return &row;
  return nullptr;
}

Row row_of(const CaseResult& result, const ExperimentContext& experiment) {
  const Case& what = result.what;
  Row row;
  row.scenario = what.scenario;
  row.label = what.label;
  row.status = result.status;
  row.reason = result.reason;
  row.parameters = {
      {"configuration", what.configuration.label()},
      {"precision", result.facts.model.dtype.empty() ? what.configuration.label() : result.facts.model.dtype},
      {"device", result.facts.device},
      {"kernels", result.facts.kernels},
      {"threads", std::to_string(result.facts.threads)},
      {"max_new_tokens", std::to_string(what.new_tokens)},
      {"cache", what.uses_cache ? "on" : "off"}};
  if (what.prompts.size() > 1) {
    const auto all = static_cast<std::int64_t>(what.prompts.size());
    row.parameters.emplace_back("batch_size", std::to_string(what.batch_size == 0 ? all : what.batch_size));
    row.parameters.emplace_back("padding", name_of(what.padding));
  }
  for (const auto& parameter : what.parameters) row.parameters.push_back(parameter);
  row.warnings = result.facts.warnings;
  row.warnings.insert(row.warnings.end(), result.warnings.begin(), result.warnings.end());
  if (row.status != RowStatus::ok || result.samples.empty()) return row;
  const RowBuilder builder(result, experiment);
  builder.add_values(row);
  builder.add_warnings(row);
  return row;
}

std::optional<Comparison> compare_cases(const CaseResult& candidate, const CaseResult& baseline,
                                        const ExperimentContext& experiment, int comparisons) {
  if (candidate.status != RowStatus::ok || baseline.status != RowStatus::ok) return std::nullopt;
  const auto [own, other] = paired(candidate, baseline, &Sample::total_latency_s);
  if (own.empty()) return std::nullopt;
  double margin = experiment.margin;
  if (experiment.noise)
    margin = std::max(margin, smallest_difference(*experiment.noise, static_cast<int>(own.size())));
  Comparison comparison = compare_paired(own, other, {.margin = margin, .comparisons = comparisons});
  comparison.subject = candidate.what.label;
  comparison.baseline = baseline.what.label;
  comparison.metric = "total_latency_s";
  set_sentence(comparison);
  return comparison;
}

Case baseline_case(const ExperimentContext& experiment, Scenario scenario, std::string label,
                   std::vector<Prompt> prompts, std::int64_t new_tokens) {
  Case what;
  what.scenario = scenario;
  what.label = std::move(label);
  what.configuration = experiment.baseline;
  what.prompts = std::move(prompts);
  what.new_tokens = new_tokens;
  return what;
}

void fit_context(const ExperimentContext& experiment, Case& what) {
  const std::int64_t room = experiment.context - what.new_tokens;
  for (const Prompt& prompt : what.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const std::size_t tokens =
        text != nullptr ? encode(experiment, *text).size() : std::get<std::vector<TokenId>>(prompt).size();
    if (static_cast<std::int64_t>(tokens) <= room) continue;
    what.truncation = Truncation::left;
    what.warnings.push_back(
        {WarningKind::prompt_truncated,
         fmt::format("a prompt of {} tokens was cut on the left, because it and {} new tokens exceed the "
                     "context of {}",
                     tokens, what.new_tokens, experiment.context)});
    return;
  }
}

std::string shown(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return fmt::format("ids {}", fmt::join(std::get<std::vector<TokenId>>(prompt), " "));
}

std::vector<TokenId> ids_of_length(const ExperimentContext& experiment, const std::string& text,
                                   std::int64_t length) {
  const std::vector<TokenId> base = encode(experiment, text);
  if (base.empty())
    throw Error("the text that is repeated to the prompt length gives no tokens: expected one at least");
  std::vector<TokenId> ids;
  while (static_cast<std::int64_t>(ids.size()) < length) ids.insert(ids.end(), base.begin(), base.end());
  ids.resize(static_cast<std::size_t>(length));
  return ids;
}

std::vector<TokenId> encode(const ExperimentContext& experiment, const std::string& text) {
  if (experiment.tokenizer == nullptr)
    throw Error("the model's folder has no tokenizer: expected one, because the prompt is text");
  check_utf8(text, "prompt");
  return experiment.tokenizer->encode(text);
}

std::vector<AuditRow> audit(const ExperimentContext& experiment,
                            const std::vector<Configuration>& configurations,
                            const std::vector<Prompt>& prompts, std::int64_t new_tokens) {
  std::vector<AuditRow> rows;
  Journal* journal = experiment.sweep.journal;
  for (const Configuration& configuration : configurations) {
    const std::string key = configuration.label();
    if (journal != nullptr) {
      std::optional<std::vector<AuditRow>> known;
      journal->read_each("audit", key, [&](const auto& data) {
        known.emplace();
        for (const JsonReader& row : data.items()) known->push_back(audit_row_from_json(row));
      });
      if (known) {
        rows.insert(rows.end(), known->begin(), known->end());
        continue;
      }
    }
    if (experiment.sweep.should_stop && experiment.sweep.should_stop()) return rows;
    if (experiment.sweep.on_progress) experiment.sweep.on_progress("audit: " + key, 0, 1, -1);
    try {
      std::vector<AuditRow> own = experiment.sessions->of(configuration).audit(prompts, new_tokens);
      nlohmann::ordered_json data = nlohmann::ordered_json::array();
      for (AuditRow& row : own) {
        row.configuration = key;
        data.push_back(to_json(row));
        rows.push_back(row);
      }
      if (journal != nullptr) journal->append("audit", key, data);
    } catch (const WorkerLost& lost) {
      experiment.sessions->drop(configuration);
      if (lost.cause() == WorkerLost::Cause::stopped) return rows;
    } catch (const JournalError&) {
      throw;
    } catch (const Error&) {
      if (experiment.sweep.should_stop && experiment.sweep.should_stop()) return rows;
    }
  }
  return rows;
}

}  // namespace assay
