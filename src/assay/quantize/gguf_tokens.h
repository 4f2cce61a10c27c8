// The tokenizer's keys of a GGUF file: the inverse of checkpoint/gguf_tokenizer.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "assay/base/token_id.h"
#include "assay/checkpoint/gguf_writer.h"
#include "assay/checkpoint/source.h"

namespace assay {

// Adds them for byte-level BPE ("gpt2") and for SentencePiece's BPE with scores ("llama"); a model without a
// tokenizer gets the model "none". Tokens are as many as the embedding has rows; `end_tokens` end a text.
// Throws Error naming file and key for another kind of tokenizer, and for what these keys cannot say. Returns
// warnings: what of added tokens is lost, as clauses.
std::vector<std::string> add_gguf_tokens(const ModelSource& source, std::int64_t vocabulary,
                                         const std::vector<TokenId>& end_tokens, GgufWriter& writer);

// Throws Error where `written`, read back, gives another vocabulary, merges, or ids of texts. Returns a
// warning where its ids are those of tokenizer.json, and the class that Transformers reads it with gives
// others.
std::string check_gguf_tokens(const ModelSource& source, const ModelSource& written);

}  // namespace assay
