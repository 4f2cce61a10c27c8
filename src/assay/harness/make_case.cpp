#include "assay/harness/make_case.h"

#include "assay/base/error.h"
#include "assay/text/tokenizer.h"

namespace assay {

Case baseline_case(const ExperimentContext& context, Scenario scenario, std::string label,
                   std::vector<Prompt> prompts, std::int64_t new_tokens) {
  Case spec;
  spec.scenario = scenario;
  spec.label = std::move(label);
  spec.configuration = context.baseline;
  spec.prompts = std::move(prompts);
  spec.new_tokens = new_tokens;
  return spec;
}

void fit_context(const ExperimentContext& context, Case& spec) {
  const std::int64_t room = context.context_length - spec.new_tokens;
  for (const Prompt& prompt : spec.prompts) {
    const auto* text = std::get_if<std::string>(&prompt);
    const std::size_t tokens =
        text != nullptr ? encode(context, *text).size() : std::get<std::vector<TokenId>>(prompt).size();
    if (static_cast<std::int64_t>(tokens) <= room) continue;
    spec.truncation = Truncation::left;
    spec.warnings.push_back(
        {WarningKind::prompt_truncated,
         fmt::format("a prompt of {} tokens was cut on the left, because it and {} new tokens exceed the "
                     "context of {}",
                     tokens, spec.new_tokens, context.context_length),
         static_cast<double>(tokens + spec.new_tokens), static_cast<double>(context.context_length)});
    return;
  }
}

std::string shown(const Prompt& prompt) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  return fmt::format("ids {}", fmt::join(std::get<std::vector<TokenId>>(prompt), " "));
}

std::vector<TokenId> ids_of_length(const ExperimentContext& context, const std::string& text,
                                   std::int64_t length) {
  encode(context, text);  // throws what a prompt of this text would
  const std::vector<TokenId> base = context.tokenizer->encode(text, false);
  if (base.empty()) throw Error("the text that prompts are made of gives no tokens");
  // What stands before a prompt stands there once, however often the text is repeated.
  const auto bos = context.tokenizer->bos_tokens();
  std::vector<TokenId> ids(bos.begin(), bos.end());
  while (static_cast<std::int64_t>(ids.size()) < length) ids.insert(ids.end(), base.begin(), base.end());
  ids.resize(static_cast<std::size_t>(length));
  return ids;
}

std::vector<TokenId> encode(const ExperimentContext& context, const std::string& text) {
  return encode(context.tokenizer.get(), text);
}

std::vector<TokenId> encode(const Tokenizer* tokenizer, const std::string& text) {
  if (tokenizer == nullptr) throw Error("the model has no tokenizer, which a text needs");
  check_utf8(text, "prompt");
  return tokenizer->encode(text);
}

}  // namespace assay
