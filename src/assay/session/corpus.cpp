#include "assay/session/corpus.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "assay/base/error.h"
#include "assay/base/json_lines.h"
#include "assay/text/python_text.h"
#include "assay/text/tokenizer.h"
#include "assay/text/wikitext.h"

namespace assay {

namespace {

struct NamedForm {
  CorpusForm form;
  std::string_view name;
};
constexpr NamedForm kCorpusForms[] = {
    {CorpusForm::raw, "raw"}, {CorpusForm::joined, "joined"}, {CorpusForm::lm_eval, "lm-eval"}};

std::vector<std::string> rows_of_jsonl(std::string_view content, const std::string& file) {
  std::vector<std::string> rows;
  for_json_lines(content, file, [&](const JsonReader& line, std::int64_t) {
    const char* key = line.has("text") ? "text" : "page";
    if (!line.has(key)) line.fail("expected a key \"text\" or \"page\", found neither");
    rows.push_back(line.at(key).text());
  });
  return rows;
}

// As the data set's loader: a line that is blank is an empty row.
std::vector<std::string> rows_of_text(std::string_view content) {
  std::vector<std::string> rows;
  for (std::size_t at = 0; at < content.size();) {
    const std::size_t end = std::min(content.find('\n', at), content.size() - 1) + 1;
    const std::string_view line = content.substr(at, end - at);
    rows.emplace_back(stripped(line).empty() ? std::string_view() : line);
    at = end;
  }
  return rows;
}

std::string joined(const std::vector<std::string>& rows, std::string_view between) {
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) text += between;
    text += rows[i];
  }
  return text;
}

// Rows that end in line breaks are lines, and an empty one is WikiText's " \n"; others are joined as lines.
std::string raw_of(const std::vector<std::string>& rows) {
  const bool are_lines =
      std::any_of(rows.begin(), rows.end(), [](const std::string& row) { return row.ends_with('\n'); });
  if (!are_lines) return joined(rows, "\n") + "\n";
  std::string text;
  for (const std::string& row : rows) text += row.empty() ? " \n" : row;
  return text;
}

void add_text_facts(PreparedCorpus& corpus) {
  corpus.words = count_words(corpus.content);
  corpus.characters = count_characters(corpus.content);
  corpus.bytes = std::ssize(corpus.content);
}

void add_document(PreparedCorpus& corpus, std::string_view page) {
  const std::string text = wikitext_detokenized(page);
  if (text.empty()) return;
  const std::int64_t words = count_words(page), bytes = std::ssize(page);
  const nlohmann::ordered_json line{{"text", text}, {"words", words}, {"bytes", bytes}};
  corpus.content += line.dump() + "\n";
  corpus.words += words;
  corpus.bytes += bytes;
  corpus.characters += count_characters(text);
  ++corpus.documents;
}

}  // namespace

CorpusForm corpus_form_from_name(std::string_view name) {
  for (const auto& [form, known] : kCorpusForms)
    if (known == name) return form;
  throw FieldError("form", "expected raw, joined or lm-eval, found '{}'", name.substr(0, 64));
}

std::string_view name_of(CorpusForm form) {
  return kCorpusForms[static_cast<std::size_t>(form)].name;
}

PreparedCorpus prepare_corpus(std::string_view content, const std::string& file, bool is_jsonl,
                              CorpusForm form) {
  if (content.starts_with("PAR1"))
    throw Error(
        "{}: expected a text or JSONL, found Apache Parquet: convert it first, as in python3 -c \"import "
        "pandas; "
        "pandas.read_parquet('FILE').to_json('OUT.jsonl', orient='records', lines=True)\"",
        file);
  if (content.empty()) throw Error("{} is empty: a perplexity needs text", file);
  check_utf8(content, file);
  PreparedCorpus corpus;
  const std::vector<std::string> rows = is_jsonl ? rows_of_jsonl(content, file) : rows_of_text(content);
  corpus.rows = std::ssize(rows);
  if (form != CorpusForm::lm_eval) {
    if (form == CorpusForm::joined)
      corpus.content = joined(rows, "\n\n");
    else
      corpus.content = is_jsonl ? raw_of(rows) : std::string(content);
    add_text_facts(corpus);
    return corpus;
  }
  corpus.documents = 0;
  if (is_jsonl) {
    for (const std::string& row : rows) add_document(corpus, row);
  } else {
    for (const std::string_view page : wikitext_documents(content)) add_document(corpus, page);
  }
  if (corpus.documents == 0) throw Error("{}: expected a text that is not empty, found none", file);
  return corpus;
}

}  // namespace assay
