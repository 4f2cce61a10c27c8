// assay quantize: writes a quantized folder, bitsandbytes' or int8 with its calibration, or a GGUF file.
#include "assay/quantize/quantize.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/config/recipe_file.h"
#include "assay/quantize/write_gguf.h"
#include "assay/report/table.h"
#include "assay/session/load_parts.h"

namespace assay::cli {

namespace {

using OrderedJson = nlohmann::ordered_json;

struct QuantizeFlags {
  ModelFlags model;
  OutputFlags output;
  std::string out, recipe, importance;
  bool is_forced = false;

  bool is_gguf() const { return std::filesystem::path(out).extension() == ".gguf"; }
};

OrderedJson known(const std::optional<double>& value) {
  return value ? OrderedJson(*value) : OrderedJson();
}

// Scales and state included; the tokenizer that a GGUF file holds is no weight.
double bits_per_weight(const QuantizeReport& report) {
  return 8 * static_cast<double>(report.tensor_bytes_after) / static_cast<double>(report.parameters);
}

OrderedJson json_of(const QuantizeReport& report) {
  OrderedJson tensors = OrderedJson::array(), kept = OrderedJson::array();
  for (const QuantizedTensor& t : report.tensors)
    tensors.push_back({{"name", t.name},
                       {"type", t.type.empty() ? OrderedJson() : OrderedJson(t.type)},
                       {"shape", {t.rows, t.columns}},
                       {"bytes_before", t.bytes_before},
                       {"bytes_after", t.bytes_after},
                       {"rmse", t.error.rmse},
                       {"snr_db", known(t.error.snr_db)},
                       {"max_abs_error", t.error.max_abs_error},
                       {"cosine", known(t.error.cosine)},
                       {"non_finite", t.non_finite}});
  for (const CoverageFacts::Tensor& t : report.coverage.tensors)
    if (!t.reason.empty()) kept.push_back({{"name", t.name}, {"reason", t.reason}});
  return {{"path", report.path.string()},
          {"precision", report.precision},
          {"dtype", report.dtype},
          {"coverage",
           {{"quantized", report.coverage.quantized},
            {"weights_share", report.coverage.weights_share},
            {"saturation", known(report.coverage.saturation)},
            {"kept", kept}}},
          {"sizes",
           {{"weight_file_bytes_before", report.file_bytes_before},
            {"weight_file_bytes_after", report.file_bytes_after},
            {"bits_per_weight", bits_per_weight(report)}}},
          {"tensors", tensors},
          {"files", report.files},
          {"warnings", report.warnings},
          {"calibration_sha256",
           report.calibration_sha256.empty() ? OrderedJson() : OrderedJson(report.calibration_sha256)},
          {"calibration_s", report.calibration_s},
          {"seconds", report.seconds}};
}

report::Table table_of(const QuantizeReport& report) {
  const auto figure = [](const std::optional<double>& value, int decimals) {
    return value ? fmt::format("{:.{}f}", *value, decimals) : std::string("-");
  };
  report::Table table{{"Tensor", "Shape", "Bytes", "RMSE", "SNR (dB)", "Max error", "Cosine"},
                      {false, true, true, true, true, true, true},
                      {},
                      {0, 3, 4, 2, 1, 5, 3}};
  for (const QuantizedTensor& t : report.tensors)
    table.rows.push_back({report::one_line(t.name, 120) + (t.type.empty() ? "" : " " + t.type),
                          fmt::format("[{}, {}]", t.rows, t.columns), std::to_string(t.bytes_after),
                          fmt::format("{:.3e}", t.error.rmse), figure(t.error.snr_db, 2),
                          fmt::format("{:.3e}", t.error.max_abs_error), figure(t.error.cosine, 6)});
  return table;
}

// A rest that is named beside it is not rounded away.
std::string shown_share(double share) {
  return share < 1 && share >= 0.9995 ? "more than 99.9" : fmt::format("{:.1f}", 100 * share);
}

std::string text_of(const QuantizeReport& report) {
  constexpr double kMebibyte = 1024 * 1024;
  std::string text;
  if (!report.tensors.empty()) text = report::to_text(table_of(report), table_width()) + "\n";
  const double before = static_cast<double>(report.file_bytes_before),
               after = static_cast<double>(report.file_bytes_after);
  if (report.coverage.quantized > 0)
    text += fmt::format("{} of {} tensors are quantized ({}), {} % of the weights; the rest is {}\n",
                        report.coverage.quantized, report.coverage.tensors.size(), report.precision,
                        shown_share(report.coverage.weights_share), report.dtype);
  text += fmt::format(
      "Weight files: {:.1f} MiB before, {:.1f} MiB now ({:.2f} times {}, {:.2f} bits per weight)\nWritten: "
      "{}\n",
      before / kMebibyte, after / kMebibyte, std::max(before, after) / std::min(before, after),
      after > before ? "larger" : "smaller", bits_per_weight(report), report.path.string());
  return text;
}

void tell_progress(Progress& progress, const std::string& now, std::int64_t done, std::int64_t all,
                   std::optional<double> left) {
  progress.show(fmt::format("[{}/{}] {}{}", done, all, time_left(left), now));
}

// A mix of llama.cpp's by its name, or a recipe file.
GgufMix mix_of(const std::string& recipe) {
  if (recipe.empty())
    throw UsageError("--recipe: expected one of {}, or a recipe file, for a GGUF file; found none",
                     fmt::join(gguf_mixes(), ", "));
  if (const auto mix = GgufMix::named(recipe)) return *mix;
  if (!std::filesystem::exists(recipe) && recipe.find_first_of("./") != std::string::npos)
    throw UsageError("--recipe: there is no file '{}'", recipe);
  if (!std::filesystem::exists(recipe))
    throw UsageError("--recipe: expected one of {}, or a recipe file, found '{}'; the nearest is {}",
                     fmt::join(gguf_mixes(), ", "), recipe, nearest_name(recipe, gguf_mixes()));
  return GgufMix::of(read_recipe(recipe));
}

// What only a folder is written with.
void refuse_for_gguf(const QuantizeFlags& flags) {
  if (!flags.model.precision.empty())
    throw UsageError("--precision: a GGUF file is written with --recipe: expected no --precision, found '{}'",
                     flags.model.precision);
  for (const Field& field : fields())
    if (field.is_set(flags.model.config) && field.key != "threads")
      throw FieldError(field.key, "it changes nothing of a GGUF file: expected none");
}

QuantizeReport quantize_to_gguf(const QuantizeFlags& flags, Progress& progress) {
  refuse_for_gguf(flags);
  GgufOptions options{.mix = mix_of(flags.recipe), .threads = flags.model.config.threads};
  options.replaces = flags.is_forced;
  if (!flags.importance.empty()) options.importance = flags.importance;
  options.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all,
                            std::optional<double> left) { tell_progress(progress, now, done, all, left); };
  options.should_stop = is_interrupted;
  return first_candidate(candidates_of(flags.model.model), [&](const std::string& candidate) {
    return write_gguf(candidate, flags.out, options);
  });
}

QuantizeReport quantize_to_folder(const QuantizeFlags& flags, Progress& progress) {
  if (!flags.recipe.empty())
    throw UsageError(
        "--recipe: a folder is written with --precision, a recipe makes a file: expected a name "
        "that ends in .gguf, found '{}'",
        flags.out);
  if (!flags.importance.empty())
    throw UsageError(
        "--importance: a folder takes no importance matrix: expected a name that ends in .gguf, found '{}'",
        flags.out);
  if (flags.model.precision.empty())
    throw UsageError(
        "--precision: expected the precision of the folder, found none (a name that ends in "
        ".gguf asks for a GGUF file)");
  QuantizeOptions options;
  options.config = flags.model.config;
  if (const auto plus = flags.model.precision.find('+'); plus != std::string::npos)
    throw UsageError(
        "--precision: a folder keeps the LM head as it is, so that Transformers reads it: expected '{}', "
        "found '{}'",
        flags.model.precision.substr(0, plus), flags.model.precision);
  field("precision").parse(options.config, flags.model.precision);
  options.replaces = flags.is_forced;
  options.on_progress = [&](const std::string& now, std::int64_t done, std::int64_t all,
                            std::optional<double> left) { tell_progress(progress, now, done, all, left); };
  options.should_stop = is_interrupted;
  return first_candidate(candidates_of(flags.model.model), [&](const std::string& candidate) {
    return quantize_model(candidate, flags.out, options);
  });
}

int run_quantize(const QuantizeFlags& flags) {
  Progress progress(flags.output.shows_progress());
  const QuantizeReport report =
      flags.is_gguf() ? quantize_to_gguf(flags, progress) : quantize_to_folder(flags, progress);
  progress.clear();
  if (!report.calibration_change.empty() && !flags.output.is_quiet)
    note(fmt::format("warning: the calibration text: {}; --newlines keep leaves them",
                     report.calibration_change));
  if (!flags.output.is_quiet)
    for (const std::string& warning : report.warnings) note("warning: " + warning);
  if (flags.output.is_json)
    answer_json("quantization", json_of(report));
  else
    answer(text_of(report));
  return 0;
}

}  // namespace

