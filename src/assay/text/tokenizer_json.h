// Reads tokenizer.json, the one-file form of the `tokenizers` library.
#pragma once

#include "assay/base/json.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

// Throws Error, naming `where` and the key, for anything that would make other ids than the library's.
// `adds_prefix_space` stands in place of that key of a ByteLevel pre-tokenizer.
TokenizerSpec read_tokenizer_json(const Json& file, const std::string& where,
                                  std::optional<bool> adds_prefix_space = std::nullopt);

// {"token": id, ...} into the vocabulary.
void read_vocabulary(const Json& tokens, Vocabulary& vocabulary, const std::string& where);

// The rule that joins two tokens, the second without the `prefix` that it begins with; all three must be in
// the vocabulary. `where` and `number` say where it stands.
MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view left, std::string_view right,
                     std::string_view where, std::size_t number, std::string_view prefix = {});
// The same from the form "left right".
MergeRule merge_rule(const Vocabulary& vocabulary, std::string_view line, std::string_view where,
                     std::size_t number, std::string_view prefix = {});

// One added token with its flags; `strict` asks for every flag, as the library does in tokenizer.json.
AddedToken read_added_token(const JsonView& view, std::int64_t id, bool strict);

}  // namespace assay
