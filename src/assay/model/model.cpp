#include "assay/model/model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/stored_quantization.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

// Of a tensor, as the file has it.
std::vector<std::int64_t> stored_shape(const WeightSpec& weight) {
  const std::int64_t count = weight.tensor_count > 0 ? weight.tensor_count : weight.outputs();
  if (weight.kind == WeightSpec::Kind::vector) return {count};
  if (weight.stored_transposed) return {weight.columns, count};
  return {count, weight.columns};
}

class FolderSource : public WeightSource {
 public:
  explicit FolderSource(const ModelFolder& folder) : folder_(folder) {}
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                 float* out) const override {
    const ModelFolder::Location at = folder_.find(weight.name);
    const std::int64_t width = stored_shape(weight).back();
    if (weight.stored_transposed && width != weight.rows) {  // some columns of each row
      for (std::int64_t row = 0; row < count; ++row)
        at.file->read_floats(*at.tensor, (first + row) * width + weight.tensor_first, weight.rows,
                             out + row * weight.rows);
      return;
    }
    if (weight.kind == WeightSpec::Kind::vector)
      return at.file->read_floats(*at.tensor, weight.tensor_first, weight.columns, out);
    at.file->read_floats(*at.tensor, (weight.tensor_first + first) * width, count * width, out);
  }
  void read_codes(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                  std::uint8_t* out) const override {
    read_stored_codes(folder_, weight, first, count, out);
  }
  std::vector<float> read_scales(const WeightSpec& weight) const override {
    return read_stored_scales(folder_, weight);
  }

 private:
  const ModelFolder& folder_;
};

void check_tensor(const WeightSpec& weight, const ModelFolder& folder) {
  const ModelFolder::Location at = folder.find(weight.name);
  if (at.tensor == nullptr) throw Error("{}: tensor '{}' is missing", folder.path().string(), weight.name);
  if (weight.is_stored_quantized) return check_stored(weight, folder);
  if (!info(at.tensor->dtype).is_weight)
    throw Error("{}: tensor '{}': expected F32, F16 or BF16, found {}", at.file->path().string(), weight.name,
                info(at.tensor->dtype).safetensors);
  StoredTensor expected;
  expected.shape = stored_shape(weight);
  if (at.tensor->shape != expected.shape)
    throw Error("{}: tensor '{}': expected shape {} (by config.json), found {}", at.file->path().string(),
                weight.name, expected.shape_text(), at.tensor->shape_text());
}

bool ends_with_any(const std::string& name, const std::vector<std::string>& ends) {
  return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return name.ends_with(end); });
}

// The same numbers, whatever their types.
bool are_equal(const ModelFolder::Location& a, const ModelFolder::Location& b) {
  if (a.tensor->shape != b.tensor->shape || !info(a.tensor->dtype).is_weight ||
      !info(b.tensor->dtype).is_weight)
    return false;
  constexpr std::int64_t kSlab = 1 << 16;
  std::vector<float> left(kSlab), right(kSlab);
  for (std::int64_t done = 0; done < a.tensor->elements(); done += kSlab) {
    const std::int64_t count = std::min(kSlab, a.tensor->elements() - done);
    a.file->read_floats(*a.tensor, done, count, left.data());
    b.file->read_floats(*b.tensor, done, count, right.data());
    if (std::memcmp(left.data(), right.data(), static_cast<std::size_t>(count) * sizeof(float)) != 0)
      return false;
  }
  return true;
}

}  // namespace

