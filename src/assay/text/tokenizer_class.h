// The class of Transformers that reads a tokenizer, and the rules that some classes have of their own.
#pragma once

#include <string>
#include <string_view>

#include "assay/text/special_tokens.h"
#include "assay/text/tokenizer_spec.h"

namespace assay {

// As AutoTokenizer of Transformers 5 chooses it: by what the files name and by the type of the model. Empty
// where it takes tokenizer.json as it stands.
std::string class_of(const TokenizerFiles& files);

// The special tokens that such a class has where no file names others.
NamedTokens default_tokens(std::string_view class_name);

// Some classes take vocabulary, merges and post-processor of a tokenizer.json, and the rest is their own:
// sets that in `spec`. Warns of a class whose rules are not known here.
void set_class_rules(const std::string& class_name, const TokenizerFiles& files, TokenizerSpec& spec,
                     NamedTokens& defaults);

}  // namespace assay
