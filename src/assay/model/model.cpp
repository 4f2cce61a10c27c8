#include "assay/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <unordered_set>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/stored_quantization.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

// The size of a tensor, as the file has it.
std::vector<std::int64_t> stored_shape(const WeightSpec& weight) {
  const std::int64_t count = weight.tensor_count > 0 ? weight.tensor_count : weight.outputs();
  if (weight.kind == WeightSpec::Kind::vector) return {count};
  if (weight.stored_transposed) return {weight.columns, count};
  return {count, weight.columns};
}

class StoredWeights : public WeightSource {
 public:
  explicit StoredWeights(const ModelSource& source, const std::function<bool()>& should_stop = {})
      : source_(source), quantized_(source.quantized_weights()), should_stop_(should_stop) {}
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                 float* out) const override {
    check_stop();
    const CheckpointTensor at = source_.find(weight.name);
    const std::int64_t width = stored_shape(weight).back();
    if (weight.stored_transposed && width != weight.rows) {  // some columns of each row
      for (std::int64_t row = 0; row < count; ++row)
        at.read_floats((first + row) * width + weight.tensor_first, weight.rows, out + row * weight.rows);
      return;
    }
    if (weight.kind == WeightSpec::Kind::vector)
      return at.read_floats(weight.tensor_first, weight.columns, out);
    at.read_floats((weight.tensor_first + first) * width, count * width, out);
  }
  void read_codes(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                  std::uint8_t* out) const override {
    check_stop();
    quantized_->read_codes(quantized_tensor(weight), first, count, out);
  }
  std::vector<float> read_scales(const WeightSpec& weight) const override {
    check_stop();
    return quantized_->read_scales(quantized_tensor(weight));
  }
  std::vector<float> read_offsets(const WeightSpec& weight) const override {
    return quantized_->read_offsets(quantized_tensor(weight));
  }
  std::vector<std::int32_t> read_input_groups(const WeightSpec& weight) const override {
    return quantized_->read_input_groups(quantized_tensor(weight));
  }
  SuperBlocks read_super_blocks(const WeightSpec& weight) const override {
    check_stop();
    return quantized_->read_super_blocks(quantized_tensor(weight));
  }

 private:
  // Several threads read; the caller's function is asked by one at a time.
  void check_stop() const {
    if (!should_stop_) return;
    const std::lock_guard lock(mutex_);
    if (should_stop_()) throw Stopped("{}: loading was stopped", source_.path().string());
  }

  const ModelSource& source_;
  std::unique_ptr<const QuantizedWeights> quantized_;
  const std::function<bool()> should_stop_;
  mutable std::mutex mutex_;
};

void check_tensor(const WeightSpec& weight, const ModelSource& source, const QuantizedWeights* quantized) {
  const CheckpointTensor at = source.find(weight.name);
  if (!at)
    throw Error("{}: tensor '{}' is missing", source.path().string(),
                printable(source.checkpoint().name_in_file(weight.name)));
  if (weight.is_stored_quantized) return quantized->check(quantized_tensor(weight));
  if (!info(at->dtype).is_weight)
    throw Error("{}: expected F32, F16 or BF16, found {}", at.where(), info(at->dtype).safetensors);
  StoredTensor expected;
  expected.shape = stored_shape(weight);
  if (at->shape != expected.shape)
    throw Error("{}: expected shape {} (by {}), found {}", at.where(), expected.shape_text(),
                source.config_name(), at->shape_text());
}

bool begins_with_any(const std::string& name, const std::vector<std::string>& begins) {
  return std::any_of(begins.begin(), begins.end(),
                     [&](const std::string& begin) { return name.starts_with(begin); });
}

bool ends_with_any(const std::string& name, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return name.ends_with(end); });
}

