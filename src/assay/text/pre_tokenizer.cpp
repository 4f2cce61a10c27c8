// Runs the steps depth first: a piece goes through all that follow before the next one is cut.
#include "assay/text/pre_tokenizer.h"

#include <optional>

#include "assay/base/error.h"
#include "assay/text/added_tokens.h"
#include "assay/text/byte_alphabet.h"
#include "assay/text/utf8.h"

namespace assay {

namespace {

// A part of a text, and whether it is a match or what is between two.
struct Segment {
  std::size_t begin, end;
  bool is_match;
};

bool is_in(CharSet set, char32_t c) {
  switch (set) {
    case CharSet::numbers:
      return char_class(c) == CharClass::number;
    case CharSet::punctuation:
      return is_punctuation(c);
    case CharSet::blanks:
      return char_class(c) == CharClass::space;
  }
  return false;
}

// Calls `on_segment` for the matches in `text` and for what is between them, which is never empty.
template <typename OnSegment>
class Segmenter {
 public:
  Segmenter(std::string_view text, RegexBudget& budget, const OnSegment& on_segment)
      : text_(text), budget_(budget), on_segment_(on_segment) {}

  void operator()(WordPattern pattern) {
    while (done_ < text_.size()) match(done_, word_end(pattern, text_, done_));
  }
  void operator()(const std::string& literal) {
    for (std::size_t found; (found = text_.find(literal, done_)) != text_.npos;)
      match(found, found + literal.size());
    finish();
  }
  void operator()(const Regex& regex) {
    Regex::Search search(regex, text_, budget_);
    while (const auto found = search.next()) match(found->begin, found->end);
    finish();
  }
  void operator()(CharSet set) {
    std::size_t length = 0;
    for (std::size_t at = 0; at < text_.size(); at += length)
      if (is_in(set, read_valid_utf8(text_, at, length))) match(at, at + length);
    finish();
  }
  void operator()(const std::shared_ptr<const PatternFinder>& finder) {
    const std::vector<PatternFinder::Match> matches = finder->find(text_);
    for (auto found = matches.rbegin(); found != matches.rend(); ++found)
      if (found->begin >= done_) match(found->begin, found->begin + finder->length(found->pattern));
    finish();
  }
  void operator()(WordsAndSymbols) {
    enum class Kind { word, symbol, space };
    const auto kind_at = [&](std::size_t at, std::size_t& length) {
      const char32_t c = read_valid_utf8(text_, at, length);
      if (is_word_char(c)) return Kind::word;
      return char_class(c) == CharClass::space ? Kind::space : Kind::symbol;
    };
    std::size_t length = 0;
    for (std::size_t at = 0; at < text_.size();) {
      const Kind kind = kind_at(at, length);
      std::size_t end = at + length;
      while (end < text_.size() && kind_at(end, length) == kind) end += length;
      if (kind != Kind::space) match(at, end);
      at = end;
    }
    finish();
  }

 private:
  void match(std::size_t begin, std::size_t end) {
    if (done_ < begin) on_segment_(Segment{done_, begin, false});
    on_segment_(Segment{begin, end, true});
    done_ = end;
  }
  void finish() {
    if (done_ < text_.size()) on_segment_(Segment{done_, text_.size(), false});
  }

  std::string_view text_;
  RegexBudget& budget_;
  const OnSegment& on_segment_;
  std::size_t done_ = 0;
};

// Joins segments to pieces. A match goes with a neighbour only where that is no match.
template <typename OnPiece>
class Joiner {
 public:
  Joiner(SplitBehavior behavior, const OnPiece& on_piece) : behavior_(behavior), on_piece_(on_piece) {}

