#include "assay/model/plan_writer.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/model/forward.h"
#include "assay/quant/quantizer.h"

namespace assay {

namespace {

// "h.3.attn.q_proj" and "h.3.attn.k_proj" are called "h.3.attn.q_proj+k_proj".
std::string joined_name(const std::vector<Module>& modules) {
  std::string name = modules.front().name;
  for (std::size_t i = 1; i < modules.size(); ++i) {
    const std::string& next = modules[i].name;
    const auto dot = next.rfind('.');
    name += "+" + (dot == std::string::npos ? next : next.substr(dot + 1));
  }
  return name;
}

std::vector<WeightSlice> slices_of(const std::vector<Module>& modules, std::string_view suffix,
                                   bool are_biases) {
  if (modules.size() == 1) return {};
  std::vector<WeightSlice> slices;
  for (const Module& module : modules)
    slices.push_back({.tensor = are_biases && !module.has_bias ? "" : module.name + std::string(suffix),
                      .count = module.outputs});
  return slices;
}

}  // namespace

PlanWriter::PlanWriter(const ModelSpec& spec, const Precision& precision, const Calibration& calibration)
    : spec_(spec), precision_(precision), calibration_(calibration) {
  plan_.vocab = spec.vocab;
  plan_.context = spec.context;
  plan_.layers = spec.layers;
  plan_.kv_heads = spec.kv_heads;
  plan_.head_dim = spec.head_dim;
  plan_.kv_format = precision.kv_cache;
  plan_.has_candidate_search = precision.has_candidate_search;
}

std::string PlanWriter::named(const std::string& pattern, int layer) {
  return fmt::format(fmt::runtime(pattern), layer);
}

BufferId PlanWriter::buffer(std::string name, std::int64_t columns) {
  plan_.buffers.push_back({std::move(name), columns});
  return static_cast<BufferId>(plan_.buffers.size()) - 1;
}

WeightId PlanWriter::weight(WeightSpec spec) {
  spec.has_bfloat16_scales = spec_.has_bfloat16_weights && is_four_bit(spec.format) &&
                             !has_nested_scales(spec.format) && !spec.is_stored_quantized;
  plan_.weights.push_back(std::move(spec));
  return static_cast<WeightId>(plan_.weights.size()) - 1;
}

WeightId PlanWriter::vector(std::string name, std::int64_t size) {
  return weight({.name = std::move(name), .rows = 1, .columns = size, .kind = WeightSpec::Kind::vector});
}

WeightId PlanWriter::head_matrix(std::string name) {
  return weight({.name = std::move(name),
                 .rows = spec_.vocab,
                 .columns = spec_.hidden,
                 .kind = WeightSpec::Kind::matrix,
                 .format = precision_.lm_head,
                 .expanded = precision_.dtype,
                 .is_stored_quantized = precision_.is_lm_head_stored,
                 .allows_non_finite = precision_.allows_non_finite});
}

void PlanWriter::embed(BufferId out) {
  const auto table = [&](const std::string& name, std::int64_t rows) {
    return weight({.name = name,
                   .rows = rows,
                   .columns = spec_.hidden,
                   .kind = WeightSpec::Kind::table,
                   .format = precision_.dtype});
  };
  // A tied embedding is one matrix, read as a table here and multiplied with in the LM head.
  tokens_ = spec_.is_head_tied ? head_matrix(spec_.names.tokens) : table(spec_.names.tokens, spec_.vocab);
  EmbedOp op{.tokens = tokens_, .position_offset = spec_.position_offset, .out = out};
  if (spec_.position == Position::learned)
    op.positions = table(spec_.names.positions, spec_.context + spec_.position_offset);
  add("embed", Phase::embed, std::move(op));
}

NormOp PlanWriter::norm_op(const std::string& module, BufferId in, BufferId out) {
  NormOp op{.kind = spec_.norm, .epsilon = spec_.epsilon, .in = in, .out = out};
  op.gain = vector(module + ".weight", spec_.hidden);
  if (spec_.has_norm_bias) op.bias = vector(module + ".bias", spec_.hidden);
  return op;
}

void PlanWriter::norm(const std::string& module, BufferId in, BufferId out) {
  add(module, Phase::norm, norm_op(module, in, out));
}

void PlanWriter::linear(const std::vector<Module>& modules, BufferId in, BufferId out, Activation activation,
                        bool adds) {
  if (are_alike(modules)) return linear_of(modules, in, out, 0, activation, adds, true);
  std::int64_t column = 0;
  for (const Module& module : modules) {
    linear_of({module}, in, out, column, activation, adds, false);
    column += module.outputs;
  }
}

bool PlanWriter::are_alike(const std::vector<Module>& modules) const {
  return std::all_of(modules.begin(), modules.end(), [&](const Module& module) {
    return precision_.format_of(module.name) == precision_.format_of(modules.front().name) &&
           precision_.why_not_quantized(module.name) == precision_.why_not_quantized(modules.front().name);
  });
}

void PlanWriter::linear_of(const std::vector<Module>& modules, BufferId in, BufferId out,
                           std::int64_t out_column, Activation activation, bool adds, bool is_only_reader) {
  const std::string name = joined_name(modules);
  const WeightFormat format = precision_.format_of(modules.front().name);
  const bool is_in = is_quantized(format), is_stored = is_in && precision_.is_stored;
  std::int64_t outputs = 0;
  bool has_bias = false;
  for (const Module& module : modules) {
    outputs += module.outputs;
    has_bias = has_bias || module.has_bias;
  }
  LinearOp op{
      .activation = activation,
      .adds_to_output = adds,
      .outlier_threshold = format == WeightFormat::llm_int8 ? precision_.outlier_threshold : 0,
      .has_tensor_scale = format == WeightFormat::int8 && precision_.input_scale == InputScale::per_tensor,
      .has_int8_inputs = is_four_bit(format) && precision_.has_int8_activations,
      .in = in,
      .out = out,
      .out_column = out_column};
  for (const Module& module : modules) op.modules.push_back(module.name);
  op.weight = weight(
      {.name = name + ".weight",
       .rows = outputs,
       .columns = columns(in),
       .kind = WeightSpec::Kind::matrix,
       .stored_transposed = spec_.names.linear_is_transposed && !is_stored,
       .slices = slices_of(modules, ".weight", false),
       .format = format,
       .expanded = precision_.dtype,
       .is_stored_quantized = is_stored,
       .allows_non_finite = precision_.allows_non_finite,
       .why_not_quantized = is_in ? std::string_view() : precision_.why_not_quantized(modules.front().name)});
  if (has_bias)
    op.bias = weight({.name = name + ".bias",
                      .rows = 1,
                      .columns = outputs,
                      .kind = WeightSpec::Kind::vector,
                      .slices = slices_of(modules, ".bias", true)});
  if (const auto found = calibration_.find(modules.front().name + ".weight");
      is_in && found != calibration_.end())
    calibrate(op, found->second, is_only_reader);
  add(name, Phase::linear, std::move(op));
}

void PlanWriter::calibrate(LinearOp& op, const InputCalibration& found, bool is_only_reader) {
  if (spec_of(op.weight).format != WeightFormat::int8) return;  // kept as it is: its inputs are, too
  if (precision_.input_scale == InputScale::calibrated)
    op.static_input = StaticInput{found.code.scale, found.code.zero_point, found.clipped_share};
  if (found.smoothing.empty()) return;
  std::vector<float> inverse;
  for (const float factor : found.smoothing) inverse.push_back(1.0F / factor);
  spec_of(op.weight).column_factors = found.smoothing;
  const auto* norm = plan_.ops.empty() ? nullptr : std::get_if<NormOp>(&plan_.ops.back().what);
  // A norm in place is read by more than this: by the residual.
  if (norm == nullptr || norm->out != op.in || norm->in == norm->out || !is_only_reader) {
    op.input_factors = std::move(inverse);
    return;
  }
  for (const WeightId id : {norm->gain, norm->bias})
    if (id != kNone) spec_of(id).column_factors = inverse;
}

void PlanWriter::add(std::string name, Phase phase, decltype(Op::what) what) {
  plan_.ops.push_back({std::move(name), phase, std::move(what)});
}

Plan PlanWriter::finish(BufferId hidden) {
  plan_.hidden = hidden;
  plan_.head.norm = norm_op(spec_.names.final_norm, hidden, kNone);
  plan_.head.product.weight = spec_.is_head_tied ? tokens_ : head_matrix(spec_.names.head);
  spec_of(plan_.head.product.weight).is_table_too = spec_.is_head_tied;
  plan_.head.product.has_int8_inputs = is_four_bit(precision_.lm_head) && precision_.has_int8_activations;
  if (precision_.lm_head == WeightFormat::llm_int8)
    plan_.head.product.outlier_threshold = precision_.outlier_threshold;
  precision_.modules.check(modules_of(plan_));
  return std::move(plan_);
}

}  // namespace assay
