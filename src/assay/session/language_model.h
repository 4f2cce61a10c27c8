// A model ready to use, by one object: load it, let it write, score a text, look at its logits.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/generate/sampler.h"
#include "assay/generate/scorer.h"
#include "assay/session/load.h"
#include "assay/session/logits.h"
#include "assay/session/time_generate.h"

namespace assay {

struct ModelOptions {
  // As --precision reads it: "float32", "bfloat16", "int8-dynamic", "llm-int8", "nf4", "nf4+head"; "auto" is
  // float32, or what a checkpoint that is quantized already holds.
  std::string precision = "auto";
  std::string device =
      "auto";  // "cpu", "cuda:0"; auto: the first GPU that this program can use, else the CPU
  std::optional<int> threads = {};  // unset: one for each physical core
  // Everything else that a configuration has; what the members above say goes before it.
  RunConfig config = {};
  // That holds demo/, which ships with the program; empty: where ASSAY_MODELS says, or where an installed or
  // a built program has it.
  std::filesystem::path data_folder = {};
  // Asked while weights are read, by one thread at a time; true: load() throws Stopped.
  std::function<bool()> should_stop = {};
};

struct GenerateOptions {
  std::int64_t max_new_tokens = 50;
  bool stops_at_end = true;       // at the model's end token
  SamplingOptions sampling = {};  // greedy where it is left alone
  Truncation truncation = Truncation::none;
  // Sees the text as it grows.
  std::function<void(std::string_view)> on_text = {};
  // Asked between the pieces of a long prompt, where generate() then throws Stopped, and between new tokens,
  // where it returns what there is.
  std::function<bool()> should_stop = {};
};

// Copies share the model. One thread at a time.
class LanguageModel {
 public:
  explicit LanguageModel(LoadedModel loaded);

  // Continues a prompt: text, or token ids. The result has the text, the ids, why it ended, and how long each
  // part took; nothing is warmed up (time_generate() measures).
  TimedGeneration generate(const Prompt& prompt, const GenerateOptions& options = {}) const;
  // Perplexity and log-probabilities of a text, in windows of the model's context.
  Score score(std::string_view text, const ScoreOptions& options = {}) const;
  Score score(std::span<const TokenId> ids, const ScoreOptions& options = {}) const;
  // The logits of every position: [ids, vocabulary].
  Logits logits(std::span<const TokenId> ids, const std::function<bool()>& should_stop = {}) const;

  // With the special tokens that the tokenizer puts around a text.
  std::vector<TokenId> ids_of(std::string_view text) const;
  std::string text_of(std::span<const TokenId> ids) const;
  bool has_tokenizer() const { return loaded_.tokenizer != nullptr; }

  const std::string& dtype() const { return loaded_.dtype_label; }  // "float32 (forced on CPU)": what runs
  const std::vector<Warning>& warnings() const { return loaded_.warnings; }
  std::int64_t context() const;     // tokens
  std::int64_t vocabulary() const;  // tokens
  Bytes memory() const;             // weights, as they are held
  // What the rest of the library takes.
  const LoadedModel& loaded() const { return loaded_; }

 private:
  const Tokenizer& tokenizer(std::string_view purpose) const;
  LoadedModel loaded_;
};

// A folder, an entry of the Hugging Face cache ("org/name", "org/name@revision"), or "demo"; several, joined
// by commas, are tried in order. A folder without a tokenizer serves for token ids. Throws FieldError for
// options that do not go together, Error for a model that cannot be read, Stopped.
LanguageModel load(std::string_view model, const ModelOptions& options = {});

}  // namespace assay
