// The parts of tokenizer.json around its model: normalizer, pre_tokenizer, decoder and post_processor.
#pragma once

#include <string>
#include <string_view>

#include "assay/base/json.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

// Each reads one part of `file` into `spec`, and throws Error, naming the file, for anything that would make
// other ids or another text than the `tokenizers` library.
void read_normalizer(const JsonView& file, TokenizerSpec& spec);
void read_pre_tokenizer(const JsonView& file, TokenizerSpec& spec);
void read_decoder(const JsonView& file, TokenizerSpec& spec);  // after the pre_tokenizer
void read_post_processor(const JsonView& file,
                         TokenizerSpec& spec);  // after all tokens are in the vocabulary

// For messages: a value, and a word such as the type of a component, both short.
std::string shown(const Json& value);
std::string short_text(const std::string& text);

// The array under `key`. Throws Error where there is none.
const Json& array_at(const JsonView& view, std::string_view key);

}  // namespace assay
