#include "assay/cli/options.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <iterator>
#include <limits>
#include <sstream>

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay::cli {

namespace {

// The name to show in messages: the long one of "-n,--max-new-tokens".
std::string flag_name(const std::string& names) {
  return names.substr(names.find("--"));
}

template <typename Number>
bool parse(const std::string& text, Number& out) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), out);
  return code == std::errc() && stop == text.data() + text.size();
}

std::int64_t whole(const std::string& names, const std::string& text, std::int64_t min, std::int64_t max) {
  std::int64_t number = 0;
  if (!parse(text, number) || number < min || number > max)
    throw UsageError("{}: expected a whole number from {}{}, found '{}'", flag_name(names), min,
                     max >= std::int64_t{1} << 40 ? "" : fmt::format(" to {}", max), text);
  return number;
}

}  // namespace

CLI::Option* add_whole(CLI::App& app, const std::string& names, std::int64_t& target,
                       const std::string& description, std::int64_t min, std::int64_t max) {
  const auto read = [names, min, max, &target](const std::string& text) {
    target = whole(names, text, min, max);
  };
  return app.add_option_function<std::string>(names, read, description);
}

CLI::Option* add_whole_list(CLI::App& app, const std::string& names, std::vector<std::int64_t>& target,
                            const std::string& description, std::int64_t min, std::int64_t max) {
  const auto read = [names, min, max, &target](const std::string& text) {
    target.clear();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t comma = std::min(text.find(',', at), text.size());
      target.push_back(whole(names, text.substr(at, comma - at), min, max));
      at = comma + 1;
    }
  };
  return app.add_option_function<std::string>(names, read, description);
}

CLI::Option* add_real(CLI::App& app, const std::string& names, double& target,
                      const std::string& description) {
  const auto read = [names, &target](const std::string& text) {
    if (!parse(text, target) || !std::isfinite(target))
      throw UsageError("{}: expected a finite number, found '{}'", flag_name(names), text);
  };
  return app.add_option_function<std::string>(names, read, description);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  std::stringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) {
    const auto first = part.find_first_not_of(' ');
    if (first != std::string::npos)
      words.push_back(part.substr(first, part.find_last_not_of(' ') - first + 1));
  }
  return words;
}

std::vector<std::string> candidates_of(const std::string& model) {
  std::error_code code;
  if (std::filesystem::is_directory(model, code)) return {model};
  std::vector<std::string> parts = words_of(model);
  if (parts.empty()) parts.emplace_back();
  return parts;
}

void ModelFlags::add_selection_to(CLI::App& app) {
  app.add_option("--include", modules.include,
                 "Quantize only modules of the blocks that match: a pattern of the whole name with * ? [ "
                 "(\"*.mlp.*\"), or a part of it (h.0.); again for more")
      ->allow_extra_args(false);
  app.add_option("--exclude", modules.exclude,
                 "Leave these modules of the blocks as they are; again for more")
      ->allow_extra_args(false);
  app.add_flag("--allow-non-finite", allows_non_finite,
               "Quantize NaN and infinity as 0; without it they are an error");
}

void ModelFlags::add_screen_to(CLI::App& app) {
  app.add_flag(
      "--screen-head", screens_head,
      "Greedy decoding looks for the head's highest output in int8 and computes those that a bound "
      "leaves exactly: the same tokens from fewer bytes a step, for a second copy of the head in int8");
}

void ModelFlags::add_products_to(CLI::App& app) {
  app.add_option_function<std::string>(
      "--llm-int8-threshold",
      [this](const std::string& text) {
        if (!parse(text, outlier_threshold) || !(outlier_threshold >= 0 && outlier_threshold <= 1e6))
          throw UsageError("--llm-int8-threshold: expected 0 (none) or more, found '{}'", text);
      },
      "Inputs of this magnitude or more are outliers of llm-int8 (default 6; 0: none)");
  app.add_option(
      "--float32-matmul", float32_matmul,
      "bf16x3 or bf16x6: multiply float32 weights as sums of 3 or 6 bfloat16 products (AMX); faster, "
      "less exact, and named in the result");
}

