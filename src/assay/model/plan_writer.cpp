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
  // Scales that are weights of the file lose nothing in its type.
  if (spec_.has_bfloat16_weights && is_four_bit(spec.format) && has_wide_scales(spec.format) &&
      !has_nested_scales(spec.format) && !spec.is_stored_quantized)
    spec.format = with_scale(spec.format, ScaleType::bfloat16);
  plan_.weights.push_back(std::move(spec));
  return static_cast<WeightId>(plan_.weights.size()) - 1;
}

WeightId PlanWriter::vector(std::string name, std::int64_t size) {
  return weight({.name = std::move(name), .rows = 1, .columns = size, .kind = WeightSpec::Kind::vector});
}

WeightId PlanWriter::head_matrix(std::string name) {
  return weight({.name = std::move(name),
                 .rows = spec_.vocab,
                 .columns = spec_.embedding_width(),
                 .kind = WeightSpec::Kind::matrix,
                 .format = precision_.lm_head,
                 .arithmetic = precision_.lm_head_arithmetic(),
                 .is_stored_quantized = precision_.is_lm_head_stored,
                 .allows_non_finite = precision_.allows_non_finite});
}

void PlanWriter::embed(BufferId out) {
  const auto table = [&](const std::string& name, std::int64_t rows, std::int64_t width) {
    WeightSpec spec{.name = name,
                    .rows = rows,
                    .columns = width,
                    .kind = WeightSpec::Kind::table,
                    .format = precision_.dtype};
    // Codes are packed as those of a matrix are, of which rows can be looked up too.
    if (const auto stored = precision_.stored_tables.find(name); stored != precision_.stored_tables.end()) {
      spec.kind = WeightSpec::Kind::matrix;
      spec.is_table_too = true;
      spec.format = stored->second;
      spec.is_stored_quantized = true;
    }
    return weight(std::move(spec));
  };
  const std::int64_t width = spec_.embedding_width();
  // A tied embedding is one matrix, read as a table here and multiplied with in the LM head.
  tokens_ =
      spec_.is_head_tied ? head_matrix(spec_.names.tokens) : table(spec_.names.tokens, spec_.vocab, width);
  const bool is_projected = !spec_.names.project_in.empty();
  EmbedOp op{.tokens = tokens_, .scale = spec_.embed_scale, .out = out};
  EmbedOp positions{.position_offset = spec_.position_offset};
  if (spec_.position == Position::learned)
    positions.positions = table(spec_.names.positions, spec_.context + spec_.position_offset, spec_.hidden);
  if (!is_projected) {
    op.positions = positions.positions;
    op.position_offset = positions.position_offset;
    add("embed", OpClass::embed, op);
  } else {  // only tokens are as narrow
    op.out = buffer("narrow", width);
    add("embed", OpClass::embed, op);
    linear({{.name = spec_.names.project_in, .outputs = spec_.hidden}}, op.out, out);
    if (positions.positions != kNone) {
      positions.out = buffer("positions", spec_.hidden);
      add("embed.positions", OpClass::embed, positions);
      add("embed.add", OpClass::embed, AddOp{.in = positions.out, .out = out});
    }
  }
  if (!spec_.names.embedding_norm.empty()) norm(spec_.names.embedding_norm, out, out);
}

NormOp PlanWriter::norm_op(const std::string& module, BufferId in, BufferId out, std::int64_t size,
                           bool has_bias) {
  NormOp op{.kind = spec_.norm, .epsilon = spec_.epsilon, .in = in, .out = out};
  op.gain = vector(module + ".weight", size);
  spec_of(op.gain).offset = spec_.gain_offset;
  if (has_bias) op.bias = vector(module + ".bias", size);
  return op;
}

void PlanWriter::norm(const std::string& module, BufferId in, BufferId out) {
  add(module, OpClass::norm, norm_op(module, in, out, spec_.hidden, spec_.has_norm_bias));
}

void PlanWriter::norm_part(const std::string& module, BufferId buffer, std::int64_t column, std::int64_t size,
                           int groups) {
  NormOp op = norm_op(module, buffer, buffer, size, spec_.has_qk_norm_bias);
  op.column = column;
  op.groups = groups;
  add(module, OpClass::norm, op);
}

void PlanWriter::linear(const std::vector<Module>& modules, BufferId in, BufferId out, const LinearUse& use) {
  if (are_alike(modules)) return linear_of(modules, in, out, 0, use);
  LinearUse one = use;
  one.is_input_shared = true;
  std::int64_t column = 0;
  for (const Module& module : modules) {
    linear_of({module}, in, out, column, one);
    column += module.outputs;
  }
}

bool PlanWriter::are_alike(const std::vector<Module>& modules) const {
  // Each of them may have its inputs in other groups.
  if (modules.size() > 1 && precision_.format_of(modules.front().name).has_input_groups) return false;
  return std::all_of(modules.begin(), modules.end(), [&](const Module& module) {
    return precision_.format_of(module.name) == precision_.format_of(modules.front().name) &&
           precision_.why_not_quantized(module.name) == precision_.why_not_quantized(modules.front().name);
  });
}

