// assay tokenize: ids of a text, or the text of ids.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/session/load_parts.h"
#include "assay/text/tokenizer.h"

namespace assay::cli {

namespace {

struct TokenizeFlags {
  std::string model, file, text, ids;
  bool decodes = false;
  OutputFlags output;
};

int run_tokenize(const TokenizeFlags& flags, bool has_text) {
  const Tokenizer tokenizer = first_candidate(candidates_of(flags.model), [](const std::string& candidate) {
    return Tokenizer::load(locate_model(candidate));
  });
  if (flags.decodes || !flags.ids.empty()) {
    const std::string where = !flags.ids.empty()  ? "--ids"
                              : flags.file == "-" ? "standard input"
                                                  : flags.file;
    const std::vector<TokenId> ids =
        ids_from_text(!flags.ids.empty() ? flags.ids : read_input(flags.file), where);
    const std::string text = tokenizer.decode(ids);
    if (flags.output.is_json)
      answer_json({{"ids", ids}, {"text", replace_malformed_utf8(text)}});
    else
      answer(text);
    return 0;
  }
  const std::string text = has_text ? flags.text : read_input(flags.file);
  check_utf8(text, has_text ? "--text" : flags.file == "-" ? "standard input" : flags.file);
  const std::vector<TokenId> ids = tokenizer.encode(text);
  if (flags.output.is_json)
    answer_json({{"ids", ids}, {"tokens", ids.size()}});
  else
    answer(fmt::format("{}\n", fmt::join(ids, " ")));
  return 0;
}

}  // namespace

void add_tokenize(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<TokenizeFlags>();
  flags->file = "-";
  CLI::App* command = app.add_subcommand("tokenize", "Token ids of a text, or the text of token ids");
  command->add_option("MODEL", flags->model, "A folder, a Hugging Face cache entry or demo")->required();
  command->add_option("FILE", flags->file,
                      "The text, or the ids with --decode; - (the default) is standard input");
  CLI::Option* text = command->add_option("-p,--prompt,--text", flags->text, "The text itself");
  command->add_option("--ids", flags->ids, "The ids themselves: 1,2,3 (implies --decode)");
  command->add_flag("--decode", flags->decodes, "From ids to text");
  flags->output.add_to(*command);
  command->footer("Example: assay tokenize demo --text \"It was a dark night\"");
  command->callback([flags, text, &exit_code] { exit_code = run_tokenize(*flags, text->count() > 0); });
}

}  // namespace assay::cli
