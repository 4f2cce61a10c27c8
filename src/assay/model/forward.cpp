#include "assay/model/forward.h"

#include <cmath>

#include "assay/base/format.h"

namespace assay {

namespace {

// Collects weights, buffers and operations; each method returns what later operations refer to.
class PlanWriter {
 public:
  PlanWriter(const ModelSpec& spec, const Precision& precision, const Calibration& calibration)
      : spec_(spec), precision_(precision), calibration_(calibration) {
    plan_.vocab = spec.vocab;
    plan_.context = spec.context;
    plan_.layers = spec.layers;
    plan_.kv_heads = spec.kv_heads;
    plan_.head_dim = spec.head_dim;
    plan_.kv_format = precision.kv_cache;
    plan_.screens_head = precision.screens_head;
  }

  BufferId buffer(std::string name, std::int64_t columns) {
    plan_.buffers.push_back({std::move(name), columns});
    return static_cast<BufferId>(plan_.buffers.size()) - 1;
  }
  WeightId vector(std::string name, std::int64_t size) {
    return weight({.name = std::move(name), .rows = 1, .columns = size, .kind = WeightSpec::Kind::vector});
  }
  WeightId table(std::string name, std::int64_t rows, std::int64_t columns) {
    return weight({.name = std::move(name),
                   .rows = rows,
                   .columns = columns,
                   .kind = WeightSpec::Kind::table,
                   .format = precision_.remainder});
  }
  WeightId matrix(std::string name, std::int64_t outputs, std::int64_t inputs, bool is_transposed,
                  WeightFormat format, bool is_stored_quantized = false, std::string_view why_kept = {}) {
    return weight({.name = std::move(name),
                   .rows = outputs,
                   .columns = inputs,
                   .kind = WeightSpec::Kind::matrix,
                   .stored_transposed = is_transposed && !is_stored_quantized,
                   .format = format,
                   .expanded = precision_.remainder,
                   .is_stored_quantized = is_stored_quantized,
                   .allows_non_finite = precision_.allows_non_finite,
                   .why_kept = why_kept});
  }
  WeightId head(std::string name, std::int64_t outputs, std::int64_t inputs) {
    return matrix(std::move(name), outputs, inputs, false, precision_.head, precision_.is_head_stored);
  }

  Op norm(const std::string& tensor, BufferId in, BufferId out) {
    return {tensor, Phase::norm,
            NormOp{.kind = spec_.norm,
                   .gain = vector(tensor + ".weight", spec_.hidden),
                   .bias = vector(tensor + ".bias", spec_.hidden),
                   .epsilon = spec_.epsilon,
                   .in = in,
                   .out = out}};
  }
  Op linear(const std::string& tensor, BufferId in, BufferId out, Activation activation, bool adds) {
    const std::int64_t inputs = columns(in), outputs = columns(out);
    const WeightFormat format = precision_.format_of(tensor);
    const bool is_in = is_quantized(format);
    Op op = {
        tensor, Phase::linear,
        LinearOp{
            .weight = matrix(tensor + ".weight", outputs, inputs, spec_.names.linear_is_transposed, format,
                             is_in && precision_.is_stored,
                             is_in ? std::string_view() : precision_.why_kept(tensor)),
            .bias = vector(tensor + ".bias", outputs),
            .activation = activation,
            .adds_to_output = adds,
            .outlier_threshold = format == WeightFormat::llm_int8 ? precision_.outlier_threshold : 0,
            .has_tensor_scale = format == WeightFormat::int8 && precision_.inputs == InputScale::per_tensor,
            .in = in,
            .out = out}};
    if (const auto found = calibration_.find(tensor + ".weight"); is_in && found != calibration_.end())
      calibrate(std::get<LinearOp>(op.what), found->second);
    return op;
  }

  void add(Op op) { plan_.ops.push_back(std::move(op)); }
  Plan& plan() { return plan_; }

