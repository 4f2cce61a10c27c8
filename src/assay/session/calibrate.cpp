#include "assay/session/calibrate.h"

#include <algorithm>
#include <cmath>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

class Calibrating {
 public:
  Calibrating(const Model& model, const Precision& precision, std::span<const TokenId> ids,
              const std::function<bool()>& should_stop)
      : model_(model), precision_(precision), ids_(ids), should_stop_(should_stop) {}

  Calibration run() {
    if (precision_.smooth_quant >= 0) find_smoothing();
    if (precision_.input_scale == InputScale::calibrated) find_ranges();
    Calibration calibration;
    for (const auto& [id, found] : found_)
      for (const TensorPart& part : tensors_of(spec(id))) calibration[part.spec.name] = found;
    return calibration;
  }

 private:
  InputCalibration& found_of(WeightId id) { return found_[id]; }
  const WeightSpec& spec(WeightId id) const {
    return model_.program().plan().weights[static_cast<std::size_t>(id)];
  }

  // Windows of the model's context, each a sequence of its own.
  void read_text(const InputObserver& observer) {
    Program& program = model_.program();
    program.observe_inputs(observer);
    const auto context = static_cast<std::size_t>(program.plan().context);
    for (std::size_t first = 0; first < ids_.size(); first += context) {
      if (should_stop_ && should_stop_())
        throw Error("interrupted after {} of {} tokens", first, ids_.size());
      const auto cache = program.make_cache();
      const StepItem item{cache->add_sequence(), ids_.subspan(first, std::min(context, ids_.size() - first))};
      run_in_steps(program, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
    }
    program.observe_inputs({});
  }

  void find_smoothing() {
    std::map<WeightId, std::vector<float>> largest;
    read_text([&](const ObservedInput& in) {
      std::vector<float>& columns = largest[in.weight];
      columns.resize(static_cast<std::size_t>(in.columns));
      for (std::int64_t row = 0; row < in.rows; ++row)
        for (std::size_t k = 0; k < columns.size(); ++k)
          columns[k] = std::max(columns[k], std::fabs(in.x[row * in.stride + static_cast<std::int64_t>(k)]));
    });
    for (const auto& [id, columns] : largest) {
      require_finite(largest_magnitude(columns), id);
      found_of(id).smoothing =
          smoothing_factors(columns, column_magnitudes(spec(id), model_.folder()), precision_.smooth_quant);
    }
  }

  void find_ranges() {
    std::map<WeightId, RangeObserver> observers;
    std::vector<float> batch;
    read_text([&](const ObservedInput& in) {
      const auto at =
          observers.try_emplace(in.weight, ObserverOptions{.calibrator = precision_.calibrator}).first;
      const std::vector<float>& smoothing = found_of(in.weight).smoothing;
      batch.clear();
      for (std::int64_t row = 0; row < in.rows; ++row) {
        const float* x = in.x + row * in.stride;
        for (std::int64_t k = 0; k < in.columns; ++k)
          batch.push_back(smoothing.empty() ? x[k] : x[k] / smoothing[static_cast<std::size_t>(k)]);
      }
      require_finite(largest_magnitude(batch), in.weight);
      at->second.observe(batch);
    });
    for (const auto& [id, observer] : observers) {
      InputCalibration& found = found_of(id);
      found.range = observer.range();
      found.code = uint8_code(found.range);
      found.clipped_share = observer.clipped_share();
    }
  }

  void require_finite(float largest, WeightId id) const {
    if (!std::isfinite(largest))
      throw Error("calibration: expected finite inputs of '{}', found NaN or infinity", spec(id).name);
  }

  const Model& model_;
  const Precision& precision_;
  std::span<const TokenId> ids_;
  const std::function<bool()>& should_stop_;
  std::map<WeightId, InputCalibration> found_;
};

void require_enough(std::size_t tokens, const std::string& where) {
  if (static_cast<std::int64_t>(tokens) < kFewestCalibrationTokens)
    throw Error("{}: expected at least {} tokens to calibrate on, found {}", where, kFewestCalibrationTokens,
                tokens);
}

}  // namespace

CalibrationText read_calibration(const std::filesystem::path& file, const Tokenizer& tokenizer) {
  std::string text = read_text_file(file);
  if (text.empty()) throw Error("{} is empty: a calibration needs text", file.string());
  check_utf8(text, file.string());
  CalibrationText calibration;
  calibration.sha256 = sha256_hex(text);
  // No token is longer than this on average: what lies beyond would not be used.
  constexpr std::size_t kMostBytes = static_cast<std::size_t>(kMostCalibrationTokens) * 16;
  if (text.size() > kMostBytes) {
    std::size_t end = kMostBytes;
    while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // between two characters
    text.resize(end);
  }
  calibration.ids = tokenizer.encode(text);
  require_enough(calibration.ids.size(), file.string());
  if (calibration.ids.size() > static_cast<std::size_t>(kMostCalibrationTokens))
    calibration.ids.resize(static_cast<std::size_t>(kMostCalibrationTokens));
  return calibration;
}

Calibration calibrate(const std::shared_ptr<const ModelFolder>& folder,
                      const std::shared_ptr<Backend>& backend, const Precision& precision,
                      std::span<const TokenId> ids, const std::function<bool()>& should_stop) {
  require_enough(ids.size(), "calibration");
  const Model model = Model::load(folder, backend, precision_from_name("float32"));
  return Calibrating(model, precision, ids, should_stop).run();
}

}  // namespace assay