void PlanWriter::linear_of(const std::vector<Module>& modules, BufferId in, BufferId out,
                           std::int64_t out_column, const LinearUse& use) {
  const std::string name = joined_name(modules);
  const WeightFormat format = precision_.format_of(modules.front().name, columns(in));
  const MatmulArithmetic arithmetic = precision_.arithmetic_of(format);
  const bool is_in = is_quantized(format), is_stored = is_in && precision_.is_stored;
  std::int64_t outputs = 0;
  bool has_bias = false;
  for (const Module& module : modules) {
    outputs += module.outputs;
    has_bias = has_bias || module.has_bias;
  }
  LinearOp op{.activation = use.activation,
              .adds_to_output = use.adds,
              .outlier_threshold =
                  arithmetic.activations == ActivationType::int8_symmetric ? precision_.outlier_threshold : 0,
              .has_tensor_scale = arithmetic.activations == ActivationType::int8_per_tensor,
              .has_int8_activations = arithmetic.activations == ActivationType::int8_per_group,
              .in = in,
              .out = out,
              .out_column = out_column};
  for (const Module& module : modules) op.modules.push_back(module.name);
  op.weight =
      weight({.name = name + ".weight",
              .rows = outputs,
              .columns = columns(in),
              .kind = WeightSpec::Kind::matrix,
              .stored_transposed = spec_.names.linear_is_transposed && !is_stored,
              .slices = slices_of(modules, ".weight", false),
              .format = format,
              .arithmetic = arithmetic,
              .is_stored_quantized = is_stored,
              .allows_non_finite = precision_.allows_non_finite,
              .why_not_quantized = is_in ? std::string_view() : why_not_quantized(modules.front().name),
              .run_rows = modules.front().run_rows,
              .run_outputs = modules.front().run_outputs});
  if (has_bias)
    op.bias = weight({.name = name + ".bias",
                      .rows = 1,
                      .columns = outputs,
                      .kind = WeightSpec::Kind::vector,
                      .slices = slices_of(modules, ".bias", true),
                      .run_rows = modules.front().run_rows,
                      .run_outputs = modules.front().run_outputs});
  if (const auto found = calibration_.find(modules.front().name + ".weight");
      is_in && found != calibration_.end())
    calibrate(op, found->second, use.is_input_shared);
  add(name, OpClass::linear, std::move(op));
}

std::string_view PlanWriter::why_not_quantized(std::string_view module) const {
  if (const auto why = precision_.why_not_quantized(module)) return *why;
  return is_quantized(precision_.format_of(module)) ? "its inputs are no whole number of blocks" : "";
}

void PlanWriter::calibrate(LinearOp& op, const InputCalibration& found, bool is_input_shared) {
  if (spec_of(op.weight).format != formats::kInt8) return;  // kept as it is: its inputs are, too
  if (precision_.input_scale == InputScale::calibrated)
    op.static_input = StaticInput{found.code.scale, found.code.zero_point, found.clipped_share};
  if (found.smoothing.empty()) return;
  std::vector<float> inverse;
  for (const float factor : found.smoothing) inverse.push_back(1.0F / factor);
  spec_of(op.weight).column_factors = found.smoothing;
  const auto* norm = plan_.ops.empty() ? nullptr : std::get_if<NormOp>(&plan_.ops.back().kind);
  // A norm in place is read by more than this: by the residual.
  if (norm == nullptr || norm->out != op.in || norm->in == norm->out || is_input_shared) {
    op.input_factors = std::move(inverse);
    return;
  }
  for (const WeightId id : {norm->gain, norm->bias})
    if (id != kNone) spec_of(id).column_factors = inverse;
}

void PlanWriter::add(std::string name, OpClass phase, decltype(Op::kind) what) {
  plan_.ops.push_back({std::move(name), phase, std::move(what)});
}

LmHead PlanWriter::head_over(BufferId hidden) {
  LmHead head{.scale = spec_.logit_scale, .soft_cap = spec_.logit_cap};
  const bool has_norm = !spec_.names.final_norm.empty();
  if (spec_.names.project_out.empty()) {
    if (has_norm)
      head.norm = norm_op(spec_.names.final_norm, hidden, kNone, spec_.hidden, spec_.has_norm_bias);
  } else {
    if (has_norm) norm(spec_.names.final_norm, hidden, hidden);
    plan_.hidden = buffer("projected", spec_.embedding_width());
    linear({{.name = spec_.names.project_out, .outputs = spec_.embedding_width()}}, hidden, plan_.hidden);
  }
  head.product.weight = spec_.is_head_tied ? tokens_ : head_matrix(spec_.names.head);
  if (spec_.has_head_bias) head.product.bias = vector(spec_.names.head_bias, spec_.vocab);
  spec_of(head.product.weight).is_table_too = spec_.is_head_tied;
  const ActivationType activations = precision_.lm_head_arithmetic().activations;
  head.product.has_int8_activations = activations == ActivationType::int8_per_group;
  if (activations == ActivationType::int8_symmetric)
    head.product.outlier_threshold = precision_.outlier_threshold;
  return head;
}

Plan PlanWriter::finish(BufferId hidden) {
  plan_.hidden = hidden;
  plan_.head = head_over(hidden);
  const std::vector<std::string> modules = modules_of(plan_);
  precision_.modules.check(modules);
  if (precision_.recipe) precision_.recipe->check(modules);
  return std::move(plan_);
}

}  // namespace assay
