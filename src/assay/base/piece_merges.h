// The merges of a BPE whose file keeps scores in place of merges: SentencePiece models, and what is made of
// them.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace assay {

using PieceMerges = std::vector<std::pair<std::string, std::string>>;

// Every two pieces that join to a third, in the order in which BPE applies them, as Transformers 5 lists them
// of a GGUF file: by the score of what they make, the highest first; among equals those with the longer left
// part first, counted in characters, then those with the longer right part, then in the order of `pieces`. A
// piece that stands twice has its last score and its first place. Throws Error where there is not one score,
// a number, for each piece, and where the merges would be longer than those of any vocabulary in use.
PieceMerges merges_from_scores(std::span<const std::string> pieces, std::span<const float> scores);

// The same where the place of a piece is its rank: by the place of what they make, the first one first, then
// the shorter left part. So Transformers' classes for Llama and Gemma read tokenizer.model, whose scores they
// leave out.
PieceMerges merges_from_order(std::span<const std::string> pieces);

// The same by score, the highest first, then by the place of what they make, then the shorter left part: as
// SentencePiece ranks its pieces, and Transformers where it has no class for a model.
PieceMerges merges_as_ranked(std::span<const std::string> pieces, std::span<const float> scores);

}  // namespace assay