void add_quantize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app.add_subcommand(
      "quantize",
      "Write a quantized model: a folder for Transformers with bitsandbytes or (int8) for Assay alone, or a "
      "GGUF file for llama.cpp");
  command
      ->add_option("MODEL", flags->model.model,
                   "Model: a folder, a GGUF file, a Hugging Face cache entry or demo")
      ->required();
  command
      ->add_option("OUT", flags->out,
                   "Folder to write, or a GGUF file where its name ends in .gguf; it appears complete or not "
                   "at all")
      ->required();
  flags->model.precision.clear();
  command->add_option(
      "--precision", flags->model.precision,
      "Precision of a folder: float32 or bfloat16 for Transformers; nf4, fp4, nf4-dq, fp4-dq or "
      "llm-int8 for Transformers with bitsandbytes; int8-dynamic or int8-static, which only "
      "Assay loads");
  command->add_option(
      "--recipe", flags->recipe,
      fmt::format("Types of a GGUF file: {}, or a recipe file", fmt::join(gguf_mixes(), ", ")));
  command->add_option("--importance", flags->importance,
                      "Text whose activations say which weights of a GGUF file matter most: an importance "
                      "matrix [none: all alike]");
  flags->model.add_fields_to(
      *command, {"dtype", "llm_int8_threshold", "include", "exclude", "allow_non_finite", "calibrator",
                 "calibration", "smooth_quant", "newlines", "threads"});
  command->get_option("--dtype")->description(
      "Type of everything that is not quantized: float32, bfloat16 or float16 [as the model is]");
  command->get_option("--llm-int8-threshold")
      ->description("Outlier threshold to write into an llm-int8 folder; 0: no outliers [6]");
  command->add_flag("--force", flags->is_forced, "Replace a model folder or GGUF file that exists at OUT");
  flags->output.add_to(*command);
  command->footer(
      "Example: assay quantize gpt2 gpt2-nf4 --precision nf4\n"
      "         assay quantize gpt2 gpt2.Q4_K_M.gguf --recipe Q4_K_M");
  command->callback([flags, &exit_code] { exit_code = run_quantize(*flags); });
}

}  // namespace assay::cli
