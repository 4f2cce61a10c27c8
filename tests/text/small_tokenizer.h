// A tokenizer small enough to reason about, written to a folder of its own, for the tests of text/.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "assay/base/error.h"
#include "assay/base/json.h"
#include "assay/text/byte_alphabet.h"
#include "assay/text/tokenizer.h"

namespace assay {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "assay-text-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error("cannot make a folder {}", name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, std::string_view content) const {
    std::ofstream(path_ / name, std::ios::binary) << content;
  }

 private:
  std::filesystem::path path_;
};

// What the Error of `action` says; a failed test where there is none.
template <typename Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  ADD_FAILURE() << "expected an Error";
  return "";
}

inline bool holds(std::string_view text, std::string_view part) {
  return text.find(part) != text.npos;
}

// Bytes have their own value as id; merges make he=256, ll=257, hell=258, hello=259, " w"=260, 's=261.
inline Json small_tokenizer() {
  Json vocab = Json::object(), merges = Json::array();
  for (int byte = 0; byte < 256; ++byte)
    vocab[to_byte_alphabet(std::string(1, static_cast<char>(byte)))] = byte;
  const std::pair<std::string, std::string> pairs[] = {{"h", "e"},    {"l", "l"},        {"he", "ll"},
                                                       {"hell", "o"}, {"\xC4\xA0", "w"}, {"'", "s"}};
  int next = 256;
  for (const auto& [left, right] : pairs) {
    vocab[left + right] = next++;
    merges.push_back(left + " " + right);
  }
  return {{"version", "1.0"},
          {"added_tokens", Json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}};
}

inline Json added_token(const std::string& content, int id, const std::vector<std::string>& flags = {}) {
  Json token = {{"content", content}, {"id", id}};
  for (const char* flag : {"special", "single_word", "lstrip", "rstrip", "normalized"}) token[flag] = false;
  for (const std::string& flag : flags) token[flag] = true;
  return token;
}

inline Tokenizer load_json(const Json& file) {
  const TemporaryFolder folder;
  folder.write("tokenizer.json", file.dump());
  return Tokenizer::load(folder.path());
}

// The small tokenizer with added tokens.
inline Tokenizer with_added(const std::vector<Json>& tokens) {
  Json file = small_tokenizer();
  file["added_tokens"] = tokens;
  return load_json(file);
}

using Ids = std::vector<TokenId>;

// A text of the fixtures: a string, or one to be repeated.
inline std::string text_of(const Json& text) {
  if (text.is_string()) return text;
  std::string out;
  for (std::int64_t i = text.at("times"); i > 0; --i) out += text.at("repeat").get_ref<const std::string&>();
  return out;
}

}  // namespace assay
