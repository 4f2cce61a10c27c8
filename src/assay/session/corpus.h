// Prepares the text of a perplexity from a text file, or from the rows of a data set: its figures depend on
// how rows are put together.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace assay {

// raw: WikiText's raw file, as llama.cpp scores it. joined: its rows joined by two line breaks, as GPTQ and
// the guide of Transformers score them. lm_eval: its documents, detokenized, with the words and bytes that
// they had before.
enum class CorpusForm { raw, joined, lm_eval };
// Throws FieldError for a name that is none.
CorpusForm corpus_form_from_name(std::string_view name);
std::string_view name_of(CorpusForm form);

struct PreparedCorpus {
  std::string content;    // what the file to write holds: a text, or for lm_eval JSONL of documents
  std::int64_t rows = 0;  // that were read: lines of a text, objects of JSONL
  std::int64_t documents = 1;
  // The text that will be scored has them; for lm_eval words and bytes are those of what it was made of, by
  // which its figures divide.
  std::int64_t words = 0, characters = 0, bytes = 0;
};

// `content` is a text, or where is_jsonl an object on each line with a key "text" or "page". A text's rows
// are its lines with their line breaks, of which blank ones are empty rows, as the Hub's data set has them;
// its documents begin at headings of the first level. Throws Error naming `file` for what cannot be read, and
// for a file in Apache Parquet's format, with what to do about it.
PreparedCorpus prepare_corpus(std::string_view content, const std::string& file, bool is_jsonl,
                              CorpusForm form);

}  // namespace assay