std::vector<std::string> check_unused(const Plan& plan, const ModelSpec& spec, const ModelFolder& folder) {
  std::set<std::string> used;
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole)) used.insert(part.spec.name);
  // What a quantized checkpoint keeps beside a weight is named after it, or after its module.
  const auto belongs_to_weight = [&](const std::string& name) {
    for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
         dot = name.rfind('.', dot - 1)) {
      const std::string owner = name.substr(0, dot);
      for (const std::string& weight : {owner, owner + ".weight"})
        if (used.count(weight) > 0 && is_companion(std::string_view(name).substr(dot))) return true;
    }
    return false;
  };
  std::vector<std::string> harmless, unknown;
  for (const ModelFolder::Location& at : folder.all()) {
    const std::string& name = at.tensor->name;
    if (used.count(name) > 0 || belongs_to_weight(name)) continue;
    if (ends_with_any(name, spec.names.buffers)) {
      harmless.push_back(name);
      continue;
    }
    if (spec.is_head_tied && name == "lm_head.weight") {
      if (are_equal(at, folder.find(spec.names.tokens))) continue;
      throw Error(
          "{}: tensor 'lm_head.weight' differs from '{}', though tie_word_embeddings says that they are one: "
          "expected "
          "tie_word_embeddings false in config.json, or no lm_head.weight",
          at.file->path().string(), spec.names.tokens);
    }
    unknown.push_back(name);
  }
  if (!unknown.empty())
    throw Error(
        "{}: {} tensor{} of the file {} not used by the model that config.json describes, the first is '{}': "
        "expected a configuration that uses every weight",
        folder.path().string(), unknown.size(), unknown.size() == 1 ? "" : "s",
        unknown.size() == 1 ? "is" : "are", unknown.front());
  if (harmless.empty()) return {};
  return {fmt::format("{} buffer{} of the file not needed, the first is '{}'", harmless.size(),
                      harmless.size() == 1 ? " is" : "s are", harmless.front())};
}

void check_weights(const Plan& plan, const ModelFolder& folder) {
  for (const WeightSpec& whole : plan.weights)
    for (const TensorPart& part : tensors_of(whole)) check_tensor(part.spec, folder);
}

std::unique_ptr<Program> prepare_program(const ModelSpec& spec, const ModelFolder& folder, Backend& backend,
                                         const Precision& precision, const Calibration& calibration) {
  const bool keeps_calibration = precision.is_stored && precision.needs_calibration();
  if (precision.needs_calibration() && !keeps_calibration && calibration.empty())
    throw Error("{}: it needs a calibration, and none was given", precision.name);
  Plan plan = plan_forward(spec, precision, calibration);
  check_weights(plan, folder);
  if (keeps_calibration) plan = plan_forward(spec, precision, stored_calibration(plan, precision, folder));
  return backend.prepare(plan, FolderSource(folder));
}

std::vector<float> column_magnitudes(const WeightSpec& whole, const ModelFolder& folder) {
  const FolderSource source(folder);
  std::vector<float> largest(static_cast<std::size_t>(whole.columns));
  for (const TensorPart& part : tensors_of(whole)) {
    const WeightSpec& weight = part.spec;
    const std::int64_t rows = weight.stored_transposed ? weight.columns : weight.rows,
                       width = weight.stored_transposed ? weight.rows : weight.columns;
    std::vector<float> row(static_cast<std::size_t>(width));
    for (std::int64_t i = 0; i < rows; ++i) {
      source.read_rows(weight, i, 1, row.data());
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

Model Model::load(std::shared_ptr<const ModelFolder> folder, std::shared_ptr<Backend> backend,
                  const Precision& precision, const Calibration& calibration) {
  const TimePoint begin = Clock::now();
  Model model;
  model.spec_ = spec_from_folder(*folder);
  model.precision_ = precision;
  model.folder_ = std::move(folder);
  model.backend_ = std::move(backend);
  model.warnings_ = model.spec_.warnings;
  const auto unused = check_unused(plan_forward(model.spec_, Precision{}), model.spec_, *model.folder_);
  model.warnings_.insert(model.warnings_.end(), unused.begin(), unused.end());
  model.program_ = prepare_program(model.spec_, *model.folder_, *model.backend_, precision, calibration);
  model.load_time_ = elapsed(begin, Clock::now());
  return model;
}

}  // namespace assay
