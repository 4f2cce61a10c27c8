#include "assay/quantize/plain_folder.h"

#include <cmath>
#include <memory>
#include <set>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/new_folder.h"
#include "assay/checkpoint/safetensors_writer.h"
#include "assay/config/fields.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/quantize/companions.h"
#include "assay/quantize/matrix_rows.h"
#include "assay/quantize/target.h"
#include "assay/quantize/writable.h"
#include "assay/session/load_parts.h"
#include "assay/tensor/half.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

// The class that loads a model of each type; programs that serve models look for it.
struct ModelClass {
  std::string_view model_type, name;
};
constexpr ModelClass kModelClasses[] = {{"bloom", "BloomForCausalLM"},
                                        {"cohere", "CohereForCausalLM"},
                                        {"falcon", "FalconForCausalLM"},
                                        {"gemma", "GemmaForCausalLM"},
                                        {"gemma2", "Gemma2ForCausalLM"},
                                        {"gemma3_text", "Gemma3ForCausalLM"},
                                        {"gpt2", "GPT2LMHeadModel"},
                                        {"gpt_neox", "GPTNeoXForCausalLM"},
                                        {"granite", "GraniteForCausalLM"},
                                        {"llama", "LlamaForCausalLM"},
                                        {"mistral", "MistralForCausalLM"},
                                        {"olmo2", "Olmo2ForCausalLM"},
                                        {"phi", "PhiForCausalLM"},
                                        {"phi3", "Phi3ForCausalLM"},
                                        {"qwen2", "Qwen2ForCausalLM"},
                                        {"qwen3", "Qwen3ForCausalLM"},
                                        {"smollm3", "SmolLM3ForCausalLM"},
                                        {"stablelm", "StableLmForCausalLM"},
                                        {"starcoder2", "Starcoder2ForCausalLM"}};

struct PlainTensor {
  std::string name;
  std::vector<std::int64_t> shape;  // in the folder
  bool is_turned = false;           // the source holds the transpose
};

class PlainJob {
 public:
  PlainJob(const std::string& candidate, const fs::path& out, const QuantizeOptions& options)
      : options_(options),
        source_(open_source(locate_model(candidate))),
        spec_(spec_from_source(*source_)),
        dtype_(options.config.precision == Preset::bfloat16 ? DType::bf16 : DType::f32) {
    check_options();
    if (!spec_.names.other_modalities.empty()) check_writable(spec_, *source_);
    check_readable_as_numbers(candidate, spec_, *source_);
    check_folder_target(out, *source_, options.replaces);
    folder_ = std::make_unique<NewFolder>(out, options.replaces);
  }

  QuantizeReport run(const fs::path& out) {
    const TimePoint begin = Clock::now();
    QuantizeReport report;
    report.path = out;
    report.precision = report.dtype = name_of(dtype_);
    const Plan plan = plan_forward(spec_, precision_of(Preset::float32));
    report.parameters = plan.parameters();
    name_tensors(plan);
    writer_.create(folder_->path() / "model.safetensors");
    for (const PlainTensor& tensor : tensors_) {
      if (options_.should_stop && options_.should_stop()) throw Error("interrupted: nothing was written");
      if (options_.on_progress)
        options_.on_progress(tensor.name, done_, static_cast<std::int64_t>(tensors_.size()), {});
      write_tensor(tensor);
      ++done_;
    }
    writer_.finish();
    report.files = copy_companions(*source_, folder_->path());
    report.files.insert(report.files.begin(), {"config.json", "model.safetensors"});
    report.file_bytes_before = source_->weight_file_bytes();
    report.file_bytes_after = fs::file_size(folder_->path() / "model.safetensors");
    report.tensor_bytes_after = writer_.data_bytes();
    write_config();  // last: without it the folder is none
    folder_->keep();
    report.seconds = elapsed(begin, Clock::now()).value;
    return report;
  }

 private:
  void check_options() const {
    for (const Field& field : fields())
      if (field.is_set(options_.config) && field.key != "precision" && field.key != "threads")
        throw FieldError(field.key, "it changes nothing of a folder of plain numbers: expected none");
  }

  // Folders of GPT-2 hold the transpose of every matrix but tables; other files may hold the matrices.
  void name_tensors(const Plan& plan) {
    const bool is_turned =
        source_->config().text_or("model_type", "") == "gpt2" && !spec_.names.linear_is_transposed;
    std::set<std::string> named;
    for (const WeightSpec& whole : plan.weights)
      for (const TensorPart& part : tensors_of(whole)) {
        const WeightSpec& weight = part.spec;
        if (!named.insert(weight.name).second) continue;
        PlainTensor tensor{weight.name, source_->find(weight.name)->shape, false};
        tensor.is_turned = is_turned && weight.kind == WeightSpec::Kind::matrix && !weight.is_table_too &&
                           weight.name != spec_.names.head;
        if (tensor.is_turned) std::swap(tensor.shape.front(), tensor.shape.back());
        writer_.add(tensor.name, dtype_, tensor.shape);
        tensors_.push_back(std::move(tensor));
      }
  }

  void write_tensor(const PlainTensor& tensor) {
    constexpr std::int64_t kNumbers = std::int64_t{1} << 20;
    const CheckpointTensor at = source_->find(tensor.name);
    const std::int64_t columns = tensor.shape.size() > 1 ? tensor.shape.back() : 1,
                       rows = at->elements() / columns, most = std::max<std::int64_t>(1, kNumbers / columns);
    std::vector<float> stored, numbers;
    std::vector<std::uint16_t> halves;
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t count = std::min(most, rows - first);
      numbers.resize(static_cast<std::size_t>(count * columns));
      read_matrix_rows(at, {rows, columns, tensor.is_turned}, first, count, stored, numbers.data());
      for (const float x : numbers)
        if (!std::isfinite(x)) throw Error("{}: expected finite numbers, found NaN or infinity", at.where());
      const auto before = static_cast<std::uint64_t>(first * columns);
      if (dtype_ == DType::f32) {
        writer_.write(tensor.name, before * 4, std::as_bytes(std::span(numbers)));
        continue;
      }
      halves.resize(numbers.size());
      for (std::size_t i = 0; i < numbers.size(); ++i) halves[i] = float_to_bf16(numbers[i]);
      writer_.write(tensor.name, before * 2, std::as_bytes(std::span(halves)));
    }
  }

  void write_config() const {
    Json config = source_->config().raw();
    config["dtype"] = name_of(dtype_);
    if (config.contains("torch_dtype")) config["torch_dtype"] = name_of(dtype_);
    config.erase("quantization_config");
    if (!config.contains("architectures"))
      for (const ModelClass& each : kModelClasses)
        if (config.value("model_type", std::string()) == each.model_type)
          config["architectures"] = Json::array({each.name});
    write_file_atomically(folder_->path() / "config.json", config.dump(2) + "\n");
  }

  const QuantizeOptions& options_;
  std::shared_ptr<const ModelSource> source_;
  ModelSpec spec_;
  DType dtype_;
  std::unique_ptr<NewFolder> folder_;
  SafetensorsWriter writer_;
  std::vector<PlainTensor> tensors_;
  std::int64_t done_ = 0;
};

}  // namespace

QuantizeReport write_plain_folder(const std::string& candidate, const fs::path& out,
                                  const QuantizeOptions& options) {
  return PlainJob(candidate, out, options).run(out);
}

}  // namespace assay
