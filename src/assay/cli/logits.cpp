// assay logits: float32 [tokens, vocab] of a text or of ids, for comparing with any reference.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/model/model.h"
#include "assay/session/logits.h"
#include "assay/tensor/npy.h"

namespace assay::cli {

namespace {

struct LogitsFlags {
  ModelFlags model;
  PromptFlags prompt;
  OutputFlags output;
  std::string path = "logits.npy";
};

int run_logits(const LogitsFlags& flags) {
  if (flags.path.empty()) throw UsageError("--output: expected a file, found an empty name");
  const std::vector<Prompt> prompts = flags.prompt.read({flags.model.config.newlines, flags.output.is_quiet});
  if (prompts.size() != 1)
    throw UsageError("logits: expected one text or one list of ids, found {}", prompts.size());
  check_output_file(flags.path);
  const LoadedModel loaded = flags.model.load(!flags.prompt.is_ids_only());
  const std::vector<TokenId> ids = prompt_ids(loaded, prompts.front());
  const std::int64_t vocab = loaded.model->spec().vocab;
  write_file_atomically(flags.path, [&](const ByteSink& sink) {
    const std::string header = npy_header(static_cast<std::int64_t>(ids.size()), vocab);
    sink(std::as_bytes(std::span(header.data(), header.size())));
    for_each_logits(
        loaded, ids, [&](std::span<const float> rows) { sink(std::as_bytes(rows)); }, is_interrupted);
  });
  if (flags.output.is_json)
    answer_json("logits",
                {{"shape", {ids.size(), vocab}}, {"dtype", "float32"}, {"path", flags.path}, {"ids", ids}});
  else
    answer(fmt::format("{}: float32 [{}, {}]\n", flags.path, ids.size(), vocab));
  return 0;
}

}  // namespace

void add_logits(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<LogitsFlags>();
  CLI::App* command = app.add_subcommand("logits", "Write the logits of every position to a .npy file");
  flags->model.add_to(*command);
  flags->prompt.add_to(*command);
  command->add_option("-o,--output", flags->path, "File to write [logits.npy]")->type_name("FILE");
  flags->output.add_to(*command);
  command->footer("Example: assay logits demo --ids 1,2,3 -o logits.npy");
  command->callback([flags, &exit_code] { exit_code = run_logits(*flags); });
}

}  // namespace assay::cli