 private:
  void calibrate(LinearOp& op, const InputCalibration& found) {
    if (spec_of(op.weight).format != WeightFormat::int8) return;  // kept as it is: its inputs are, too
    if (precision_.inputs == InputScale::calibrated)
      op.static_input = StaticInput{found.code.scale, found.code.zero_point, found.clipped_share};
    if (found.smoothing.empty()) return;
    std::vector<float> inverse;
    for (const float factor : found.smoothing) inverse.push_back(1.0F / factor);
    spec_of(op.weight).column_factors = found.smoothing;
    const auto* norm = plan_.ops.empty() ? nullptr : std::get_if<NormOp>(&plan_.ops.back().what);
    if (norm == nullptr || norm->out != op.in) {
      op.input_factors = std::move(inverse);
      return;
    }
    // The norm's output has this one reader.
    for (const WeightId id : {norm->gain, norm->bias})
      if (id != kNone) spec_of(id).column_factors = inverse;
  }
  WeightSpec& spec_of(WeightId id) { return plan_.weights[static_cast<std::size_t>(id)]; }
  WeightId weight(WeightSpec spec) {
    plan_.weights.push_back(std::move(spec));
    return static_cast<WeightId>(plan_.weights.size()) - 1;
  }
  std::int64_t columns(BufferId id) const { return plan_.buffers[static_cast<std::size_t>(id)].columns; }

  const ModelSpec& spec_;
  const Precision& precision_;
  const Calibration& calibration_;
  Plan plan_;
};

std::string in_layer(const std::string& pattern, int layer) {
  return fmt::format(fmt::runtime(pattern), layer);
}

}  // namespace

float ModelSpec::attention_scale(int layer) const {
  float scale = scales_attention ? 1.0F / std::sqrt(static_cast<float>(head_dim)) : 1.0F;
  if (scales_attention_by_layer) scale /= static_cast<float>(layer + 1);
  return scale;
}

std::vector<std::string> modules_of(const Plan& plan) {
  std::vector<std::string> modules;
  for (const Op& op : plan.ops)
    if (std::holds_alternative<LinearOp>(op.what)) modules.push_back(op.name);
  return modules;
}

Plan plan_forward(const ModelSpec& spec, const Precision& precision, const Calibration& calibration) {
  PlanWriter write(spec, precision, calibration);
  const TensorNames& names = spec.names;
  const BufferId x = write.buffer("x", spec.hidden), h = write.buffer("normed", spec.hidden);
  const BufferId qkv = write.buffer("qkv", (spec.heads + 2LL * spec.kv_heads) * spec.head_dim);
  const BufferId a = write.buffer("attended", static_cast<std::int64_t>(spec.heads) * spec.head_dim);
  const BufferId f = write.buffer("mlp", spec.mlp_hidden);

  // A tied embedding is one matrix, read as a table here and multiplied with in the head.
  const WeightId tokens = spec.is_head_tied ? write.head(names.tokens, spec.vocab, spec.hidden)
                                            : write.table(names.tokens, spec.vocab, spec.hidden);
  const WeightId positions = write.table(names.positions, spec.context + spec.position_offset, spec.hidden);
  write.add({"embed", Phase::embed, EmbedOp{tokens, positions, spec.position_offset, x}});
  for (int layer = 0; layer < spec.layers; ++layer) {
    const auto named = [&](const std::string& pattern) { return in_layer(pattern, layer); };
    write.add(write.norm(named(names.attention_norm), x, h));                    // h = norm(x)
    write.add(write.linear(named(names.qkv), h, qkv, Activation::none, false));  // q, k, v = h Wqkv
    write.add({fmt::format("attention.{}", layer), Phase::attention,             // a = softmax(q k' s) v
               AttentionOp{.layer = layer,
                           .heads = spec.heads,
                           .kv_heads = spec.kv_heads,
                           .head_dim = spec.head_dim,
                           .scale = spec.attention_scale(layer),
                           .window = spec.attention_window,
                           .qkv = qkv,
                           .out = a}});
    write.add(write.linear(named(names.attention_out), a, x, Activation::none, true));  // x += a Wo
    write.add(write.norm(named(names.mlp_norm), x, h));                                 // h = norm(x)
    write.add(write.linear(named(names.mlp_in), h, f, spec.activation, false));         // f = act(h Win)
    write.add(write.linear(named(names.mlp_out), f, x, Activation::none, true));        // x += f Wout
  }
  Plan& plan = write.plan();
  plan.hidden = x;
  plan.head_norm = write.norm(names.final_norm, x, kNone);
  plan.head_norm.phase = Phase::head;
  const WeightId head = spec.is_head_tied ? tokens : write.head(names.head, spec.vocab, spec.hidden);
  plan.weights[static_cast<std::size_t>(head)].is_table_too = spec.is_head_tied;
  plan.head = {"head", Phase::head,
               LinearOp{.weight = head,
                        .bias = kNone,
                        .outlier_threshold =
                            precision.head == WeightFormat::llm_int8 ? precision.outlier_threshold : 0}};
  precision.modules.check(modules_of(plan));
  return plan;
}

}  // namespace assay