void ModelFlags::add_to(CLI::App& app, bool is_model_required) {
  CLI::Option* option = app.add_option("MODEL", model,
                                       "A folder, a Hugging Face cache entry (gpt2, org/name[@revision]) or "
                                       "demo; several, joined by commas, are tried in order");
  if (is_model_required) option->required();
  app.add_option("--precision", precision,
                 "float32 (the default, unless the model is quantized already), bfloat16, float16 (which a "
                 "CPU runs as float32, and says so), or quantized: "
                 "int8-dynamic, int8-static, llm-int8, nf4, fp4, nf4-dq, fp4-dq, int4-g128");
  app.add_option("--remainder", remainder,
                 "float32 (the default) or bfloat16: what a quantized precision keeps everything else in");
  app.add_option("--quantize-head", quantized_head,
                 "int8, nf4 or fp4: quantize the output head too, which Transformers leaves alone");
  add_screen_to(app);
  add_products_to(app);
  add_selection_to(app);
  add_input_scale_to(app);
  add_calibration_to(app);
  app.add_option("--device", device, "cpu, cuda, cuda:N or auto (the default)");
  add_whole(app, "-t,--threads", threads, "Threads (default: the processors this process may use)", 1, 1024);
  app.add_option("--isa", isa, "Force the kernels of one tier: scalar, avx2, avx512 or amx");
  app.add_option("--cpu-mask", cpu_mask, "Processors to run on, in hexadecimal: 0x3 is the first two");
  app.add_option("--kv-cache", kv_cache,
                 "float32, bfloat16 or int8: how keys and values are kept (default: as the precision "
                 "computes)");
}

void ModelFlags::add_input_scale_to(CLI::App& app) {
  app.add_option("--input-scale", input_scale,
                 "per-token (the default) or per-tensor: whether the inputs of int8-dynamic have a scale for "
                 "each token or, as ONNX Runtime's dynamic scheme, one for all that are computed together");
}

void ModelFlags::add_calibration_to(CLI::App& app) {
  app.add_option(
      "--calibration", calibration,
      "A text to calibrate int8-static or SmoothQuant on (default: one that ships); never the text that "
      "is scored");
  app.add_option("--calibrator", calibrator,
                 "percentile (the default), minmax or entropy: how int8-static finds its ranges");
  const auto read = [this](const std::string& text) {
    if (!parse(text, smoothing) || !(smoothing >= 0 && smoothing <= 1))
      throw UsageError(
          "--smooth-quant: expected a number from 0 to 1, found '{}' (--smooth-quant=0.5 before other "
          "arguments)",
          text);
  };
  app.add_option_function<std::string>(
         "--smooth-quant", read,
         "ALPHA: SmoothQuant of int8-dynamic or int8-static moves outliers from inputs "
         "into weights (0.5 where no number follows)")
      ->expected(0, 1)
      ->default_str("0.5");
}

Configuration ModelFlags::without_precision() const {
  Configuration base;
  base.remainder = remainder;
  base.quantized_head = quantized_head;
  base.kv_cache = kv_cache;
  base.float32_matmul = float32_matmul;
  base.isa = isa;
  base.cpu_mask = cpu_mask;
  base.device = resolved_device().text();
  base.threads = static_cast<int>(threads);
  base.outlier_threshold = outlier_threshold;
  base.input_scale = input_scale;
  base.calibration = calibration;
  base.calibrator = calibrator;
  base.smoothing = smoothing;
  base.modules = modules;
  base.allows_non_finite = allows_non_finite;
  base.screens_head = screens_head;
  return base;
}

Configuration ModelFlags::configuration() const {
  const Configuration common = without_precision();
  std::vector<Configuration> made;
  for (const std::string& word : words_of(precision)) made.push_back(configuration_from_text(word, common));
  if (made.empty()) return configuration_from_text(std::string(kAutoPrecision), common);
  require_used(common, made);
  return made.front();
}

