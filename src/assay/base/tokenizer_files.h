// What a tokenizer is made of, in Hugging Face's form: the documents of a folder, or the same made of what
// another file keeps. Read here, understood in text/.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "assay/base/json.h"

namespace assay {

struct TokenizerFiles {
  struct Document {
    Json content = Json::object();  // empty where there is no such document
    std::string where = {};         // for messages: its file
  };
  struct Text {
    std::string content, where;
  };

  std::string where;   // the folder or file that all of it comes from, for messages
  std::string source;  // "tokenizer.json", "vocab.json + merges.txt", "tokenizer.model": for people
  std::optional<Document> tokenizer =
      {};  // tokenizer.json; unset: vocabulary and merges are there, or pieces
  std::optional<Document> vocabulary = {};  // vocab.json
  std::optional<Text> merges = {};          // merges.txt
  std::optional<Text> pieces = {};          // tokenizer.model: the bytes of SentencePiece's file
  Document added_tokens = {};               // added_tokens.json
  Document config = {};                     // tokenizer_config.json
  Document special_tokens = {};             // special_tokens_map.json
  // Those of config.json, where the class of a tokenizer depends on them.
  std::string model_type = {}, model_class = {};
};

// Whether a folder has one of the three forms.
bool has_tokenizer_files(const std::filesystem::path& folder);
// Throws Error naming the file for what is missing, too long or not JSON.
TokenizerFiles read_tokenizer_files(const std::filesystem::path& folder);

}  // namespace assay
