// The parts of tokenizer.json around its model: normalizer, pre_tokenizer, decoder and post_processor.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "assay/base/json.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

// Each reads one part of `file` into `spec`, and throws Error, naming the file, for anything that would make
// other ids or another text than the `tokenizers` library.
void read_normalizer(const JsonView& file, TokenizerSpec& spec);
void read_pre_tokenizer(const JsonView& file, TokenizerSpec& spec,
                        std::optional<bool> adds_prefix_space = std::nullopt);
void read_decoder(const JsonView& file, TokenizerSpec& spec);  // after the pre_tokenizer
void read_post_processor(const JsonView& file,
                         TokenizerSpec& spec);  // after all tokens are in the vocabulary

// One component, with its type.
struct Component {
  std::string type;
  JsonView view;
};

// The components under `key`: those of a Sequence, which stand under `list_key`, and of the Sequences in it,
// or the one that stands alone. None where the key is missing or null.
std::vector<Component> components(const JsonView& file, std::string_view key, std::string_view list_key);

Metaspace read_metaspace(const JsonView& view);
// What a Replace or a Split looks for: a text, or a regular expression.
std::string pattern_text(const JsonView& view, bool& is_regex);
// The text under `key`, which is one character. Throws Error for any other.
std::string one_character(const JsonView& view, std::string_view key);

// "A, B and 3 more"
std::string types_of(const std::vector<Component>& all);

// For messages: a value, and a word such as the type of a component, both short.
std::string shown(const Json& value);
std::string short_text(const std::string& text);

// The array under `key`. Throws Error where there is none.
const Json& array_at(const JsonView& view, std::string_view key);

}  // namespace assay
