// The search of Viterbi (1967) over the pieces that begin at each character.
#include "assay/text/unigram.h"

#include <algorithm>

#include "assay/base/error.h"
#include "assay/text/utf8.h"
#include "assay/text/vocabulary.h"

namespace assay {

Unigram::Unigram(UnigramRules rules) : rules_(std::move(rules)) {
  constexpr double kUnknownPenalty = 10;  // as SentencePiece has it
  double lowest = std::numeric_limits<double>::infinity();
  for (const double score : rules_.scores) lowest = std::min(lowest, score);
  unknown_score_ = lowest - kUnknownPenalty;
}

void Unigram::reach(Best& best, double score, std::size_t begin, TokenId id) const {
  if (best.begin == kNone || score > best.score) best = {score, static_cast<std::uint32_t>(begin), id};
}

void Unigram::append_unknown(std::string_view run, std::vector<TokenId>& out,
                             const std::unordered_set<TokenId>& left_out) const {
  if (const auto id = rules_.pieces.find(run); id && !left_out.contains(*id)) return out.push_back(*id);
  const auto token_of = [&](char byte) { return rules_.byte_tokens[static_cast<unsigned char>(byte)]; };
  if (std::all_of(run.begin(), run.end(), [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : run) out.push_back(token_of(byte));
  } else {
    out.push_back(*rules_.unknown);
  }
}

void Unigram::encode(std::string_view word, std::vector<TokenId>& out,
                     const std::unordered_set<TokenId>& left_out) const {
  if (word.size() >= kNone) throw Error("text: a word of {} bytes is too long to encode", word.size());
  std::vector<Best> best(word.size() + 1);
  std::size_t length = 0;
  for (std::size_t begin = 0; begin < word.size(); begin += length) {
    const double score = best[begin].score;
    read_valid_utf8(word, begin, length);
    bool is_piece = false;  // the character by itself
    rules_.pieces.for_each_prefix(word.substr(begin), [&](std::size_t bytes, TokenId id) {
      if (!left_out.empty() && left_out.contains(id)) return;
      reach(best[begin + bytes], score + rules_.scores[static_cast<std::size_t>(id)], begin, id);
      is_piece = is_piece || bytes == length;
    });
    if (is_piece) continue;
    if (!rules_.unknown)
      throw Error("text: no token stands for {}, and the tokenizer names none for what is unknown (unk_id)",
                  in_quotes(word.substr(begin, length)));
    reach(best[begin + length], score + unknown_score_, begin, *rules_.unknown);
  }
  // Backwards: a run of unknown characters is one.
  const std::size_t first = out.size();
  std::size_t run_end = 0;
  const auto end_run = [&](std::size_t begin) {
    if (run_end == 0) return;
    const std::size_t from = out.size();
    append_unknown(word.substr(begin, run_end - begin), out, left_out);
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(from), out.end());
    run_end = 0;
  };
  for (std::size_t end = word.size(); end > 0; end = best[end].begin) {
    if (rules_.unknown && best[end].id == *rules_.unknown) {
      if (run_end == 0) run_end = end;
      continue;
    }
    end_run(end);
    out.push_back(best[end].id);
  }
  end_run(0);
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
}

}  // namespace assay
