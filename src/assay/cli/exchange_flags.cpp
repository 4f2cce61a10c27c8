#include "assay/cli/exchange_flags.h"

#include <filesystem>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/console.h"
#include "assay/report/digits.h"
#include "assay/report/prose/prose.h"
#include "assay/session/perplexity.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

void ExchangeFlags::add_to(CLI::App& app, const std::string& max_tokens_help) {
  app.add_option("MODEL", model.model, "Model: a folder, a GGUF file, a Hugging Face cache entry or demo")
      ->required();
  app.add_option("--text", file, "Text file in UTF-8 [the evaluation text that ships]");
  app.add_flag("--ids", is_ids, "Read token ids from the file, not text");
  add_whole(app, "--context", context, "Tokens per window; 0: the model's context [0]");
  add_whole(app, "--max-tokens", max_tokens, max_tokens_help);
  app.add_option("--baseline", baseline,
                 "Precision that is compared with: float32, or bfloat16 as most models are stored [float32]");
  model.add_fields_to(app, {"threads", "isa", "cpu_mask", "newlines"});
  output.add_to(app);
}

ItemExchange ExchangeFlags::load() const {
  if (is_ids && file.empty()) throw UsageError("--ids: needs --text, the file of token ids");
  if (baseline != "float32" && baseline != "bfloat16")
    throw UsageError("--baseline: expected float32 or bfloat16, found '{}'", baseline);
  check_input(file);
  ModelFlags unquantized = model;
  unquantized.precision = baseline;
  LoadedModel loaded = unquantized.load(!is_ids);
  if (!output.is_quiet) {
    note(loaded.load_line());
    for (const Warning& warning : loaded.warnings) note("warning: " + report::sentence_of(warning));
  }
  return ItemExchange(std::move(loaded), is_interrupted);
}

std::vector<TokenId> ExchangeFlags::ids(const LoadedModel& loaded) const {
  if (is_ids) return ids_from_text(read_input(file), file);
  const std::filesystem::path path =
      file.empty() ? shipped_file("texts/evaluate.txt") : std::filesystem::path(file);
  const TextFile corpus = read_corpus(path, loaded.config.newlines);
  if (!corpus.change.empty() && !output.is_quiet)
    note("warning: " + report::sentence_of(line_ends_warning(path, corpus)));
  return loaded.tokenizer->encode(corpus.text);
}

std::string text_of_estimate(const statistics::Estimate& estimate, double scale) {
  std::string text = fmt::format("{:.3g}", scale * estimate.value);
  if (estimate.interval)
    text += fmt::format(" [{:.3g}, {:.3g}]", scale * estimate.interval->low, scale * estimate.interval->high);
  return text;
}

nlohmann::ordered_json estimate_json(const statistics::Estimate& estimate) {
  nlohmann::ordered_json json{{"value", estimate.value}, {"low", nullptr}, {"high", nullptr}};
  if (estimate.interval) {
    json["low"] = estimate.interval->low;
    json["high"] = estimate.interval->high;
  }
  return json;
}

std::string text_of_bytes(Bytes bytes) {
  return report::shown_number(bytes.megabytes(), {}, 4) + " MiB";
}

}  // namespace assay::cli
