// assay logits: float32 [tokens, vocab] of a text or of ids, for comparing with any reference.
#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"
#include "assay/generate/steps.h"
#include "assay/model/model.h"
#include "assay/tensor/npy.h"

namespace assay::cli {

namespace {

struct LogitsFlags {
  ModelFlags model;
  PromptFlags prompt;
  OutputFlags output;
  std::string path = "logits.npy";
};

void write_logits(Program& program, const std::vector<TokenId>& ids, const ByteSink& sink) {
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  const std::string header = npy_header(static_cast<std::int64_t>(ids.size()), program.plan().vocab);
  sink(std::as_bytes(std::span(header.data(), header.size())));
  const auto cache = program.make_cache();
  const StepItem item{cache->add_sequence(), ids};
  constexpr std::int64_t kRows = 16;  // of logits held at once
  std::vector<float> logits(kRows * vocab);
  run_in_steps(program, *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) {
    const std::int64_t rows = parts.front().rows;
    for (std::int64_t first = 0; first < rows; first += kRows) {
      std::vector<std::int64_t> some;
      for (std::int64_t row = first; row < std::min(rows, first + kRows); ++row)
        some.push_back(parts.front().first_row + row);
      const auto part = std::span(logits).first(some.size() * vocab);
      program.head(some, LogitsSink{part});
      for (std::size_t i = 0; i < some.size(); ++i)
        require_finite(part.subspan(i * vocab, vocab),
                       parts.front().first + first + static_cast<std::int64_t>(i));
      sink(std::as_bytes(part));
    }
  });
}

int run_logits(const LogitsFlags& flags) {
  if (flags.path.empty()) throw UsageError("--output: expected a file, found an empty name");
  const std::vector<Prompt> prompts = flags.prompt.read();
  if (prompts.size() != 1)
    throw UsageError("logits: expected one text or one list of ids, found {}", prompts.size());
  const LoadedModel loaded = flags.model.load(!flags.prompt.is_ids_only());
  const std::vector<TokenId> ids = prompt_ids(loaded, prompts.front());
  const std::int64_t vocab = loaded.model->spec().vocab, context = loaded.model->spec().context;
  if (ids.empty()) throw Error("the prompt is empty: logits need at least one token");
  if (static_cast<std::int64_t>(ids.size()) > context)
    throw Error("{} tokens exceed the model's context of {}", ids.size(), context);
  write_file_atomically(flags.path,
                        [&](const ByteSink& sink) { write_logits(loaded.model->program(), ids, sink); });
  if (flags.output.is_json)
    answer_json({{"shape", {ids.size(), vocab}}, {"dtype", "float32"}, {"path", flags.path}, {"ids", ids}});
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
