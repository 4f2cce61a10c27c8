// WikiText, whose words are separated by blanks: back to text as people write it, by lm-eval's rules.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace assay {

// lm-eval's wikitext_detokenizer (tasks/wikitext/preprocess_wikitext.py), with its mistakes: " @-@ " becomes
// "-", blanks before punctuation and within brackets and quotes go, "= = =" becomes "===", " N " becomes
// " 1 ". The text is valid UTF-8.
std::string wikitext_detokenized(std::string_view text);

// The parts of a raw file that begin at headings of the first level, " = Title = "; a text without any is one
// part. They join to the text.
std::vector<std::string_view> wikitext_documents(std::string_view text);

}  // namespace assay
