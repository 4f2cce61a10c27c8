#include "assay/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/memory.h"
#include "assay/base/new_folder.h"
#include "assay/base/thread_pool.h"
#include "assay/base/tokenizer_files.h"
#include "assay/base/units.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/companion_tensors.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/checkpoint/safetensors_writer.h"
#include "assay/config/fields.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/int8.h"
#include "assay/quant/quantizer.h"
#include "assay/quantize/companions.h"
#include "assay/quantize/matrix_quantizer.h"
#include "assay/quantize/plain_folder.h"
#include "assay/quantize/target.h"
#include "assay/quantize/writable.h"
#include "assay/session/calibrate.h"
#include "assay/session/load.h"
#include "assay/session/load_parts.h"
#include "assay/tensor/half.h"

namespace assay {

namespace fs = std::filesystem;
namespace bnb = bitsandbytes;
namespace int8 = int8_checkpoint;

namespace {

constexpr std::int64_t kCopySlab = std::int64_t{1}
                                   << 18;  // numbers of a tensor held at once, where that will do

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// The type that everything else is written in: as asked for, else as Transformers would load the model.
DType dtype_of(std::optional<DType> asked, const ModelSource& source, const Plan& plan) {
  if (asked) return *asked;
  const JsonView config = source.config();
  std::string wanted;
  for (const char* key : {"dtype", "torch_dtype"})
    if (wanted.empty()) wanted = config.text_or(key, "");
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    if (wanted == name_of(type)) return type;
  const DType stored = source.find(plan.weights.front().name)->dtype;
  return info(stored).is_weight ? stored : DType::f32;
}

// The job, with what its steps share.
class Job {
 public:
  Job(const std::string& candidate, const fs::path& out, const QuantizeOptions& options)
      : options_(options),
        precision_(checked_precision(options)),
        source_(open_source(locate_model(candidate))),
        spec_(spec_from_source(*source_)),
        plan_(checked_plan(candidate)),
        dtype_(dtype_of(options.config.dtype, *source_, plan_)),
        pool_(options.config.threads.value_or(default_thread_count())) {
    check_writable(spec_, *source_);
    check_folder_target(out, *source_, options.replaces);
    folder_ = std::make_unique<NewFolder>(out, options.replaces);
  }

  QuantizeReport run(const fs::path& out) {
    const TimePoint begin = Clock::now();
    QuantizeReport report;
    report.path = out;
    RunConfig quantized = options_.config;
    quantized.dtype.reset();
    report.precision = precision_.name + quantized.label_of_numbers();
    report.dtype = name_of(dtype_);
    if (precision_.needs_calibration()) calibrate_inputs(report);
    report.coverage = coverage_of(plan_);
    report.parameters = plan_.parameters();
    write_weights(report);
    report.files = copy_companions(*source_, folder_->path());
    report.files.insert(report.files.begin(), {"config.json", "model.safetensors"});
    report.file_bytes_before = source_->weight_file_bytes();
    report.file_bytes_after = fs::file_size(folder_->path() / "model.safetensors");
    report.tensor_bytes_after = writer_.data_bytes();
    write_config();  // last: without it the folder is none
    stop_where_asked();
    folder_->keep();
    report.seconds = elapsed(begin, Clock::now()).value;
    return report;
  }

 private:
  static Precision checked_precision(const QuantizeOptions& options) {
    const RunConfig& config = options.config;
    check_values(config);
    if (config.quantize_head)
      throw FieldError("quantize_head",
                       "a folder keeps the LM head as it is, so that Transformers reads it: expected none");
    static constexpr std::string_view kHeld[] = {
        "precision",  "dtype",       "llm_int8_threshold", "include",  "exclude", "allow_non_finite",
        "calibrator", "calibration", "smooth_quant",       "newlines", "threads"};
    for (const Field& field : fields())
      if (field.is_set(config) && std::find(std::begin(kHeld), std::end(kHeld), field.key) == std::end(kHeld))
        throw FieldError(field.key, "it changes nothing of a folder: expected none");
    Precision precision = precision_of(config.precision.value_or(Preset::nf4));
    if (!precision.is_quantized() || precision.weights == formats::kInt4G128 || precision.has_fallbacks)
      throw FieldError(
          "precision",
          "a folder can hold float32, bfloat16, nf4, fp4, nf4-dq, fp4-dq, llm-int8, int8-dynamic "
          "or int8-static, found {}",
          precision.name);
    RunConfig without_dtype = config;  // which this class writes itself
    without_dtype.dtype.reset();
    apply_to(precision, without_dtype);
    return precision;
  }

