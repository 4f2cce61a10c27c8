#include "assay/model/model.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/stored_quantization.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

std::vector<std::int64_t> stored_shape(const WeightSpec& weight) {
  if (weight.kind == WeightSpec::Kind::vector) return {weight.columns};
  if (weight.stored_transposed) return {weight.columns, weight.rows};
  return {weight.rows, weight.columns};
}

class FolderSource : public WeightSource {
 public:
  explicit FolderSource(const ModelFolder& folder) : folder_(folder) {}
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t count,
                 float* out) const override {
    const ModelFolder::Location at = folder_.find(weight.name);
    const std::int64_t width = stored_shape(weight).back();
    at.file->read_floats(*at.tensor, first * width, count * width, out);
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

}  // namespace

void check_weights(const Plan& plan, const ModelFolder& folder) {
  for (const WeightSpec& weight : plan.weights) {
    const ModelFolder::Location at = folder.find(weight.name);
    if (at.tensor == nullptr) throw Error("{}: tensor '{}' is missing", folder.path().string(), weight.name);
    if (weight.is_stored_quantized) {
      check_stored(weight, folder);
      continue;
    }
    if (!info(at.tensor->dtype).is_weight)
      throw Error("{}: tensor '{}': expected F32, F16 or BF16, found {}", at.file->path().string(),
                  weight.name, info(at.tensor->dtype).safetensors);
    StoredTensor expected;
    expected.shape = stored_shape(weight);
    if (at.tensor->shape != expected.shape)
      throw Error("{}: tensor '{}': expected shape {} (by config.json), found {}", at.file->path().string(),
                  weight.name, expected.shape_text(), at.tensor->shape_text());
  }
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

std::vector<float> column_magnitudes(const WeightSpec& weight, const ModelFolder& folder) {
  const FolderSource source(folder);
  const auto shape = stored_shape(weight);
  std::vector<float> largest(static_cast<std::size_t>(weight.columns)),
      row(static_cast<std::size_t>(shape[1]));
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    source.read_rows(weight, i, 1, row.data());
    if (weight.stored_transposed)
      largest[static_cast<std::size_t>(i)] = largest_magnitude(row);
    else
      for (std::size_t k = 0; k < row.size(); ++k) largest[k] = std::max(largest[k], std::fabs(row[k]));
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
  model.program_ = prepare_program(model.spec_, *model.folder_, *model.backend_, precision, calibration);
  model.load_time_ = elapsed(begin, Clock::now());
  return model;
}

}  // namespace assay