// The same numbers, whatever their types.
bool are_equal(const CheckpointTensor& a, const CheckpointTensor& b) {
  if (a->shape != b->shape || !info(a->dtype).is_weight || !info(b->dtype).is_weight) return false;
  constexpr std::int64_t kSlab = 1 << 16;
  std::vector<float> left(kSlab), right(kSlab);
  for (std::int64_t done = 0; done < a->elements(); done += kSlab) {
    const std::int64_t count = std::min(kSlab, a->elements() - done);
    a.read_floats(done, count, left.data());
    b.read_floats(done, count, right.data());
    if (std::memcmp(left.data(), right.data(), static_cast<std::size_t>(count) * sizeof(float)) != 0)
      return false;
  }
  return true;
}

}  // namespace

void check_weights(const Plan& plan, const ModelSource& source) {
  const auto quantized = source.quantized_weights();
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole)) check_tensor(part.spec, source, quantized.get());
}

namespace {

// Which tensors are read: what a source stores quantized decides about those beside a weight.
Plan stored_plan(const ModelSpec& spec, const Precision& precision) {
  return plan_forward(spec, precision.is_stored ? precision : Precision{});
}

std::vector<TensorUse> uses_of(const Plan& plan, const ModelSpec& spec, const ModelSource& source) {
  const auto quantized = source.quantized_weights();
  std::unordered_set<std::string> weights, beside;
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole)) {
      weights.insert(part.spec.name);
      if (part.spec.is_stored_quantized)
        for (std::string& name : quantized->names_beside(quantized_tensor(part.spec)))
          beside.insert(std::move(name));
    }
  std::vector<TensorUse> uses;
  for (const CheckpointTensor& at : source.all()) {
    const std::string& name = at->name;
    uses.push_back(weights.count(name) > 0                              ? TensorUse::weight
                   : beside.count(name) > 0                             ? TensorUse::beside_weight
                   : ends_with_any(name, spec.names.buffers)            ? TensorUse::buffer
                   : spec.is_head_tied && name == spec.names.head       ? TensorUse::tied_head
                   : begins_with_any(name, spec.names.other_modalities) ? TensorUse::other_modality
                                                                        : TensorUse::none);
  }
  return uses;
}

// "3 buffers of the file are".
std::string counted_of_file(std::size_t count, const char* what) {
  return fmt::format("{} of the file {}", counted(static_cast<std::int64_t>(count), what),
                     count == 1 ? "is" : "are");
}

}  // namespace

std::vector<TensorUse> tensor_uses(const ModelSpec& spec, const Precision& precision,
                                   const ModelSource& source) {
  return uses_of(stored_plan(spec, precision), spec, source);
}

std::string unreadable_weights(const Plan& plan, const ModelSource& source) {
  std::vector<std::string> names;
  std::unordered_set<std::string> seen;
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole))
      if (seen.insert(part.spec.name).second) names.push_back(part.spec.name);
  return source.checkpoint().unreadable_among(names);
}

std::vector<std::string> check_tensors(const ModelSpec& spec, const Precision& precision,
                                       const ModelSource& source, UnreadableWeights unreadable) {
  const Plan plan = stored_plan(spec, precision);
  check_weights(plan, source);
  const std::string refused = unreadable_weights(plan, source);
  if (!refused.empty() && unreadable == UnreadableWeights::are_refused)
    throw Error("{}: {}", source.path().string(), refused);
  const std::vector<CheckpointTensor> tensors = source.all();
  const std::vector<TensorUse> uses = uses_of(plan, spec, source);
  std::vector<std::string> buffers, others, unknown;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (uses[i] == TensorUse::buffer) buffers.push_back(tensors[i]->name);
    if (uses[i] == TensorUse::other_modality) others.push_back(tensors[i]->name);
    if (uses[i] == TensorUse::none) unknown.push_back(tensors[i]->name);
    if (uses[i] == TensorUse::tied_head && !are_equal(tensors[i], source.find(spec.names.tokens)))
      throw Error(
          "{0}: tensor '{1}' differs from '{2}', though tie_word_embeddings says that they are one: "
          "expected tie_word_embeddings false in {3}, or no {1}",
          tensors[i].file().string(), spec.names.head, spec.names.tokens, source.config_name());
  }
  if (!unknown.empty())
    throw Error(
        "{}: {} not used by the model that {} describes, the first is '{}': expected a "
        "configuration that uses every weight",
        source.path().string(), counted_of_file(unknown.size(), "tensor"), source.config_name(),
        printable(source.checkpoint().name_in_file(unknown.front())));
  std::vector<std::string> warnings = source.checkpoint().warnings();
  if (!refused.empty()) warnings.insert(warnings.begin(), refused);
  if (!buffers.empty())
    warnings.push_back(fmt::format("{} not needed, the first is '{}'",
                                   counted_of_file(buffers.size(), "buffer"), printable(buffers.front())));
  if (!others.empty())
    warnings.push_back(fmt::format("{} for images or sound and not used, the first is '{}'",
                                   counted_of_file(others.size(), "tensor"), printable(others.front())));
  return warnings;
}

