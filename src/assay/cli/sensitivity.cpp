// assay sensitivity: which parts of a model lose most where they are quantized.
#include "assay/studies/sensitivity.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/exchange_flags.h"
#include "assay/cli/sensitivity_view.h"
#include "assay/report/document_files.h"
#include "assay/report/table.h"
#include "assay/statistics/replicates.h"

namespace assay::cli {

namespace {

struct SensitivityFlags {
  ExchangeFlags shared;
  std::string precision = "nf4";
  std::int64_t rows = 20;
  std::string folder;  // the report's; empty: none
};

void write_sensitivity(const Sensitivity& found, const std::string& model, const SensitivityFlags& flags) {
  const report::WrittenReports written =
      report::write_document(sensitivity_document(found, model), flags.folder);
  if (flags.shared.output.is_quiet) return;
  note(fmt::format("Open {}", (std::filesystem::path(flags.folder) / "report.html").string()));
  if (!written.note.empty()) note(written.note);
}

int run_sensitivity(const SensitivityFlags& flags) {
  const WeightFormat format = format_from_name(flags.precision, "precision");
  if (recipe_name_of(format) == flags.shared.baseline)
    throw FieldError("precision", "expected another precision than {}, which the model is compared with",
                     flags.shared.baseline);
  if (!flags.folder.empty()) check_output_folder(flags.folder);
  ItemExchange model = flags.shared.load();
  std::vector<TokenId> ids = flags.shared.ids(model.base());
  const std::int64_t limit = flags.shared.max_tokens;
  if (limit > 0 && limit < std::ssize(ids)) ids.resize(static_cast<std::size_t>(limit));
  Progress progress(flags.shared.output.shows_progress());
  const SensitivityOptions options{
      .context = flags.shared.context,
      .on_progress = [&](const std::string& what, std::int64_t done, std::int64_t all) {
        progress.show(fmt::format("{} of {}: {}", done + 1, all, what));
      }};
  const Sensitivity found = measure_sensitivity(model, format, ids, options);
  progress.clear();
  if (flags.shared.output.is_json) {
    if (!flags.folder.empty())
      report::write_document(sensitivity_document(found, model.base().id), flags.folder);
    answer_json("sensitivity", sensitivity_json(found, model.base().id));
    return 0;
  }
  const std::size_t shown = flags.rows == 0 ? found.items.size() : static_cast<std::size_t>(flags.rows);
  const auto shown_table = [](const report::Table& table) { return report::to_text(table, table_width()); };
  std::string text = shown_table(sensitivity_items(found, shown));
  if (shown < found.items.size())
    text += fmt::format("and {} more, of smaller KL (--rows 0 shows all)\n", found.items.size() - shown);
  answer(text + "\n" + shown_table(sensitivity_sums("Tensor class", found, found.kinds)) + "\n" +
         shown_table(sensitivity_sums("Layer", found, found.layers)) + "\n" + sensitivity_sentence(found) +
         "\n");
  if (!flags.folder.empty()) write_sensitivity(found, model.base().id, flags);
  if (flags.shared.output.is_quiet) return 0;
  note(fmt::format("KL from {} with one item in {}, {}: {} tokens scored", found.baseline,
                   recipe_name_of(format), found.protocol, found.tokens_scored));
  if (!found.left_out.empty())
    note(fmt::format(
        "{} left out, {} and the like: their inputs are no multiple of {}, which a block of {} has",
        counted(std::ssize(found.left_out), "item"), found.left_out.front(), block_inputs(format),
        recipe_name_of(format)));
  constexpr auto kFewest =
      statistics::kDivergenceBlock * static_cast<std::int64_t>(statistics::kMinForInterval);
  if (found.tokens_scored < kFewest)
    note(fmt::format("Intervals need {} scored tokens: take a longer text.", kFewest));
  return 0;
}

}  // namespace

void add_sensitivity(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<SensitivityFlags>();
  CLI::App* command = app.add_subcommand(
      "sensitivity", "Measure which parts of a model lose most when they are quantized (KL divergence)");
  flags->shared.add_to(*command, "First tokens of the text to measure on; 0: all [2000]");
  command->add_option("--precision", flags->precision, "Precision that one part after the other takes [nf4]");
  add_whole(*command, "--rows", flags->rows, "Items to show, the largest KL first; 0: all [20]");
  command->add_option("-o,--output", flags->folder,
                      "Folder for a report with a heat map of layers and tensor classes [none is written]");
  command->footer("Example: assay sensitivity demo --precision nf4 -o sensitivity");
  command->callback([flags, &exit_code] { exit_code = run_sensitivity(*flags); });
}

}  // namespace assay::cli