  Plan checked_plan(const std::string& candidate) const {
    check_unquantized(candidate, spec_, *source_);
    Plan plan = plan_forward(spec_, precision_);
    check_tensors(spec_, precision_, *source_);
    if (coverage_of(plan).quantized == 0)
      throw Error("{}: {} quantizes nothing of this model", candidate, precision_.name);
    return plan;
  }

  // Runs the text, and plans again with what it told.
  void calibrate_inputs(QuantizeReport& report) {
    tell("calibrating");
    const TimePoint begin = Clock::now();
    const CalibrationText text =
        read_calibration(options_.config.calibration ? fs::path(*options_.config.calibration)
                                                     : shipped_file("texts/calibrate.txt"),
                         Tokenizer::from_files(source_->tokenizer_files()), options_.config.newlines);
    const BackendOptions backend{.threads = pool_.size()};
    calibration_ =
        calibrate(source_, make_backend(Device{}, backend), precision_, text.ids, options_.should_stop);
    plan_ = plan_forward(spec_, precision_, calibration_);
    calibration_sha256_ = report.calibration_sha256 = text.sha256;
    report.calibration_change = text.change;
    report.calibration_s = elapsed(begin, Clock::now()).value;
  }

  void stop_where_asked() const {
    if (options_.should_stop && options_.should_stop()) throw Error("interrupted: nothing was written");
  }
  void tell(const std::string& now) const {
    stop_where_asked();
    if (options_.on_progress) options_.on_progress(now, tensors_done_, tensors_, seconds_left());
  }
  // By the bytes that were read so far; once there are enough of them.
  std::optional<double> seconds_left() const {
    const double seconds = elapsed(begin_, Clock::now()).value;
    if (seconds < 1 || read_ == 0) return std::nullopt;
    return seconds * static_cast<double>(to_read_ - read_) / static_cast<double>(read_);
  }
  void count_read(const std::string& name, double share_of_tensor) {
    read_ += static_cast<std::int64_t>(static_cast<double>(source_->find(name)->bytes) * share_of_tensor);
    tell(name);
  }

  // Names every tensor, then makes the file, then writes the tensors as they are read.
  void write_weights(QuantizeReport& report) {
    std::vector<WeightSpec> weights;
    for (const WeightSpec& whole : plan_.weights)
      for (TensorPart& part : tensors_of(whole)) weights.push_back(std::move(part.spec));
    const bool is_nested = has_nested_scales(precision_.weights);
    for (const WeightSpec& weight : weights)
      to_read_ += static_cast<std::int64_t>(source_->find(weight.name)->bytes) *
                  (is_nested && is_quantized(weight.format) ? 2 : 1);
    tensors_ = static_cast<std::int64_t>(weights.size());
    begin_ = Clock::now();
    MatrixQuantizer quantize(*source_, precision_.weights, dtype_, precision_.allows_non_finite, pool_,
                             [this](const WeightSpec& weight, std::int64_t rows) {
                               count_read(weight.name,
                                          static_cast<double>(rows) / static_cast<double>(weight.rows));
                             });
    std::map<std::string, NestedScales> nested;  // the state of a tensor says their mean, and its size varies
    for (const WeightSpec& weight : weights) {
      tell(weight.name);
      if (!is_quantized(weight.format)) {
        writer_.add(weight.name, type_of_plain(weight), source_->find(weight.name)->shape);
        continue;
      }
      if (is_nested) nested[weight.name] = quantize.nest(weight);
      QuantizedTensor& tensor = report.tensors.emplace_back();
      tensor.name = weight.name;
      tensor.rows = weight.rows;
      tensor.columns = weight.columns;
      tensor.bytes_before = static_cast<std::int64_t>(source_->find(weight.name)->bytes);
      tensor.bytes_after = is_own()                 ? name_own_int8(weight)
                           : is_int8(weight.format) ? name_int8(weight)
                                                    : name_four_bit(weight, nested);
    }
    tell("model.safetensors");
    writer_.create(folder_->path() / "model.safetensors");
    for (const auto& [name, bytes] : known_) writer_.write(name, 0, bytes);
    std::size_t quantized = 0;
    for (const WeightSpec& weight : weights) {
      tell(weight.name);
      if (is_quantized(weight.format)) {
        const auto found = nested.find(weight.name);
        const NestedScales* scales = found == nested.end() ? nullptr : &found->second;
        const Quantized made =
            quantize(weight, scales, [&](std::uint64_t first, std::span<const std::byte> codes) {
              writer_.write(weight.name, first, codes);
            });
        write_scales(weight, made.scales, scales);
        report.tensors[quantized].non_finite = made.non_finite;
        report.tensors[quantized].error = made.error;
        ++quantized;
      } else {
        write_plain(weight);
      }
      ++tensors_done_;
    }
    tell("model.safetensors");
    writer_.finish();
  }

