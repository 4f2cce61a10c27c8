// The results of a run: rows of values with samples, warnings and status, however they are shown.
#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/machine/machine.h"
#include "assay/results/choice.h"
#include "assay/results/finding.h"
#include "assay/results/limits.h"
#include "assay/results/scenario.h"
#include "assay/results/setting.h"
#include "assay/results/status.h"
#include "assay/results/task_answers.h"
#include "assay/results/verdict.h"
#include "assay/results/warning.h"
#include "assay/statistics/statistics.h"

namespace assay {

// Where a sample comes from: the process, counted from 0 over the run of its case, and the round in it.
struct SampleId {
  int process = 0, round = 0;
  auto operator<=>(const SampleId&) const = default;
};

struct Value {
  double value = 0;  // a summary of the samples where there are several: as `statistic` says
  std::optional<statistics::Interval> interval;
  std::vector<double> samples;  // raw, in time order; empty for a figure that is counted, not sampled
  // "mean", "median" of the samples; "mean of medians" (value_of_processes); empty for a counted figure.
  std::string statistic = {};
  int processes = 0;  // that the samples come from; 0: not known, or not sampled

  std::optional<double> low() const { return interval ? std::optional(interval->low) : std::nullopt; }
  std::optional<double> high() const { return interval ? std::optional(interval->high) : std::nullopt; }
  std::int64_t n() const { return samples.empty() ? 1 : static_cast<std::int64_t>(samples.size()); }
};
// The value of repeats in one process: six or more give their median and its interval, fewer their mean.
Value value_of_repeats(std::vector<double> in_time_order);
// That of repeats in several: the mean of the processes' medians, geometric where all are above 0, and from
// three processes on its interval by Student's t. Of one process as above.
Value value_of_processes(std::vector<double> samples, std::span<const SampleId> places);

// The losses of a text by blocks of neighbouring tokens, which runs that scored the same tokens compare.
struct LossBlocks {
  static constexpr std::int64_t kTokens = 16;  // in a block; a divisor of statistics::kLossBlock
  std::int64_t tokens = 0;                     // scored; the last block may have fewer than kTokens
  std::vector<double> sums;                    // nats, in text order
};
LossBlocks loss_blocks(std::span<const double> losses);  // one for every scored token, in text order

struct Row {
  Scenario scenario = Scenario::baseline;
  std::string label;                                            // "prompt 1"
  std::vector<std::pair<std::string, std::string>> parameters;  // precision, cache, ...: what was run
  std::vector<std::pair<std::string, Value>> values;            // by metric tag
  std::vector<SampleId> places = {};  // where the samples of every sampled value were taken; empty: not known
  std::vector<Warning> warnings;
  RowStatus status = RowStatus::ok;
  std::string reason;  // why it failed
  // Every decode step of every run, as `places` has them; empty where nothing was decoded.
  std::vector<std::vector<double>> step_s = {};
  std::optional<LossBlocks> losses = {};                         // those of a text that was scored
  std::optional<TaskAnswers> answers = {};                       // those of a task
  std::vector<std::pair<std::string, std::string>> absent = {};  // metrics without a value, and why
  Setting setting = {};                                          // the same as the parameters, as values

