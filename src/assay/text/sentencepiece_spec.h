// What SentencePiece's tokenizer.model stands for, as Transformers 5 converts it.
#pragma once

#include "assay/text/special_tokens.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

// By the class of Transformers that tokenizer_config.json names: LlamaTokenizer, GemmaTokenizer and
// T5Tokenizer have rules of their own, any other follows what the file says. `defaults` receives the special
// tokens where no other file names them.
TokenizerSpec read_sentencepiece(const TokenizerFiles& files, const std::string& class_name,
                                 NamedTokens& defaults);

// The rules of LlamaTokenizer around its vocabulary and merges, in place of those that a tokenizer.json has:
// `config` is tokenizer_config.json, whose add_prefix_space and legacy it follows.
void set_llama_rules(const JsonView& config, TokenizerSpec& spec, NamedTokens& defaults);
// The same of CodeLlamaTokenizer and GemmaTokenizer.
void set_code_llama_rules(const JsonView& config, const std::string& unknown, TokenizerSpec& spec);
void set_gemma_rules(const JsonView& config, const std::string& unknown, TokenizerSpec& spec);

}  // namespace assay
