// The tokenizer that a GGUF file keeps in its metadata, as the documents of a Hugging Face folder.
#pragma once

#include "assay/base/tokenizer_files.h"
#include "assay/checkpoint/gguf_file.h"

namespace assay {

// tokenizer.ggml.token_type.
enum class GgufTokenType { normal = 1, unknown, control, user_defined, unused, byte };

bool has_gguf_tokenizer(const GgufFile& file);

// tokenizer.json of tokenizer.ggml.model 'gpt2' (byte-pair encoding of bytes; tokenizer.ggml.pre says how
// words are cut) or 'llama' (SentencePiece's, whose merges follow from scores), and tokenizer_config.json.
// Throws Error naming the file and the key: for no tokenizer, another model, an unknown `pre`, lists of
// different lengths, tokens that are no UTF-8 or too long, ids beyond the tokens.
TokenizerFiles gguf_tokenizer_files(const GgufFile& file);

}  // namespace assay
