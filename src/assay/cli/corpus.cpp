// assay corpus: the text that a published perplexity is of.
#include "assay/session/corpus.h"

#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/file.h"
#include "assay/base/format.h"
#include "assay/base/sha256.h"
#include "assay/cli/commands.h"
#include "assay/cli/console.h"
#include "assay/cli/options.h"

namespace assay::cli {

namespace {

struct CorpusFlags {
  std::string in, out, form = "raw";
  bool is_json = false, is_forced = false;
};

int prepare(const CorpusFlags& flags) {
  namespace fs = std::filesystem;
  const CorpusForm form = corpus_form_from_name(flags.form);
  const PreparedCorpus corpus =
      prepare_corpus(read_text_file(flags.in), flags.in, fs::path(flags.in).extension() == ".jsonl", form);
  const fs::path out(flags.out);
  if (form == CorpusForm::lm_eval && out.extension() != ".jsonl")
    throw UsageError("OUT: expected a name that ends in .jsonl, because lm-eval scores documents, found '{}'",
                     flags.out);
  if (form != CorpusForm::lm_eval && out.extension() == ".jsonl")
    throw UsageError("OUT: expected the name of a text file, found '{}'", flags.out);
  if (fs::exists(out) && !flags.is_forced)
    throw Error("{}: exists already; --force overwrites it", flags.out);
  write_file_atomically(out, corpus.content);
  const std::string hash = sha256_hex(corpus.content);
  if (flags.is_json) {
    answer_json("corpus", {{"file", flags.out},
                           {"form", name_of(form)},
                           {"rows", corpus.rows},
                           {"documents", corpus.documents},
                           {"words", corpus.words},
                           {"characters", corpus.characters},
                           {"bytes", corpus.bytes},
                           {"sha256", hash}});
    return 0;
  }
  answer_text(fmt::format("{}: {}, {}, {} words, {} characters, {} bytes{}\nsha256: {}\n", flags.out,
                          counted(corpus.rows, "row"), counted(corpus.documents, "document"), corpus.words,
                          corpus.characters, corpus.bytes,
                          form == CorpusForm::lm_eval ? " (words and bytes before detokenizing)" : "", hash));
  return 0;
}

}  // namespace

void add_corpus(CLI::App& app, int& exit_code) {
  auto flags = std::make_shared<CorpusFlags>();
  CLI::App* command =
      app.add_subcommand("corpus", "Prepare the text that a perplexity is measured on, and hash it");
  command
      ->add_option("IN", flags->in,
                   "Text file in UTF-8; named .jsonl, a row in the key text or page of each line")
      ->required();
  command->add_option("OUT", flags->out, "File to write; of --form lm-eval named .jsonl")->required();
  command->add_option(
      "--form", flags->form,
      "Form of the text: raw as WikiText's raw file, joined with two line breaks between rows, or "
      "lm-eval with detokenized documents [raw]");
  command->add_flag("--force", flags->is_forced, "Overwrite OUT");
  command->add_flag("--json", flags->is_json, "Print one JSON document to standard output");
  command->footer("Example: assay corpus wiki.test.raw wikitext.jsonl --form lm-eval");
  command->callback([flags, &exit_code] { exit_code = prepare(*flags); });
}

}  // namespace assay::cli
