#include "assay/session/calibrate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/sha256.h"
#include "assay/generate/steps.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/plan/sections.h"
#include "assay/quant/magnitude.h"

namespace assay {

namespace {

// The weights of a section: what the model has, and what the section begins with.
class SectionSource : public WeightSource {
 public:
  SectionSource(const Section& section, const Plan& whole, const WeightSource& model)
      : section_(section), whole_(whole), model_(model) {}
  // Rows of the table that the section begins with: its rows of the model's table, or hidden states.
  std::span<const TokenId> used_tokens;
  std::span<const float> states;

  void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                 float* out) const override {
    const std::int64_t first = first_row * weight.columns, count = row_count * weight.columns;
    if (is(section_.probe, weight)) {
      std::fill_n(out, count, 0.0F);
    } else if (is(section_.states, weight)) {
      std::copy_n(states.data() + first, count, out);
    } else if (const WeightId table = table_of_tokens(section_); is(table, weight)) {
      const WeightSpec& from = whole_.weight(section_.whole[static_cast<std::size_t>(table)]);
      for (std::int64_t i = 0; i < row_count; ++i)
        model_.read_rows(from, used_tokens[static_cast<std::size_t>(first_row + i)], 1,
                         out + i * weight.columns);
    } else {
      model_.read_rows(weight, first_row, row_count, out);
    }
  }

  // kNone in sections behind the first.
  static WeightId table_of_tokens(const Section& section) {
    for (const Op& op : section.plan.ops)
      if (const auto* embed = std::get_if<EmbedOp>(&op.kind);
          embed != nullptr && embed->tokens != kNone && embed->tokens != section.states)
        return embed->tokens;
    return kNone;
  }

 private:
  bool is(WeightId id, const WeightSpec& weight) const {
    return id != kNone && section_.plan.weight(id).name == weight.name;
  }
  const Section& section_;
  const Plan& whole_;
  const WeightSource& model_;
};

// Runs the text through one section of the model after another, each window of the model's context a sequence
// of its own. A row of the table that a section begins with is a token of the text.
class Calibrating {
 public:
  Calibrating(const ModelSource& source, Backend& backend, const Precision& precision,
              std::span<const TokenId> ids, const std::function<bool()>& should_stop)
      : source_(source),
        backend_(backend),
        precision_(precision),
        ids_(ids),
        should_stop_(should_stop),
        weights_(weight_source(source)) {}

  Calibration run() {
    const ModelSpec model = spec_from_source(source_);
    const Precision float32 = precision_from_name("float32");
    check_tensors(model, float32, source_);
    whole_ = plan_forward(model, float32);
    const std::vector<Section> sections = sections_of(whole_);
    for (std::size_t i = 0; i < sections.size(); ++i) {
      done_ = static_cast<double>(i) / static_cast<double>(sections.size());
      run(sections[i]);
    }
    Calibration calibration;
    for (const auto& [id, found] : found_)
      for (const TensorPart& part : tensors_of(whole_.weight(id))) calibration[part.spec.name] = found;
    return calibration;
  }

 private:
  // Replaces the hidden states that the section begins with by those that it ends with.
  void run(Section section) {
    SectionSource source(section, whole_, *weights_);
    Plan& plan = section.plan;
    std::vector<TokenId> rows(ids_.size()), used;
    if (const WeightId table = SectionSource::table_of_tokens(section); table != kNone) {
      used.assign(ids_.begin(), ids_.end());
      std::sort(used.begin(), used.end());
      used.erase(std::unique(used.begin(), used.end()), used.end());
      require_tokens(used);
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i] = static_cast<TokenId>(std::lower_bound(used.begin(), used.end(), ids_[i]) - used.begin());
      WeightSpec& spec = plan.weights[static_cast<std::size_t>(table)];
      spec.kind = WeightSpec::Kind::table;
      spec.rows = plan.vocab = static_cast<std::int64_t>(used.size());
      source.used_tokens = used;
    } else {
      std::iota(rows.begin(), rows.end(), 0);
      plan.weights[static_cast<std::size_t>(section.states)].rows = plan.vocab =
          static_cast<std::int64_t>(rows.size());
      source.states = states_;
    }
    program_ = backend_.prepare(plan, source);
    rows_ = rows;
    section_ = &section;
    states_.resize(rows.size() *
                   static_cast<std::size_t>(plan.buffers[static_cast<std::size_t>(plan.hidden)].columns));
    if (precision_.smooth_quant >= 0) find_smoothing();
    if (precision_.input_scale == InputScale::calibrated) find_ranges();
    program_.reset();
  }

  // The columns of a weight of the whole plan.
  InputCalibration& found_of(WeightId id) { return found_[id]; }
  const WeightSpec& spec(WeightId id) const { return whole_.weight(id); }

  // The observer sees the inputs of the section's matrices, by their numbers in the whole plan.
  void read_text(const InputObserver& observer) {
    float* states = states_.data();
    program_->observe_inputs([&](ObservedInput in) {
      if (in.weight == section_->probe) {
        for (std::int64_t row = 0; row < in.rows; ++row, states += in.columns)
          std::copy_n(in.x + row * in.stride, in.columns, states);
        return;
      }
      in.weight = section_->whole[static_cast<std::size_t>(in.weight)];
      observer(in);
    });
    const auto context = static_cast<std::size_t>(whole_.context);
    for (std::size_t first = 0; first < rows_.size(); first += context) {
      if (should_stop_ && should_stop_())
        throw Error("interrupted: the calibration was done to {:.0f} %", 100 * done_);
      const auto cache = program_->make_cache();
      const StepItem item{cache->add_sequence(),
                          rows_.subspan(first, std::min(context, rows_.size() - first))};
      run_in_steps(*program_, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
    }
    program_->observe_inputs({});
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
          smoothing_factors(columns, column_magnitudes(spec(id), source_), precision_.smooth_quant);
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

  void require_tokens(const std::vector<TokenId>& used) const {
    for (const TokenId id : {used.front(), used.back()})
      if (id < 0 || id >= whole_.vocab)
        throw Error("token id {} is outside the model's vocabulary of {}", id, whole_.vocab);
  }

  void require_finite(float largest, WeightId id) const {
    if (!std::isfinite(largest))
      throw Error("calibration: expected finite inputs of '{}', found NaN or infinity", spec(id).name);
  }

  const ModelSource& source_;
  Backend& backend_;
  const Precision& precision_;
  std::span<const TokenId> ids_;
  const std::function<bool()>& should_stop_;
  std::unique_ptr<const WeightSource> weights_;
  Plan whole_;
  std::map<WeightId, InputCalibration> found_;
  double done_ = 0;            // how much of the sections is done
  std::vector<float> states_;  // [tokens, hidden]
  // Of the section that runs.
  const Section* section_ = nullptr;
  std::unique_ptr<Program> program_;
  std::span<const TokenId> rows_;  // by token
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
