// What a run found out: rows of values with their samples, doubts and status, apart from how they are shown.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/measure/machine.h"

namespace assay {

struct Interval {
  double low = 0, high = 0, level = 0.95;
};

struct Value {
  double value = 0;  // the mean of the samples where there are several
  std::optional<Interval> interval;
  std::vector<double> samples;  // raw; empty for a figure that is counted, not sampled
};

struct Row {
  std::string scenario;  // "baseline"
  std::string label;     // "prompt 1"
  std::vector<std::pair<std::string, std::string>>
      parameters;                                     // precision, cache, kernels, ...: what was run
  std::vector<std::pair<std::string, Value>> values;  // by metric tag
  std::vector<std::string> doubts;
  std::string status = "ok";  // or "error"
  std::string reason;         // of an error

  void set(std::string_view tag, Value value);
  void set(std::string_view tag, double value) { set(tag, Value{value, {}, {}}); }
  const Value* find(std::string_view tag) const;
};

// A text a model wrote, kept beside the figures.
struct GeneratedText {
  std::string label, prompt, text;
  std::vector<int> prompt_ids, ids;
};

// What a quantized precision quantized, and what it left.
struct CoverageFacts {
  struct Tensor {
    std::string name, format, reason;  // why it was left; empty where it was not
  };
  std::vector<Tensor> tensors;  // empty: nothing is quantized
  std::int64_t quantized = 0;   // tensors
  double weights_share = 0;     // of all elements, that are in quantized tensors
  double bytes_share = 0;       // of all bytes
  double bits_per_weight = 0;   // over the whole model, scales included
  // Of static inputs: the share of the calibration's values that lie outside the codes.
  std::optional<double> saturation;
  // Of llm-int8: the share of input columns that were apart as outliers, over all products of the run.
  std::optional<double> outlier_share;
};

// The model that was measured.
struct ModelFacts {
  std::string id, path, family, sha256;
  std::string dtype;  // the label of what really ran
  std::int64_t parameters = 0, memory_bytes = 0, resident_weights_bytes = 0, workspace_bytes = 0;
  double load_s = 0;
  CoverageFacts coverage;
};

struct ResultSet {
  static constexpr int kSchemaVersion = 1;
  std::string created, command, status = "complete";  // or "interrupted"
  Build build;
  Machine machine;
  ModelFacts model;
  std::vector<Row> rows;
  std::vector<GeneratedText> texts;
  std::vector<std::string> takeaways;
  std::string caption;  // what the table shows and how it was measured
};

nlohmann::ordered_json to_json(const ResultSet& results);
// Throws Error (`where` names the file) for another schema version or a document that is not a result.
ResultSet results_from_json(const nlohmann::ordered_json& json, const std::string& where);

}  // namespace assay
