#include "assay/base/tokenizer_files.h"

#include "assay/base/error.h"
#include "assay/base/file.h"

namespace assay {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kLongestVocabulary = std::uint64_t{64} << 20;  // the largest in use take 35 MB

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

TokenizerFiles::Document read_vocabulary(const fs::path& path) {
  return {read_json_object(path, kLongestVocabulary), path.string()};
}

// These hold added tokens at most.
TokenizerFiles::Document read_if_there(const fs::path& path) {
  constexpr std::uint64_t kMax = std::uint64_t{16} << 20;
  constexpr std::size_t kMaxValues = 1'000'000;
  return {is_there(path) ? read_python_json(path, kMax, kMaxValues) : Json::object(), path.string()};
}

// Nothing where config.json says none; what is wrong with that file is for its own reader to say.
void read_model_config(const fs::path& folder, TokenizerFiles& files) {
  if (!is_there(folder / "config.json")) return;
  try {
    const Json content = read_json_object(folder / "config.json");
    const JsonView config(content, "");
    files.model_type = config.text_or("model_type", "");
    files.model_class = config.text_or("tokenizer_class", "");
  } catch (const Error&) {
    return;
  }
}

}  // namespace

bool has_tokenizer_files(const fs::path& folder) {
  return is_there(folder / "tokenizer.json") || is_there(folder / "vocab.json") ||
         is_there(folder / "tokenizer.model");
}

TokenizerFiles read_tokenizer_files(const fs::path& folder) {
  if (!has_tokenizer_files(folder))
    throw Error("{}: expected tokenizer.json, vocab.json and merges.txt, or tokenizer.model, found none",
                folder.string());
  const bool is_one_file = is_there(folder / "tokenizer.json");
  const fs::path merges = folder / "merges.txt", pieces = folder / "tokenizer.model";
  const bool has_pieces = !is_one_file && is_there(pieces) && !is_there(folder / "vocab.json");
  if (!is_one_file && !has_pieces && !is_there(merges))
    throw Error("{}: expected merges.txt beside vocab.json, found none", folder.string());
  TokenizerFiles files{.where = folder.string(),
                       .source = is_one_file  ? "tokenizer.json"
                                 : has_pieces ? "tokenizer.model"
                                              : "vocab.json + merges.txt"};
  files.config = read_if_there(folder / "tokenizer_config.json");
  if (is_one_file) {
    files.tokenizer = read_vocabulary(folder / "tokenizer.json");
  } else if (has_pieces) {
    files.pieces = {read_text_file(pieces, kLongestVocabulary), pieces.string()};
  } else {
    files.vocabulary = read_vocabulary(folder / "vocab.json");
    files.merges = {read_text_file(merges, kLongestVocabulary), merges.string()};
  }
  files.added_tokens = read_if_there(folder / "added_tokens.json");
  files.special_tokens = read_if_there(folder / "special_tokens_map.json");
  read_model_config(folder, files);
  return files;
}

}  // namespace assay