  // Names a tensor and returns its bytes.
  std::int64_t name_tensor(const std::string& name, DType dtype, const std::vector<std::int64_t>& shape) {
    std::int64_t bytes = info(dtype).bytes;
    for (const std::int64_t size : shape) bytes *= size;
    writer_.add(name, dtype, shape);
    return bytes;
  }
  // The same of one whose few bytes are known already.
  std::int64_t name_known(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                          std::span<const std::byte> bytes) {
    known_[name].assign(bytes.begin(), bytes.end());
    return name_tensor(name, dtype, shape);
  }
  std::int64_t name_floats(const std::string& name, std::span<const float> values) {
    return name_known(name, DType::f32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values));
  }

  // int8 that is not bitsandbytes'.
  bool is_own() const { return precision_.weights == formats::kInt8; }

  std::int64_t name_own_int8(const WeightSpec& weight) {
    const auto beside = [&](std::string_view suffix) { return module_of(weight.name) + std::string(suffix); };
    const auto name_one = [&](std::string_view suffix, DType dtype, const auto& value) {
      return name_known(beside(suffix), dtype, {}, std::as_bytes(std::span(&value, 1)));
    };
    std::int64_t bytes = name_tensor(weight.name, DType::i8, {weight.rows, weight.columns}) +
                         name_tensor(beside(int8::kAbsmax), DType::f32, {weight.rows});
    if (!precision_.needs_calibration()) return bytes;
    const InputCalibration& found = calibration_.at(weight.name);
    if (precision_.input_scale == InputScale::calibrated)
      bytes += name_one(int8::kInputScale, DType::f32, found.code.scale) +
               name_one(int8::kInputZeroPoint, DType::u8, static_cast<std::uint8_t>(found.code.zero_point)) +
               name_one(int8::kInputClippedShare, DType::f32, static_cast<float>(found.clipped_share));
    if (!found.smoothing.empty()) bytes += name_floats(beside(int8::kInputSmoothing), found.smoothing);
    return bytes;
  }

  std::int64_t name_int8(const WeightSpec& weight) {
    const std::string module = module_of(weight.name);
    const std::byte row_format{0};
    return name_tensor(weight.name, DType::i8, {weight.rows, weight.columns}) +
           name_tensor(module + std::string(bnb::kScb), DType::f32, {weight.rows}) +
           name_known(module + std::string(bnb::kWeightFormat), DType::u8, {}, std::span(&row_format, 1));
  }

  std::int64_t name_four_bit(const WeightSpec& weight, const std::map<std::string, NestedScales>& nested) {
    const auto beside = [&](std::string_view suffix) { return weight.name + std::string(suffix); };
    const bool is_nf4 = weight.format.element == ElementType::nf4;
    bnb::QuantState state;
    state.type = is_nf4 ? "nf4" : "fp4";
    state.dtype = name_of(dtype_);
    state.shape = {weight.rows, weight.columns};
    const std::int64_t blocks = ScaleLayout(weight.format, weight.rows, weight.columns).count;
    std::int64_t bytes = name_tensor(weight.name, DType::u8, {code_bytes(weight), 1});
    bytes += name_floats(beside(bnb::kQuantMap), codebook_of(is_nf4 ? FourBit::nf4 : FourBit::fp4));
    if (const auto found = nested.find(weight.name); found == nested.end()) {
      bytes += name_tensor(beside(bnb::kAbsmax), DType::f32, {blocks});
    } else {
      state.nested = bnb::QuantState::Nested{.offset = found->second.offset};
      bytes += name_tensor(beside(bnb::kAbsmax), DType::u8, {blocks});
      bytes += name_floats(beside(bnb::kNestedAbsmax), found->second.absmax);
      bytes += name_floats(beside(bnb::kNestedQuantMap), dynamic_map());
    }
    const std::string text = state.text();
    return bytes + name_known(beside(bnb::kQuantState) + state.type, DType::u8,
                              {static_cast<std::int64_t>(text.size())},
                              std::as_bytes(std::span(text.data(), text.size())));
  }

  void write_scales(const WeightSpec& weight, const std::vector<float>& scales, const NestedScales* nested) {
    if (nested != nullptr)
      writer_.write(weight.name + std::string(bnb::kAbsmax), 0, bytes_of(nested->codes));
    else if (is_own())
      writer_.write(module_of(weight.name) + std::string(int8::kAbsmax), 0, bytes_of(scales));
    else if (is_int8(weight.format))
      writer_.write(module_of(weight.name) + std::string(bnb::kScb), 0, bytes_of(scales));
    else
      writer_.write(weight.name + std::string(bnb::kAbsmax), 0, bytes_of(scales));
  }

  DType type_of_plain(const WeightSpec& weight) const {
    return is_own() && weight.kind == WeightSpec::Kind::vector ? DType::f32 : dtype_;
  }

