#include "assay/session/calibrate.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/model/model.h"
#include "assay/quant/magnitude.h"
#include "assay/session/text_through_model.h"

namespace assay {

namespace {

class Calibrating {
 public:
  Calibrating(const ModelSource& source, Backend& backend, const Precision& precision,
              std::span<const TokenId> ids, const std::function<bool()>& should_stop)
      : source_(source), precision_(precision), text_(source, backend, ids, should_stop) {}

  Calibration run() {
    text_.run([this](const TextThroughModel::Read& read_text) {
      if (precision_.smooth_quant >= 0) find_smoothing(read_text);
      if (precision_.input_scale == InputScale::calibrated) find_ranges(read_text);
    });
    Calibration calibration;
    for (const auto& [id, found] : found_)
      for (const TensorPart& part : tensors_of(spec(id))) calibration[part.spec.name] = found;
    return calibration;
  }

 private:
  // The columns of a weight of the whole plan.
  InputCalibration& found_of(WeightId id) { return found_[id]; }
  const WeightSpec& spec(WeightId id) const { return text_.spec(id); }

  void find_smoothing(const TextThroughModel::Read& read_text) {
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
          smoothing_factors(columns, column_magnitudes(spec(id), source_), precision_.smooth_quant);
    }
  }

  void find_ranges(const TextThroughModel::Read& read_text) {
    std::map<WeightId, RangeObserver> observers;
    std::vector<float> batch;
    read_text([&](const ObservedInput& in) {
      const auto at =
          observers.try_emplace(in.weight, ObserverOptions{.calibrator = precision_.calibrator}).first;
      const std::vector<float>& smoothing = found_of(in.weight).smoothing;
      batch.resize(static_cast<std::size_t>(in.rows * in.columns));
      for (std::int64_t row = 0; row < in.rows; ++row) {
        const float* const x = in.x + row * in.stride;
        float* const to = batch.data() + row * in.columns;
        if (smoothing.empty())
          std::copy_n(x, in.columns, to);
        else
          std::transform(x, x + in.columns, smoothing.begin(), to, std::divides<>());
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
      throw Error(
          "{}: calibration: expected finite activations at its input, found NaN or infinity: the model's "
          "weights or arithmetic are broken",
          source_.find(spec(id).name).where());
  }

  const ModelSource& source_;
  const Precision& precision_;
  TextThroughModel text_;
  std::map<WeightId, InputCalibration> found_;
};

void require_enough(std::size_t tokens, const std::string& where) {
  if (static_cast<std::int64_t>(tokens) < kMinCalibrationTokens)
    throw Error("{}: expected at least {} tokens to calibrate on, found {}", where, kMinCalibrationTokens,
                tokens);
}

}  // namespace

CalibrationText read_calibration(const std::filesystem::path& file, const Tokenizer& tokenizer,
                                 Newlines newlines) {
  auto [text, change] = read_text(file, newlines);
  if (text.empty()) throw Error("{} is empty: a calibration needs text", file.string());
  check_utf8(text, file.string());
  CalibrationText calibration;
  calibration.change = std::move(change);
  calibration.sha256 = sha256_hex(text);
  // No token is longer than this on average: what lies beyond would not be used.
  constexpr std::size_t kMaxBytes = static_cast<std::size_t>(kMaxCalibrationTokens) * 16;
  if (text.size() > kMaxBytes) {
    std::size_t end = kMaxBytes;
    while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // between two characters
    text.resize(end);
  }
  calibration.ids = tokenizer.encode(text);
  require_enough(calibration.ids.size(), file.string());
  if (calibration.ids.size() > static_cast<std::size_t>(kMaxCalibrationTokens))
    calibration.ids.resize(static_cast<std::size_t>(kMaxCalibrationTokens));
  return calibration;
}

Calibration calibrate(const std::shared_ptr<const ModelSource>& source,
                      const std::shared_ptr<Backend>& backend, const Precision& precision,
                      std::span<const TokenId> ids, const std::function<bool()>& should_stop) {
  require_enough(ids.size(), "calibration");
  return Calibrating(*source, *backend, precision, ids, should_stop).run();
}

}  // namespace assay