  void add(const Segment& segment) {
    switch (behavior_) {
      case SplitBehavior::removed:
        if (!segment.is_match) emit(segment);
        return;
      case SplitBehavior::isolated:
        return emit(segment);
      case SplitBehavior::merged_with_previous:
        return join(segment, held_ && !held_->is_match && segment.is_match, !segment.is_match);
      case SplitBehavior::merged_with_next:
        return join(segment, held_ && held_->is_match && !segment.is_match, segment.is_match);
      case SplitBehavior::contiguous:
        if (held_ && held_->is_match == segment.is_match) {
          held_->end = segment.end;
          return;
        }
        return join(segment, false, true);
    }
  }
  void finish() {
    if (held_) emit(*held_);
    held_.reset();
  }

 private:
  // The segment ends the piece that is held, or begins one that is held or complete.
  void join(const Segment& segment, bool ends_held, bool is_held) {
    if (ends_held) held_->end = segment.end;
    finish();
    if (ends_held) return;
    if (is_held) {
      held_ = segment;
    } else {
      emit(segment);
    }
  }
  void emit(const Segment& segment) {
    if (segment.begin < segment.end) on_piece_(segment.begin, segment.end);
  }

  SplitBehavior behavior_;
  const OnPiece& on_piece_;
  std::optional<Segment> held_;
};

template <typename OnPiece>
void split(const SplitStep& step, std::string_view text, RegexBudget& budget, const OnPiece& on_piece) {
  Joiner joiner(step.behavior, on_piece);
  const auto on_segment = [&](Segment segment) {
    segment.is_match = segment.is_match != step.inverts;
    joiner.add(segment);
  };
  std::visit(Segmenter(text, budget, on_segment), step.matches);
  joiner.finish();
}

// Where so many characters from `begin` on end, or the text does.
std::size_t end_of_characters(std::string_view text, std::size_t begin, std::size_t count) {
  std::size_t length = 0;
  for (; count > 0 && begin < text.size(); --count, begin += length) read_valid_utf8(text, begin, length);
  return begin;
}

}  // namespace

std::string_view MadeTexts::keep(std::string text) {
  bytes_ += text.size();
  if (bytes_ > most_bytes_)
    throw Error("text: the steps of the tokenizer make more than {} bytes of it, which is out of proportion",
                most_bytes_);
  return texts_.emplace_back(std::move(text));
}

void PreTokenizer::cut(std::string_view text, bool is_first, MadeTexts& made, RegexBudget& budget,
                       const OnWord& on_word) const {
  if (text.empty()) return;
  Work work{made, budget, on_word};
  run(0, text, is_first, work);
}

void PreTokenizer::run(std::size_t step, std::string_view text, bool is_first, Work& work) const {
  if (step == steps_.size()) return work.on_word(text);
  const auto go_on = [&](std::size_t begin, std::size_t end) {
    run(step + 1, text.substr(begin, end - begin), is_first && begin == 0, work);
  };
  if (const auto* metaspace = std::get_if<Metaspace>(&steps_[step])) {
    text = work.made.keep(metaspace->apply(text, is_first));
    if (!metaspace->splits) return go_on(0, text.size());
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = marked_word_end(metaspace->replacement, false, text, begin);
      go_on(begin, end);
      begin = end;
    }
  } else if (const auto* bytes = std::get_if<ByteLevelStep>(&steps_[step])) {
    if (bytes->adds_prefix_space && !text.starts_with(' ')) text = work.made.keep(" " + std::string(text));
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = bytes->splits ? word_end(WordPattern::gpt2, text, begin) : text.size();
      if (bytes->maps) {
        const std::string_view mapped = work.made.keep(to_byte_alphabet(text.substr(begin, end - begin)));
        run(step + 1, mapped, is_first && begin == 0, work);
      } else {
        go_on(begin, end);
      }
      begin = end;
    }
  } else if (const auto* fixed = std::get_if<FixedLengthStep>(&steps_[step])) {
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = end_of_characters(text, begin, fixed->characters);
      go_on(begin, end);
      begin = end;
    }
  } else {
    split(std::get<SplitStep>(steps_[step]), text, work.budget, go_on);
  }
}

}  // namespace assay