namespace {

// A program over a source whose tensors are checked.
std::unique_ptr<Program> program_of_checked(const ModelSpec& spec, const ModelSource& source,
                                            Backend& backend, const Precision& precision,
                                            const Calibration& calibration,
                                            const std::function<bool()>& should_stop = {}) {
  const bool keeps_calibration = precision.is_stored && precision.needs_calibration();
  if (precision.needs_calibration() && !keeps_calibration && calibration.empty())
    throw Error("{}: it needs a calibration, and none was given", precision.name);
  Plan plan = plan_forward(spec, precision, calibration);
  if (keeps_calibration) plan = plan_forward(spec, precision, stored_calibration(plan, source));
  plan.model = fmt::format("{} in {}", source.path().string(), precision.name);
  return backend.prepare(plan, StoredWeights(source, should_stop));
}

}  // namespace

std::unique_ptr<Program> prepare_program(const ModelSpec& spec, const ModelSource& source, Backend& backend,
                                         const Precision& precision, const Calibration& calibration) {
  check_weights(stored_plan(spec, precision), source);
  return program_of_checked(spec, source, backend, precision, calibration);
}

std::unique_ptr<WeightSource> weight_source(const ModelSource& source) {
  return std::make_unique<StoredWeights>(source);
}

std::vector<float> column_magnitudes(const WeightSpec& whole, const ModelSource& source) {
  const StoredWeights weights(source);
  std::vector<float> largest(static_cast<std::size_t>(whole.columns));
  for (const TensorPart& part : tensors_of(whole)) {
    const WeightSpec& weight = part.spec;
    const std::int64_t rows = weight.stored_transposed ? weight.columns : weight.rows,
                       width = weight.stored_transposed ? weight.rows : weight.columns;
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < rows; ++i) {
      weights.read_rows(weight, i, 1, row.data());
      if (weight.stored_transposed) {
        float& most = largest[static_cast<std::size_t>(i)];
        most = std::max(most, largest_magnitude(row));
      } else {
        for (std::size_t k = 0; k < row.size(); ++k) largest[k] = std::max(largest[k], std::fabs(row[k]));
      }
    }
  }
  return largest;
}

Model Model::load(std::shared_ptr<const ModelSource> source, std::shared_ptr<Backend> backend,
                  const Precision& precision, const Calibration& calibration,
                  const std::function<bool()>& should_stop) {
  const TimePoint begin = Clock::now();
  Model model;
  model.spec_ = spec_from_source(*source);
  model.precision_ = precision;
  model.source_ = std::move(source);
  model.backend_ = std::move(backend);
  model.warnings_ = model.spec_.warnings;
  const auto warnings = check_tensors(model.spec_, precision, *model.source_);
  model.warnings_.insert(model.warnings_.end(), warnings.begin(), warnings.end());
  model.program_ =
      program_of_checked(model.spec_, *model.source_, *model.backend_, precision, calibration, should_stop);
  model.load_time_ = elapsed(begin, Clock::now());
  return model;
}

}  // namespace assay