LoadedModel ModelFlags::load(bool needs_tokenizer) const {
  Configuration what = without_precision();
  what.precision = precision;
  if (precision.find('+') != std::string::npos) {  // otherwise loading says best what does not go together
    const Configuration common = what;
    what = configuration_from_text(precision, common);
    require_used(common, {&what, 1});
  }
  LoadOptions options = what.load_options();
  options.needs_tokenizer = needs_tokenizer;
  return load_model_and_tokenizer(candidates_of(model), what.precision, resolved_device(), options);
}

void PromptFlags::add_to(CLI::App& app) {
  app.add_option("-p,--prompt,--text", prompts, "A prompt; again for more")->allow_extra_args(false);
  app.add_option("--prompts-file", prompts_file, "A file with a prompt on each line");
  app.add_option("--ids", ids, "A prompt as token ids: 1,2,3");
  app.add_option("--truncate", truncate,
                 "left or right: cut a prompt that does not fit the context there (else it is an error)");
}

std::vector<Prompt> PromptFlags::read() const {
  std::vector<Prompt> all(prompts.begin(), prompts.end());
  if (!prompts_file.empty()) {
    std::stringstream lines(read_text_file(prompts_file));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty() && line.back() == '\r') line.pop_back();
      if (!line.empty()) all.emplace_back(line);
    }
    if (all.size() == prompts.size()) throw Error("{}: holds no prompt", prompts_file);
  }
  if (!ids.empty()) all.emplace_back(ids_from_text(ids, "--ids"));
  if (all.empty())
    throw UsageError("no prompt: give one with --prompt TEXT, --prompts-file FILE or --ids 1,2,3");
  return all;
}

void SamplingFlags::add_to(CLI::App& app) {
  add_real(app, "--temperature", options.temperature,
           "0 (the default) takes the most probable token; higher draws more freely");
  add_whole(app, "--top-k", options.top_k,
            "Draw from the K most probable tokens; 0 = all (with --temperature)");
  add_real(app, "--top-p", options.top_p,
           "Draw from the smallest set of tokens that reaches this probability (with --temperature)");
  add_real(app, "--repetition-penalty", options.repetition_penalty,
           "Above 1: tokens already seen become less probable");
  add_whole(app, "--seed", seed, "Same seed, same text, whatever the number of threads", 0,
            std::numeric_limits<std::int64_t>::max());
}

SamplingOptions SamplingFlags::checked() const {
  SamplingOptions checked = options;
  checked.seed = static_cast<std::uint64_t>(seed);
  check(checked);
  return checked;
}

void OutputFlags::add_to(CLI::App& app) {
  app.add_flag("--json", is_json, "One JSON document on standard output");
  app.add_flag("--quiet", is_quiet, "No figures, notes or progress on standard error");
  app.add_flag("--no-progress", has_no_progress, "No progress line");
}

bool OutputFlags::shows_progress() const {
  return !is_quiet && !has_no_progress && isatty(STDERR_FILENO) == 1;
}

std::vector<TokenId> ids_from_text(const std::string& text, const std::string& where) {
  std::vector<TokenId> ids;
  const char* at = text.data();
  const char* end = at + text.size();
  const auto is_separator = [](char c) {
    return c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '[' || c == ']';
  };
  while (at != end) {
    if (is_separator(*at)) {
      ++at;
      continue;
    }
    TokenId id = 0;
    const auto [stop, code] = std::from_chars(at, end, id);
    if (code != std::errc() || (stop != end && !is_separator(*stop))) {
      const char* word_end = at;
      while (word_end != end && !is_separator(*word_end) && word_end - at < 40) ++word_end;
      throw UsageError("{}: expected token ids such as 1,2,3, found '{}'", where, std::string(at, word_end));
    }
    ids.push_back(id);
    at = stop;
  }
  return ids;
}

std::string read_input(const std::string& file) {
  if (file != "-") return read_text_file(file);
  return {std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()};
}

}  // namespace assay::cli
