// Collects the buffers, weights and operations of a plan. The blocks (model/blocks/) write with it; precision
// and calibration decide here alone what becomes of a weight.
#pragma once

#include <string>
#include <vector>

#include "assay/model/spec.h"
#include "assay/quant/calibration.h"

namespace assay {

// A linear module of the checkpoint.
struct Module {
  std::string name = {};  // "h.3.attn.c_proj"
  std::int64_t outputs = 0;
  bool has_bias = false;
  // For a fused projection whose rows are in another order (WeightSpec).
  std::int64_t run_rows = 0;
  std::vector<std::int64_t> run_outputs = {};
};

// What becomes of a linear module's result, and of its input.
struct LinearUse {
  Activation activation = Activation::none;
  bool adds = false;             // out += instead of out =
  bool is_input_shared = false;  // other operations read `in` as well
};

class PlanWriter {
 public:
  // All outlive it.
  PlanWriter(const ModelSpec& spec, const Precision& precision, const Calibration& calibration);

  const ModelSpec& spec() const { return spec_; }
  // A module's name in a layer: "{}" in the pattern becomes its number.
  static std::string named(const std::string& pattern, int layer);

  BufferId buffer(std::string name, std::int64_t columns);

  void embed(BufferId out);
  void norm(const std::string& module, BufferId in, BufferId out);
  // In place, `groups` parts of the rows side by side, each of `size` columns from `column` on.
  void norm_part(const std::string& module, BufferId buffer, std::int64_t column, std::int64_t size,
                 int groups);
  // out = activation(in * weight^T + bias), or out += . Modules that share their input become one matrix
  // multiplication, their outputs side by side, where the precision treats them alike, else one each.
  void linear(const std::vector<Module>& modules, BufferId in, BufferId out, const LinearUse& use = {});
  void add(std::string name, OpClass phase, decltype(Op::kind) what);

  // The final norm and the LM head over `hidden`; gives the plan. Throws UsageError for a module selection
  // that names no module.
  Plan finish(BufferId hidden);

 private:
  WeightId weight(WeightSpec spec);
  WeightId vector(std::string name, std::int64_t size);
  WeightId head_matrix(std::string name);
  NormOp norm_op(const std::string& module, BufferId in, BufferId out, std::int64_t size, bool has_bias);
  LmHead head_over(BufferId hidden);
  bool are_alike(const std::vector<Module>& modules) const;
  // Empty where the precision quantizes no module.
  std::string_view why_not_quantized(std::string_view module) const;
  void linear_of(const std::vector<Module>& modules, BufferId in, BufferId out, std::int64_t out_column,
                 const LinearUse& use);
  void calibrate(LinearOp& op, const InputCalibration& found, bool is_input_shared);
  WeightSpec& spec_of(WeightId id) { return plan_.weights[static_cast<std::size_t>(id)]; }
  std::int64_t columns(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)].columns; }

  const ModelSpec& spec_;
  const Precision& precision_;
  const Calibration& calibration_;
  Plan plan_;
  WeightId tokens_ = kNone;
};

}  // namespace assay