  // A tensor that stays as it is, but for its type.
  void write_plain(const WeightSpec& weight) {
    const CheckpointTensor at = source_->find(weight.name);
    const bool is_float32 = type_of_plain(weight) == DType::f32;
    std::vector<float> slab(static_cast<std::size_t>(std::min(kCopySlab, at->elements())));
    std::vector<std::uint16_t> halves(slab.size());
    for (std::int64_t done = 0; done < at->elements();) {
      const std::int64_t count = std::min(kCopySlab, at->elements() - done);
      const auto part = std::span(slab).first(static_cast<std::size_t>(count));
      at.read_floats(done, count, slab.data());
      require_finite(part, at);
      const auto first = static_cast<std::uint64_t>(done);
      if (is_float32) {
        writer_.write(weight.name, first * 4, std::as_bytes(part));
      } else {
        for (std::size_t i = 0; i < part.size(); ++i) halves[i] = half_of(part[i], at);
        writer_.write(weight.name, first * 2, std::as_bytes(std::span(halves).first(part.size())));
      }
      done += count;
      count_read(weight.name, static_cast<double>(count) / static_cast<double>(at->elements()));
    }
  }

  void require_finite(std::span<const float> part, const CheckpointTensor& at) const {
    if (precision_.allows_non_finite ||
        std::all_of(part.begin(), part.end(), [](float x) { return std::isfinite(x); }))
      return;
    throw Error("{}: tensor '{}': expected finite numbers, found NaN or infinity", at.file().string(),
                at->name);
  }

  std::uint16_t half_of(float x, const CheckpointTensor& at) const {
    const std::uint16_t half = dtype_ == DType::bf16 ? float_to_bf16(x) : float_to_f16(x);
    if (std::isfinite(x) && !std::isfinite(rounded(dtype_, x)))
      throw Error("{}: tensor '{}': {} does not fit {}: expected the dtype float32 or bfloat16",
                  at.file().string(), at->name, x, name_of(dtype_));
    return half;
  }

  void write_config() const {
    Json config = source_->config().raw();
    config["dtype"] = name_of(dtype_);
    if (config.contains("torch_dtype")) config["torch_dtype"] = name_of(dtype_);
    config["quantization_config"] = is_own() ? own_config() : bnb_config();
    write_file_atomically(folder_->path() / "config.json", config.dump(2) + "\n");
  }

  Json own_config() const {
    const bool is_static = precision_.input_scale == InputScale::calibrated;
    return int8::to_json({.precision = is_static ? "int8-static" : "int8-dynamic",
                          .calibrator = is_static ? std::string(name_of(precision_.calibrator)) : "",
                          .smoothing = precision_.smooth_quant,
                          .calibration_sha256 = calibration_sha256_});
  }

  Json bnb_config() const {
    const bool is_four = is_four_bit(precision_.weights);
    const bool is_nf4 = precision_.weights.element == ElementType::nf4;
    bnb::ConfigToWrite written;
    written.is_eight_bit = !is_four;
    written.quant_type = is_nf4 ? "nf4" : "fp4";
    written.is_double = precision_.weights == formats::kNf4Dq || precision_.weights == formats::kFp4Dq;
    written.compute_dtype = is_four ? name_of(dtype_) : "float32";
    written.threshold = static_cast<double>(precision_.outlier_threshold);
    written.skip_modules = skipped();
    return bnb::to_json(written);
  }

  // A list replaces Transformers' own rule, so that it names what the rule leaves out as well.
  std::vector<std::string> skipped() const {
    std::vector<std::string> names;
    for (const std::string& module : modules_of(plan_))
      if (precision_.why_not_quantized(module)) names.push_back(module);
    if (!names.empty()) names.insert(names.begin(), module_of(spec_.names.head));
    return names;
  }

  const QuantizeOptions& options_;
  Precision precision_;
  std::shared_ptr<const ModelSource> source_;
  ModelSpec spec_;
  Plan plan_;
  DType dtype_;
  ThreadPool pool_;
  Calibration calibration_;
  std::string calibration_sha256_;
  std::unique_ptr<NewFolder> folder_;
  SafetensorsWriter writer_;
  std::map<std::string, std::vector<std::byte>> known_;  // bytes of small tensors, by name
  // Of the progress: bytes of the source, and tensors.
  std::int64_t read_ = 0, to_read_ = 0, tensors_done_ = 0, tensors_ = 0;
  TimePoint begin_;
};

}  // namespace

QuantizeReport quantize_model(const std::string& candidate, const fs::path& out,
                              const QuantizeOptions& options) {
  if (options.config.precision == Preset::float32 || options.config.precision == Preset::bfloat16)
    return write_plain_folder(candidate, out, options);
  return Job(candidate, out, options).run(out);
}

}  // namespace assay
