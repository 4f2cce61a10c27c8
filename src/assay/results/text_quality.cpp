#include "assay/results/text_quality.h"

#include <algorithm>
#include <set>

namespace assay {

namespace {

constexpr std::size_t kLongestQuote = 60;  // bytes

bool is_inside_character(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string end_of(const std::string& text) {
  if (text.size() <= kLongestQuote) return text;
  std::size_t first = text.size() - kLongestQuote;
  while (first < text.size() && is_inside_character(text[first])) ++first;
  return "..." + text.substr(first);
}

// From the first difference on.
std::string parting_of(const std::string& text, const std::string& baseline) {
  auto first = static_cast<std::size_t>(
      std::mismatch(text.begin(), text.end(), baseline.begin(), baseline.end()).first - text.begin());
  while (first > 0 && first < text.size() && is_inside_character(text[first])) --first;
  std::size_t end = std::min(text.size(), first + kLongestQuote);
  while (end < text.size() && is_inside_character(text[end])) ++end;
  return (first > 0 ? "..." : "") + text.substr(first, end - first) + (end < text.size() ? "..." : "");
}

// The texts of a configuration beside the baseline's.
struct JudgedTexts {
  std::string label;
  double weights_bytes = 0;
  int worse = 0, better = 0;  // prompts
  double shown_ratio = 0;     // perplexity's, where it is shown to be kVisibleRatio at least
  const GeneratedText *first = nullptr,
                      *first_base = nullptr;  // the first worse one; else the first that differs
  int times = 0;
  bool is_worse() const { return worse > better || shown_ratio > 0; }
  bool is_mixed() const { return !is_worse() && worse > 0; }
};

class TextJudge {
 public:
  explicit TextJudge(const ResultSet& results) : results_(results) {}

  std::optional<VisibleDegradation> judge() {
    for (const GeneratedText& text : results_.texts)
      if (text.scenario == Scenario::tradeoff) add(text);
    if (all_.empty()) return std::nullopt;
    found_.baseline = baseline_;
    found_.prompts = static_cast<int>(base_texts_.size());
    for (JudgedTexts& judged : all_) add_facts(judged);
    std::stable_sort(all_.begin(), all_.end(), [](const JudgedTexts& a, const JudgedTexts& b) {
      return a.weights_bytes > b.weights_bytes;
    });
    conclude();
    return std::move(found_);
  }

 private:
  void add(const GeneratedText& text) {
    if (baseline_.empty()) baseline_ = text.generated_by;
    if (text.generated_by == baseline_) {
      base_texts_.push_back(&text);
      return;
    }
    const auto base = std::find_if(base_texts_.begin(), base_texts_.end(), [&](const GeneratedText* own) {
      return own->prompt == text.prompt && own->prompt_ids == text.prompt_ids;
    });
    if (base == base_texts_.end()) return;  // another tokenizer has other n-grams
    auto own = std::find_if(all_.begin(), all_.end(),
                            [&](const JudgedTexts& judged) { return judged.label == text.generated_by; });
    if (own == all_.end()) own = all_.insert(all_.end(), {text.generated_by});
    const int times = phrase_at_end(text.ids), base_times = phrase_at_end((*base)->ids);
    if (times > 0 && base_times == 0) {
      if (own->worse++ == 0) {
        own->first = &text;
        own->first_base = *base;
        own->times = times;
      }
    } else if (times == 0 && base_times > 0) {
      ++own->better;
    }
    if (own->first == nullptr && text.text != (*base)->text) {
      own->first = &text;
      own->first_base = *base;
    }
  }

  void add_facts(JudgedTexts& judged) {
    for (const Row& row : results_.rows) {
      if (row.label != judged.label || row.status != RowStatus::ok) continue;
      found_.has_perplexity = found_.has_perplexity || row.find("perplexity") != nullptr;
      if (const Value* bytes = row.find("resident_weights_bytes"); bytes != nullptr)
        judged.weights_bytes = std::max(judged.weights_bytes, bytes->value);
    }
    for (const Comparison& c : results_.comparisons)
      if (c.metric == "perplexity" && c.subject == judged.label && c.baseline == baseline_ &&
          c.verdict == Verdict::higher && c.ratio >= kVisibleRatio)
        judged.shown_ratio = c.ratio;
  }

  void name(const JudgedTexts& judged) {
    found_.subject = judged.label;
    found_.weights_bytes = judged.weights_bytes;
    found_.times = judged.times;
    found_.perplexity_ratio = judged.shown_ratio;
    if (judged.first == nullptr) return;
    found_.prompt = judged.first->prompt;
    found_.quoted = judged.times > 0 ? end_of(judged.first->text)
                                     : parting_of(judged.first->text, judged.first_base->text);
  }

  void conclude() {
    const auto worse = std::find_if(all_.begin(), all_.end(), [](const auto& t) { return t.is_worse(); });
    const auto mixed = std::find_if(all_.begin(), all_.end(), [](const auto& t) { return t.is_mixed(); });
    if (worse == all_.end() && mixed == all_.end()) {
      for (const JudgedTexts& judged : all_)
        if (judged.better > 0 && found_.steadier.empty()) found_.steadier = judged.label;
      return;
    }
    if (worse == all_.end()) {
      found_.kind = VisibleDegradation::Kind::undecided;
      name(*mixed);
      return;
    }
    name(*worse);
    const auto smaller = std::find_if(worse + 1, all_.end(), [&](const JudgedTexts& judged) {
      return !judged.is_worse() && judged.weights_bytes < worse->weights_bytes;
    });
    found_.kind =
        smaller == all_.end() ? VisibleDegradation::Kind::from : VisibleDegradation::Kind::undecided;
    if (smaller != all_.end()) found_.better = smaller->label;
  }

  const ResultSet& results_;
  std::string baseline_;
  std::vector<const GeneratedText*> base_texts_;
  std::vector<JudgedTexts> all_;
  VisibleDegradation found_;
};

}  // namespace

double distinct_share(std::span<const int> ids, std::size_t n) {
  if (n == 0 || ids.size() < n) return 1;
  std::set<std::vector<int>> distinct;
  const std::size_t all = ids.size() - n + 1;
  for (std::size_t i = 0; i < all; ++i)
    distinct.emplace(ids.begin() + static_cast<std::ptrdiff_t>(i),
                     ids.begin() + static_cast<std::ptrdiff_t>(i + n));
  return static_cast<double>(distinct.size()) / static_cast<double>(all);
}

int phrase_at_end(std::span<const int> ids) {
  for (std::size_t period = 1; 3 * period <= ids.size(); ++period) {
    std::size_t equal = 0;  // at the end, to the id one period before
    while (equal + period < ids.size() && ids[ids.size() - 1 - equal] == ids[ids.size() - 1 - equal - period])
      ++equal;
    const std::size_t times = 1 + equal / period;
    if (times >= (period == 1 ? 4U : 3U)) return static_cast<int>(times);
  }
  return 0;
}

std::optional<VisibleDegradation> visible_degradation(const ResultSet& results) {
  return TextJudge(results).judge();
}

}  // namespace assay