  void set(std::string_view tag, Value value);
  void set(std::string_view tag, double value) { set(tag, Value{value, {}, {}}); }
  const Value* find(std::string_view tag) const;
  const std::string& parameter(std::string_view key) const;  // empty where there is none
  int processes() const;  // how many the samples come from; 1 where the row does not tell
};

// A text a model wrote, kept beside the figures.
struct GeneratedText {
  std::string label, prompt, text;
  std::vector<int> prompt_ids, ids;
  Scenario scenario = Scenario::baseline;
  std::string generated_by = {};  // the label of the row whose configuration generated it
};

// What a quantized precision quantized, and what it left.
struct CoverageFacts {
  struct Tensor {
    std::string name, format, reason;  // why it was left; empty where it was not
  };
  std::vector<Tensor> tensors;  // empty: nothing is quantized
  std::int64_t quantized = 0;   // tensors
  double weights_share = 0;     // how many of all elements are in quantized tensors
  double bytes_share = 0;       // how many of all bytes are
  double bits_per_weight = 0;   // over the whole model, scales included
  // Of calibrated activations: the share of the calibration's values that lie outside the codes.
  std::optional<double> saturation;
  // With llm-int8, the share of activation columns that were decomposed as outliers, over the whole run.
  std::optional<double> outlier_share;
};

// The model that was measured.
struct ModelFacts {
  std::string id, path, family, sha256;
  std::string dtype;  // the label of what really ran
  std::int64_t parameters = 0, memory_bytes = 0, resident_weights_bytes = 0, workspace_bytes = 0;
  // With int8 candidate search of the LM head, the share of its outputs that were computed exactly.
  std::optional<double> head_computed_share = {};
  double load_s = 0;
  CoverageFacts coverage;
};

// A model that was measured beside it; its rows name it (Setting::model).
struct OtherModel {
  std::string name, sha256;
  bool operator==(const OtherModel&) const = default;
};

// Two settings whose results must be equal: cache on and off, padded and not, alone and batched.
struct AuditRow {
  std::string configuration, what;  // "float32", "cache off"
  bool has_equal_ids = true, has_equal_logits = true;
  double largest_difference = 0;  // between logits, before ids part
  double tolerance = 0;           // 0: equal to the bit is what the design promises
  AuditVerdict verdict = AuditVerdict::equal;
  std::string first_divergence;  // "sequence 1, new token 3: id 12 against 7, logits 1.25 against 1.5"
  bool has_failed() const { return verdict == AuditVerdict::differs; }
};

// What a study found out.
struct ExperimentResult {
  std::vector<Row> rows;
  std::vector<Comparison> comparisons;
  // Tests behind sentences: the best against the others, one length against the one before.
  std::vector<Comparison> other_comparisons;
  std::vector<AuditRow> audit;
  std::vector<GeneratedText> texts;
  std::vector<Finding> findings;
  std::optional<NoiseEstimate> noise;  // that an A/A run found
  std::vector<LeftOut> left_out = {};  // for want of time
  bool is_interrupted = false;

  void add(ExperimentResult other);
  // Compares the best row of each scenario with the others, judges all comparisons by family, and gives rows
  // their ratios to the baseline. Once, at the end; `has_planning`: as Planning::estimated (judge.h).
  void judge_all(double margin, bool has_planning = true);
  // The comparison of rows of this scenario, in either list; null where they were not compared.
  const Comparison* comparison(Scenario scenario, std::string_view subject, std::string_view baseline,
                               std::string_view metric = "total_latency_s") const;
  // The finished row of a label, or null.
  const Row* find(const std::string& label) const;
};

struct ResultSet {
  static constexpr int kSchemaVersion = 2;  // 1 is read too
  std::string created, command;
  std::string run_id;  // tells a run from every other: 16 hexadecimal digits; empty in earlier files
  // Two runs whose processes took turns (studies/interleave.h) share it; processes of one number are paired.
  std::string interleave_id = {};
  // Every setting in force, defaults included: ("seed", "1"), ("threads", "2").
  std::vector<std::pair<std::string, std::string>> configuration;
  RunStatus status = RunStatus::complete;
  Build build;
  Machine machine;
  ModelFacts model;
  std::vector<OtherModel> other_models = {};
  std::vector<Row> rows;
  std::vector<GeneratedText> texts;
  std::vector<Comparison> comparisons, other_comparisons;  // as in ExperimentResult
  std::vector<AuditRow> audit;
  std::optional<NoiseEstimate> noise;  // that the A/A run at the start found
  std::vector<Finding> findings;       // trends, fits, what to use
  std::string caption;                 // how it was measured
  std::optional<Choice> choice = {};   // where there was a budget of time
  std::vector<LeftOut> left_out = {};
  std::optional<Limits> limits = {};  // what the user needs: limited_choice.h answers

  // Appends what a study found out.
  void add(ExperimentResult found);
};

// By process: the logarithms of subject / baseline, of samples that were taken in the same rounds. Empty
// where a row has no samples of the metric, or does not say where they come from.
std::vector<std::vector<double>> paired_log_ratios(const Row& subject, const Row& baseline,
                                                   std::string_view metric);

// The comparison of two rows whose samples were taken in the same rounds; not judged yet. Empty where a row
// has no samples of the metric, or does not say where they come from.
std::optional<Comparison> compare_rows(const Row& subject, const Row& baseline, std::string_view metric,
                                       double margin);

// The rows of a scenario that nothing was shown to beat: the best first, then those that its tests do not
// tell from it. Empty where there are not two rows, or they were not compared.
std::vector<const Row*> best_rows(const std::vector<Row>& rows, const std::vector<Comparison>& comparisons,
                                  Scenario scenario);

}  // namespace assay
