// assay tokenize: ids of a text, or the text of ids.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/tokenizer_files.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

namespace {

struct TokenizeFlags {
  std::string model, file, text, ids;
  bool decodes = false, has_no_special_tokens = false;
  OutputFlags output;
};

nlohmann::ordered_json listed(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const TokenId id : ids) list.push_back({{"id", id}, {"text", tokenizer.token_text(id)}});
  return list;
}

// "'<s>' (1)"
std::string named(const Tokenizer& tokenizer, std::span<const TokenId> ids) {
  std::vector<std::string> names;
  for (const TokenId id : ids)
    names.push_back(fmt::format("'{}' ({})", printable(tokenizer.token_text(id)), id));
  return fmt::format("{}", fmt::join(names, ", "));
}

// "added '<s>' (1) before the text and '</s>' (2) after it"; empty where nothing was added.
std::string added_line(const Tokenizer& tokenizer) {
  const auto bos = tokenizer.bos_tokens(), eos = tokenizer.eos_tokens();
  std::string line;
  if (!bos.empty()) line = named(tokenizer, bos) + " before the text";
  if (!eos.empty())
    line += line.empty() ? named(tokenizer, eos) + " after the text"
                         : " and " + named(tokenizer, eos) + " after it";
  return line.empty() ? line : "added " + line;
}

// Models have rows without a token, so that such ids are no mistake by themselves.
void check_ids(const Tokenizer& tokenizer, std::span<const TokenId> ids, bool is_quiet) {
  for (const TokenId id : ids)
    if (id < 0) throw Error("token id {} is no token: expected ids from 0 on", id);
  const auto beyond =
      std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return id >= tokenizer.vocab_size(); });
  if (beyond != ids.end() && !is_quiet)
    note(fmt::format("warning: token id {} is outside the vocabulary and so no text: expected 0 to {}",
                     *beyond, tokenizer.vocab_size() - 1));
}

int run_tokenize(const TokenizeFlags& flags, bool has_text) {
  if (has_text && flags.decodes)
    throw UsageError("--text: expected none beside --decode, which reads token ids from --ids or FILE");
  if (has_text && !flags.ids.empty()) throw UsageError("--text: expected none beside --ids");
  const Tokenizer tokenizer = first_candidate(candidates_of(flags.model), [](const std::string& candidate) {
    return Tokenizer::from_files(tokenizer_files_at(locate_model(candidate)));
  });
  if (!flags.output.is_quiet)
    for (const std::string& warning : tokenizer.warnings()) note("warning: " + warning);
  if (flags.decodes || !flags.ids.empty()) {
    const std::string where = !flags.ids.empty()  ? "--ids"
                              : flags.file == "-" ? "standard input"
                                                  : flags.file;
    const std::vector<TokenId> ids =
        ids_from_text(!flags.ids.empty() ? flags.ids : read_input(flags.file), where);
    check_ids(tokenizer, ids, flags.output.is_quiet);
    const std::string text = tokenizer.decode(ids, flags.has_no_special_tokens);
    if (flags.output.is_json)
      answer_json("text", {{"ids", ids}, {"text", replace_malformed_utf8(text)}});
    else
      answer(text);
    return 0;
  }
  const std::string text = has_text ? flags.text : read_input(flags.file);
  check_utf8(text, has_text ? "--text" : flags.file == "-" ? "standard input" : flags.file);
  const bool adds = !flags.has_no_special_tokens;
  const std::vector<TokenId> ids = tokenizer.encode(text, adds);
  if (!flags.output.is_json) {
    answer(fmt::format("{}\n", fmt::join(ids, " ")));
    if (const std::string line = added_line(tokenizer); adds && !line.empty() && !flags.output.is_quiet)
      note(line);
    return 0;
  }
  const auto of = [&](std::span<const TokenId> added) {
    return listed(tokenizer, adds ? added : std::span<const TokenId>());
  };
  answer_json("tokens",
              {{"ids", ids},
               {"tokens", ids.size()},
               {"added", {{"before", of(tokenizer.bos_tokens())}, {"after", of(tokenizer.eos_tokens())}}}});
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TokenizeFlags>();
  flags->file = "-";
  CLI::App* command = app.add_subcommand("tokenize", "Convert text to token ids, or token ids to text");
  command
      ->add_option("MODEL", flags->model, "Model: a folder, a GGUF file, a Hugging Face cache entry or demo")
      ->required();
  command->add_option("FILE", flags->file,
                      "File of text, or of token ids with --decode; - is standard input [-]");
  CLI::Option* text = command->add_option("-p,--prompt,--text", flags->text, "Text, in place of FILE");
  command->add_option("--ids", flags->ids, "Token ids to decode, in place of FILE: 1,2,3");
  command->add_flag("--decode", flags->decodes, "Convert token ids to text");
  command->add_flag("--no-special-tokens", flags->has_no_special_tokens,
                    "Add no special tokens (BOS, EOS) to the text; with --decode, leave them out");
  flags->output.add_to(*command);
  command->footer("Example: assay tokenize demo --text \"It was a dark night\"");
  command->callback([flags, text, &exit_code] { exit_code = run_tokenize(*flags, text->count() > 0); });
}

}  // namespace assay::cli
