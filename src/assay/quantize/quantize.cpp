#include "assay/quantize/quantize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <nlohmann/json.hpp>

#include "assay/base/cpu.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/base/new_folder.h"
#include "assay/base/thread_pool.h"
#include "assay/base/units.h"
#include "assay/checkpoint/bitsandbytes.h"
#include "assay/checkpoint/companion_tensors.h"
#include "assay/checkpoint/int8_checkpoint.h"
#include "assay/checkpoint/safetensors_writer.h"
#include "assay/config/fields.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/quant/four_bit.h"
#include "assay/quant/int8.h"
#include "assay/quantize/matrix_quantizer.h"
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
DType dtype_of(std::optional<DType> asked, const ModelFolder& folder, const Plan& plan) {
  if (asked) return *asked;
  const JsonView config = folder.config();
  std::string wanted;
  for (const char* key : {"dtype", "torch_dtype"})
    if (wanted.empty()) wanted = config.text_or(key, "");
  for (const DType type : {DType::f32, DType::bf16, DType::f16})
    if (wanted == name_of(type)) return type;
  const DType stored = folder.find(plan.weights.front().name)->dtype;
  return info(stored).is_weight ? stored : DType::f32;
}

// The job, with what its steps share.
class Job {
 public:
  Job(const std::string& candidate, const fs::path& out, const QuantizeOptions& options)
      : options_(options),
        precision_(checked_precision(options)),
        source_(std::make_shared<const ModelFolder>(locate_model(candidate))),
        spec_(spec_from_folder(*source_)),
        plan_(checked_plan(candidate)),
        dtype_(dtype_of(options.config.dtype, *source_, plan_)),
        pool_(options.config.threads.value_or(default_thread_count())) {
    if (!spec_.names.other_modalities.empty())
      throw Error(
          "{}: text_config: a folder of the text part alone would lose the tensors for images or sound: "
          "expected a model of text",
          source_->config().where());
    check_target(out);
    folder_ = std::make_unique<NewFolder>(out, options.replaces);
    scratch_ = std::make_unique<ScratchFile>(folder_->path());
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
    MatrixQuantizer quantize(*source_, precision_.weights, dtype_, precision_.allows_non_finite, pool_);
    for (std::size_t i = 0; i < plan_.weights.size(); ++i)
      for (const TensorPart& part : tensors_of(plan_.weights[i])) {
        const WeightSpec& weight = part.spec;
        step(weight.name, static_cast<std::int64_t>(i));
        if (is_quantized(weight.format))
          report.tensors.push_back(add_quantized(weight, quantize(weight)));
        else
          add_plain(weight);
      }
    step("model.safetensors", static_cast<std::int64_t>(plan_.weights.size()));
    writer_.write(folder_->path() / "model.safetensors");
    report.files = copy_companions();
    report.files.insert(report.files.begin(), {"config.json", "model.safetensors"});
    report.file_bytes_before = source_->weight_file_bytes();
    report.file_bytes_after = fs::file_size(folder_->path() / "model.safetensors");
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
        "precision",        "dtype",      "llm_int8_threshold", "include",      "exclude",
        "allow_non_finite", "calibrator", "calibration",        "smooth_quant", "threads"};
    for (const Field& field : fields())
      if (field.is_set(config) && std::find(std::begin(kHeld), std::end(kHeld), field.key) == std::end(kHeld))
        throw FieldError(field.key, "it changes nothing of a folder: expected none");
    Precision precision = precision_of(config.precision.value_or(Preset::nf4));
    if (!precision.is_quantized() || precision.weights == WeightFormat::int4_g128)
      throw FieldError("precision",
                       "a folder can hold nf4, fp4, nf4-dq, fp4-dq, llm-int8, int8-dynamic or int8-static, "
                       "found {}",
                       precision.name);
    RunConfig without_dtype = config;  // which this class writes itself
    without_dtype.dtype.reset();
    apply_to(precision, without_dtype);
    return precision;
  }

  Plan checked_plan(const std::string& candidate) const {
    if (const auto stored = stored_precision(*source_, spec_))
      throw Error("{}: the model is quantized already, {}", candidate, stored->name);
    Plan plan = plan_forward(spec_, precision_);
    check_tensors(spec_, precision_, *source_);
    if (coverage_of(plan).quantized == 0)
      throw Error("{}: {} quantizes nothing of this model", candidate, precision_.name);
    return plan;
  }

  // Only what looks like a model is replaced, and never the one that is read.
  void check_target(const fs::path& out) const {
    std::error_code code;
    if (out.empty()) throw UsageError("OUT: expected the name of a new folder, found an empty one");
    if (!fs::exists(out, code)) return;
    if (fs::equivalent(out, source_->path(), code))
      throw UsageError("{}: the target is the model itself: expected another folder", out.string());
    if (!options_.replaces)
      throw Error("{} exists already: expected a new name, or --force to replace a model there",
                  out.string());
    if (fs::is_directory(out, code) && !fs::is_empty(out, code) && !fs::exists(out / "config.json", code))
      throw Error("{}: --force replaces model folders, and this one has no config.json", out.string());
  }

  // Runs the text, and plans again with what it told.
  void calibrate_inputs(QuantizeReport& report) {
    step("calibrating", 0);
    const TimePoint begin = Clock::now();
    const CalibrationText text =
        read_calibration(options_.config.calibration ? fs::path(*options_.config.calibration)
                                                     : shipped_file("texts/calibrate.txt"),
                         Tokenizer::load(source_->path()));
    BackendOptions backend;
    backend.threads = pool_.size();
    calibration_ =
        calibrate(source_, make_backend(Device{}, backend), precision_, text.ids, options_.should_stop);
    plan_ = plan_forward(spec_, precision_, calibration_);
    calibration_sha256_ = report.calibration_sha256 = text.sha256;
    report.calibration_s = elapsed(begin, Clock::now()).value;
  }

  void stop_where_asked() const {
    if (options_.should_stop && options_.should_stop()) throw Error("interrupted: nothing was written");
  }
  void step(const std::string& now, std::int64_t done) const {
    stop_where_asked();
    if (options_.on_progress)
      options_.on_progress(now, done, static_cast<std::int64_t>(plan_.weights.size()) + 1);
  }

  // A tensor whose bytes wait on disk until the file is written. Returns how many they are.
  std::int64_t add_bytes(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                         std::span<const std::byte> bytes) {
    const std::uint64_t begin = scratch_->append(bytes), size = bytes.size();
    writer_.add(name, dtype, std::move(shape), [this, begin, size](const ByteSink& sink) {
      std::vector<std::byte> slab(std::size_t{1} << 20);
      for (std::uint64_t done = 0; done < size;) {
        stop_where_asked();
        const auto part = std::span(slab).first(std::min<std::uint64_t>(slab.size(), size - done));
        scratch_->read_exactly(begin + done, part);
        sink(part);
        done += part.size();
      }
    });
    return static_cast<std::int64_t>(size);
  }
  std::int64_t add_floats(const std::string& name, std::span<const float> values) {
    return add_bytes(name, DType::f32, {static_cast<std::int64_t>(values.size())}, std::as_bytes(values));
  }

  QuantizedTensor add_quantized(const WeightSpec& weight, const Quantized& made) {
    QuantizedTensor tensor{.name = weight.name,
                           .rows = weight.rows,
                           .columns = weight.columns,
                           .bytes_before = static_cast<std::int64_t>(source_->find(weight.name)->bytes),
                           .bytes_after = 0,
                           .non_finite = made.non_finite,
                           .error = made.error};
    tensor.bytes_after = is_own()                 ? add_own_int8(weight, made)
                         : is_int8(weight.format) ? add_int8(weight, made)
                                                  : add_four_bit(weight, made);
    return tensor;
  }

  // int8 that is not bitsandbytes'.
  bool is_own() const { return precision_.weights == WeightFormat::int8; }

  std::int64_t add_own_int8(const WeightSpec& weight, const Quantized& made) {
    const std::string module = weight.name.substr(0, weight.name.rfind('.'));
    const auto beside = [&](std::string_view suffix) { return module + std::string(suffix); };
    const auto add_one = [&](std::string_view suffix, DType dtype, const auto& value) {
      return add_bytes(beside(suffix), dtype, {}, std::as_bytes(std::span(&value, 1)));
    };
    std::int64_t bytes =
        add_bytes(weight.name, DType::i8, {weight.rows, weight.columns}, bytes_of(made.codes)) +
        add_floats(beside(int8::kAbsmax), made.scales);
    if (!precision_.needs_calibration()) return bytes;
    const InputCalibration& found = calibration_.at(weight.name);
    if (precision_.input_scale == InputScale::calibrated)
      bytes += add_one(int8::kInputScale, DType::f32, found.code.scale) +
               add_one(int8::kInputZeroPoint, DType::u8, static_cast<std::uint8_t>(found.code.zero_point)) +
               add_one(int8::kInputClippedShare, DType::f32, static_cast<float>(found.clipped_share));
    if (!found.smoothing.empty()) bytes += add_floats(beside(int8::kInputSmoothing), found.smoothing);
    return bytes;
  }

  std::int64_t add_int8(const WeightSpec& weight, const Quantized& made) {
    const std::string module = weight.name.substr(0, weight.name.rfind('.'));
    const std::byte row_format{0};
    return add_bytes(weight.name, DType::i8, {weight.rows, weight.columns}, bytes_of(made.codes)) +
           add_floats(module + std::string(bnb::kScb), made.scales) +
           add_bytes(module + std::string(bnb::kWeightFormat), DType::u8, {}, std::span(&row_format, 1));
  }

  std::int64_t add_four_bit(const WeightSpec& weight, const Quantized& made) {
    const auto beside = [&](std::string_view suffix) { return weight.name + std::string(suffix); };
    const bool is_nf4 = weight.format == WeightFormat::nf4 || weight.format == WeightFormat::nf4_dq;
    bnb::QuantState state;
    state.type = is_nf4 ? "nf4" : "fp4";
    state.dtype = name_of(dtype_);
    state.shape = {weight.rows, weight.columns};
    std::int64_t bytes = add_bytes(weight.name, DType::u8, {static_cast<std::int64_t>(made.codes.size()), 1},
                                   bytes_of(made.codes));
    bytes += add_floats(beside(bnb::kQuantMap), code_book(is_nf4 ? FourBit::nf4 : FourBit::fp4));
    if (made.nested.codes.empty()) {
      bytes += add_floats(beside(bnb::kAbsmax), made.scales);
    } else {
      state.nested = bnb::QuantState::Nested{.offset = made.nested.offset};
      bytes += add_bytes(beside(bnb::kAbsmax), DType::u8,
                         {static_cast<std::int64_t>(made.nested.codes.size())}, bytes_of(made.nested.codes));
      bytes += add_floats(beside(bnb::kNestedAbsmax), made.nested.absmax);
      bytes += add_floats(beside(bnb::kNestedQuantMap), dynamic_map());
    }
    const std::string text = state.text();
    return bytes + add_bytes(beside(bnb::kQuantState) + state.type, DType::u8,
                             {static_cast<std::int64_t>(text.size())},
                             std::as_bytes(std::span(text.data(), text.size())));
  }

  // A tensor that stays as it is, but for its type: read when the file is written.
  void add_plain(const WeightSpec& weight) {
    const CheckpointTensor at = source_->find(weight.name);
    const bool is_float32 = dtype_ == DType::f32 || (is_own() && weight.kind == WeightSpec::Kind::vector);
    const DType type = is_float32 ? DType::f32 : dtype_;
    writer_.add(weight.name, type, at->shape, [this, at, is_float32](const ByteSink& sink) {
      std::vector<float> slab(static_cast<std::size_t>(std::min(kCopySlab, at->elements())));
      std::vector<std::uint16_t> halves(slab.size());
      for (std::int64_t done = 0; done < at->elements();) {
        stop_where_asked();
        const std::int64_t count = std::min(kCopySlab, at->elements() - done);
        const auto part = std::span(slab).first(static_cast<std::size_t>(count));
        at.read_floats(done, count, slab.data());
        done += count;
        require_finite(part, at);
        if (is_float32) {
          sink(std::as_bytes(part));
          continue;
        }
        for (std::size_t i = 0; i < part.size(); ++i) halves[i] = half_of(part[i], at);
        sink(std::as_bytes(std::span(halves).first(part.size())));
      }
    });
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

  // What of the model's folder goes with the weights: the tokenizer, and how to generate.
  std::vector<std::string> copy_companions() const {
    std::vector<std::string> names;
    for (const char* name :
         {"generation_config.json", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt",
          "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"}) {
      const fs::path from = source_->path() / name;
      if (!fs::is_regular_file(from)) continue;
      write_file_atomically(folder_->path() / name, read_text_file(from));
      names.emplace_back(name);
    }
    return names;
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
    const bool is_nf4 = precision_.weights == WeightFormat::nf4 || precision_.weights == WeightFormat::nf4_dq;
    bnb::ConfigToWrite written;
    written.is_eight_bit = !is_four;
    written.quant_type = is_nf4 ? "nf4" : "fp4";
    written.is_double =
        precision_.weights == WeightFormat::nf4_dq || precision_.weights == WeightFormat::fp4_dq;
    written.compute_dtype = is_four ? name_of(dtype_) : "float32";
    written.threshold = static_cast<double>(precision_.outlier_threshold);
    written.skip_modules = skipped();
    return bnb::to_json(written);
  }

  // A list replaces Transformers' own rule, so that it names what the rule leaves out as well.
  std::vector<std::string> skipped() const {
    std::vector<std::string> names;
    for (const std::string& module : modules_of(plan_))
      if (!precision_.why_not_quantized(module).empty()) names.push_back(module);
    if (!names.empty()) names.insert(names.begin(), module_of(spec_.names.head));
    return names;
  }

  const QuantizeOptions& options_;
  Precision precision_;
  std::shared_ptr<const ModelFolder> source_;
  ModelSpec spec_;
  Plan plan_;
  DType dtype_;
  ThreadPool pool_;
  Calibration calibration_;
  std::string calibration_sha256_;
  std::unique_ptr<NewFolder> folder_;
  std::unique_ptr<ScratchFile> scratch_;
  SafetensorsWriter writer_;
};

}  // namespace

QuantizeReport quantize_model(const std::string& candidate, const fs::path& out,
                              const QuantizeOptions& options) {
  return Job(candidate, out, options).run(out);
}

}  // namespace assay
