// Oniguruma behind dlopen: Debian has it as a shared library alone, and the program is to run without.
#include "assay/text/regex.h"

#include <dlfcn.h>
#include <oniguruma.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <utility>

#include "assay/base/error.h"
#include "assay/text/utf8.h"
#include "assay/text/vocabulary.h"

namespace assay {

namespace {

// The functions and tables of the library that are used.
struct Oniguruma {
  OnigEncoding utf8;
  OnigSyntaxType** default_syntax;
  decltype(&onig_initialize) initialize;
  decltype(&onig_set_parse_depth_limit) set_parse_depth_limit;
  decltype(&onig_new) compile;
  decltype(&onig_free) release;
  decltype(&onig_search_with_param) search;
  decltype(&onig_error_code_to_str) error_text;
  decltype(&onig_region_new) new_region;
  decltype(&onig_region_free) release_region;
  decltype(&onig_new_match_param) new_limits;
  decltype(&onig_free_match_param) release_limits;
  decltype(&onig_initialize_match_param) initialize_limits;
  decltype(&onig_set_match_stack_limit_size_of_match_param) limit_stack;
  decltype(&onig_set_retry_limit_in_match_of_match_param) limit_retries_in_match;
  decltype(&onig_set_retry_limit_in_search_of_match_param) limit_retries_in_search;
};

// A pattern nested deeper is refused: the parser calls itself for each level.
constexpr unsigned kDeepestNesting = 500;

template <typename Symbol>
bool take(void* library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(dlsym(library, name));
  return symbol != nullptr;
}

std::optional<Oniguruma> load_oniguruma() {
  void* library = dlopen("libonig.so.5", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  Oniguruma onig{};
  const bool has_all =
      take(library, "OnigEncodingUTF8", onig.utf8) &&
      take(library, "OnigDefaultSyntax", onig.default_syntax) &&
      take(library, "onig_initialize", onig.initialize) &&
      take(library, "onig_set_parse_depth_limit", onig.set_parse_depth_limit) &&
      take(library, "onig_new", onig.compile) && take(library, "onig_free", onig.release) &&
      take(library, "onig_search_with_param", onig.search) &&
      take(library, "onig_error_code_to_str", onig.error_text) &&
      take(library, "onig_region_new", onig.new_region) &&
      take(library, "onig_region_free", onig.release_region) &&
      take(library, "onig_new_match_param", onig.new_limits) &&
      take(library, "onig_free_match_param", onig.release_limits) &&
      take(library, "onig_initialize_match_param", onig.initialize_limits) &&
      take(library, "onig_set_match_stack_limit_size_of_match_param", onig.limit_stack) &&
      take(library, "onig_set_retry_limit_in_match_of_match_param", onig.limit_retries_in_match) &&
      take(library, "onig_set_retry_limit_in_search_of_match_param", onig.limit_retries_in_search);
  if (!has_all) return std::nullopt;
  OnigEncoding encodings[] = {onig.utf8};
  if (onig.initialize(encodings, 1) != ONIG_NORMAL) return std::nullopt;
  onig.set_parse_depth_limit(kDeepestNesting);
  return onig;
}

const std::optional<Oniguruma>& oniguruma() {
  static const std::optional<Oniguruma> library = load_oniguruma();
  return library;
}

// What Unicode 15, 15.1 and 16 added after the 14 of Oniguruma 6.9.8, by general category (for Han
// characters, also by script), and the older character that stands for each.
struct StandIn {
  char32_t first, last, older;
};
constexpr StandIn kStandIns[] = {
    {0x897, 0x897, 0x1AB0},      {0xCF3, 0xCF3, 0x903},       {0xECE, 0xECE, 0x1AB0},
    {0x1B4E, 0x1B4F, 0x2016},    {0x1B7F, 0x1B7F, 0x2016},    {0x1C89, 0x1C89, 0x1E00},
    {0x1C8A, 0x1C8A, 0x1E01},    {0x2427, 0x2429, 0x2300},    {0x2FFC, 0x2FFF, 0x2300},
    {0x31E4, 0x31E5, 0x2300},    {0x31EF, 0x31EF, 0x2300},    {0xA7CB, 0xA7CC, 0x1E00},
    {0xA7CD, 0xA7CD, 0x1E01},    {0xA7DA, 0xA7DA, 0x1E00},    {0xA7DB, 0xA7DB, 0x1E01},
    {0xA7DC, 0xA7DC, 0x1E00},    {0x105C0, 0x105F3, 0x10450}, {0x10D40, 0x10D49, 0x104A0},
    {0x10D4A, 0x10D4D, 0x10450}, {0x10D4E, 0x10D4E, 0x16B40}, {0x10D4F, 0x10D4F, 0x10450},
    {0x10D50, 0x10D65, 0x10400}, {0x10D69, 0x10D6D, 0x1D167}, {0x10D6E, 0x10D6E, 0x10EAD},
    {0x10D6F, 0x10D6F, 0x16B40}, {0x10D70, 0x10D85, 0x10428}, {0x10D8E, 0x10D8F, 0x1D6C1},
    {0x10EC2, 0x10EC4, 0x10450}, {0x10EFC, 0x10EFF, 0x1D167}, {0x1123F, 0x11240, 0x10450},
    {0x11241, 0x11241, 0x1D167}, {0x11380, 0x11389, 0x10450}, {0x1138B, 0x1138B, 0x10450},
    {0x1138E, 0x1138E, 0x10450}, {0x11390, 0x113B5, 0x10450}, {0x113B7, 0x113B7, 0x10450},
    {0x113B8, 0x113BA, 0x1D165}, {0x113BB, 0x113C0, 0x1D167}, {0x113C2, 0x113C2, 0x1D165},
    {0x113C5, 0x113C5, 0x1D165}, {0x113C7, 0x113CA, 0x1D165}, {0x113CC, 0x113CD, 0x1D165},
    {0x113CE, 0x113CE, 0x1D167}, {0x113CF, 0x113CF, 0x1D165}, {0x113D0, 0x113D0, 0x1D167},
    {0x113D1, 0x113D1, 0x10450}, {0x113D2, 0x113D2, 0x1D167}, {0x113D3, 0x113D3, 0x10450},
    {0x113D4, 0x113D5, 0x10100}, {0x113D7, 0x113D8, 0x10100}, {0x113E1, 0x113E2, 0x1D167},
    {0x116D0, 0x116E3, 0x104A0}, {0x11B00, 0x11B09, 0x10100}, {0x11BC0, 0x11BE0, 0x10450},
    {0x11BE1, 0x11BE1, 0x10100}, {0x11BF0, 0x11BF9, 0x104A0}, {0x11F00, 0x11F01, 0x1D167},
    {0x11F02, 0x11F02, 0x10450}, {0x11F03, 0x11F03, 0x1D165}, {0x11F04, 0x11F10, 0x10450},
    {0x11F12, 0x11F33, 0x10450}, {0x11F34, 0x11F35, 0x1D165}, {0x11F36, 0x11F3A, 0x1D167},
    {0x11F3E, 0x11F3F, 0x1D165}, {0x11F40, 0x11F40, 0x1D167}, {0x11F41, 0x11F41, 0x1D165},
    {0x11F42, 0x11F42, 0x1D167}, {0x11F43, 0x11F4F, 0x10100}, {0x11F50, 0x11F59, 0x104A0},
    {0x11F5A, 0x11F5A, 0x1D167}, {0x1342F, 0x1342F, 0x10450}, {0x13439, 0x1343F, 0x1D173},
    {0x13440, 0x13440, 0x1D167}, {0x13441, 0x13446, 0x10450}, {0x13447, 0x13455, 0x1D167},
    {0x13460, 0x143FA, 0x10450}, {0x16100, 0x1611D, 0x10450}, {0x1611E, 0x16129, 0x1D167},
    {0x1612A, 0x1612C, 0x1D165}, {0x1612D, 0x1612F, 0x1D167}, {0x16130, 0x16139, 0x104A0},
    {0x16D40, 0x16D42, 0x16B40}, {0x16D43, 0x16D6A, 0x10450}, {0x16D6B, 0x16D6C, 0x16B40},
    {0x16D6D, 0x16D6F, 0x10100}, {0x16D70, 0x16D79, 0x104A0}, {0x18CFF, 0x18CFF, 0x10450},
    {0x1B132, 0x1B132, 0x10450}, {0x1B155, 0x1B155, 0x10450}, {0x1CC00, 0x1CCEF, 0x1F000},
    {0x1CCF0, 0x1CCF9, 0x104A0}, {0x1CD00, 0x1CEB3, 0x1F000}, {0x1D2C0, 0x1D2D3, 0x10107},
    {0x1DF25, 0x1DF2A, 0x10428}, {0x1E030, 0x1E06D, 0x16B40}, {0x1E08F, 0x1E08F, 0x1D167},
    {0x1E4D0, 0x1E4EA, 0x10450}, {0x1E4EB, 0x1E4EB, 0x16B40}, {0x1E4EC, 0x1E4EF, 0x1D167},
    {0x1E4F0, 0x1E4F9, 0x104A0}, {0x1E5D0, 0x1E5ED, 0x10450}, {0x1E5EE, 0x1E5EF, 0x1D167},
    {0x1E5F0, 0x1E5F0, 0x10450}, {0x1E5F1, 0x1E5FA, 0x104A0}, {0x1E5FF, 0x1E5FF, 0x10100},
    {0x1F6DC, 0x1F6DC, 0x1F000}, {0x1F774, 0x1F776, 0x1F000}, {0x1F77B, 0x1F77F, 0x1F000},
    {0x1F7D9, 0x1F7D9, 0x1F000}, {0x1F8B2, 0x1F8BB, 0x1F000}, {0x1F8C0, 0x1F8C1, 0x1F000},
    {0x1FA75, 0x1FA77, 0x1F000}, {0x1FA87, 0x1FA89, 0x1F000}, {0x1FA8F, 0x1FA8F, 0x1F000},
    {0x1FAAD, 0x1FAAF, 0x1F000}, {0x1FABB, 0x1FABF, 0x1F000}, {0x1FAC6, 0x1FAC6, 0x1F000},
    {0x1FACE, 0x1FACF, 0x1F000}, {0x1FADA, 0x1FADC, 0x1F000}, {0x1FADF, 0x1FADF, 0x1F000},
    {0x1FAE8, 0x1FAE9, 0x1F000}, {0x1FAF7, 0x1FAF8, 0x1F000}, {0x1FBCB, 0x1FBEF, 0x1F000},
    {0x2B739, 0x2B739, 0x20000}, {0x2EBF0, 0x2EE5D, 0x20000}, {0x31350, 0x323AF, 0x20000}};

constexpr char32_t kFirstNewer = kStandIns[0].first;
// Bytes that begin no character of the table, of those from 0xE0 on: most of Chinese, Japanese and Korean.
constexpr bool begins_newer(unsigned char lead) {
  return lead >= 0xF0 || lead == 0xEA || (lead >= 0xE0 && lead <= 0xE3);
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

const OnigUChar* bytes_of(std::string_view text) {
  return reinterpret_cast<const OnigUChar*>(text.data());
}

std::string error_text(int code, OnigErrorInfo* info) {
  OnigUChar text[ONIG_MAX_ERROR_MESSAGE_LEN];
  const int length =
      info == nullptr ? oniguruma()->error_text(text, code) : oniguruma()->error_text(text, code, info);
  // It quotes the pattern: what is no character, or is a control character, must not reach a terminal.
  const std::string_view view(reinterpret_cast<const char*>(text),
                              static_cast<std::size_t>(std::max(length, 0)));
  std::string shown = replace_malformed_utf8(view);
  std::replace_if(
      shown.begin(), shown.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; },
      '?');
  return shown;
}

}  // namespace

RegexBudget::RegexBudget(std::size_t text_bytes, double least_seconds)
    : seconds_(least_seconds + 1e-5 * static_cast<double>(text_bytes)) {}

bool RegexBudget::is_spent() {
  if (calls_++ % kCallsPerLook != 0) return false;
  const double now = thread_seconds();
  if (!begin_) begin_ = now;
  return now - *begin_ > seconds_;
}

struct Regex::Compiled {
  std::string pattern, where;
  OnigRegex regex = nullptr;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    if (regex != nullptr) oniguruma()->release(regex);
  }
};

Regex::Regex(std::string_view pattern, std::string where) {
  if (pattern.size() > kLongestPattern)
    throw Error("{}: expected a pattern of at most {} bytes, found {}", where, kLongestPattern,
                in_quotes(pattern));
  if (!oniguruma())
    throw Error(
        "{}: the pattern {} needs Oniguruma: expected libonig.so.5 (Debian package libonig5), found none",
        where, in_quotes(pattern));
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  compiled->where = std::move(where);
  OnigErrorInfo info{};
  const OnigUChar* begin = bytes_of(compiled->pattern);
  const int code =
      oniguruma()->compile(&compiled->regex, begin, begin + compiled->pattern.size(), ONIG_OPTION_NONE,
                           oniguruma()->utf8, *oniguruma()->default_syntax, &info);
  if (code != ONIG_NORMAL)
    throw Error("{}: expected a regular expression, found {}: {}", compiled->where, in_quotes(pattern),
                error_text(code, &info));
  compiled_ = std::move(compiled);
}

// What one search works with.
struct Regex::Search::State {
  explicit State(std::size_t text_bytes)
      : region(oniguruma()->new_region()), limits(oniguruma()->new_limits()) {
    if (region == nullptr || limits == nullptr) throw std::bad_alloc();
    oniguruma()->initialize_limits(limits);
    oniguruma()->limit_stack(limits, kMaxOpenAlternatives);
    oniguruma()->limit_retries_in_match(limits, kMaxRetries);
    // Over all places that one search tries, where each may fail a few times for good reasons.
    oniguruma()->limit_retries_in_search(limits, kMaxRetries + 16 * text_bytes);
  }
  ~State() {
    oniguruma()->release_region(region, 1);
    oniguruma()->release_limits(limits);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  OnigRegion* region;
  OnigMatchParam* limits;
};

Regex::Search::Search(const Regex& regex, std::string_view text, RegexBudget& budget)
    : compiled_(*regex.compiled_), text_(text), budget_(budget) {
  if (text.size() > static_cast<std::size_t>(std::numeric_limits<int>::max() / 2))
    throw Error("{}: expected a text of at most {} bytes for the pattern {}, found {}", compiled_.where,
                std::numeric_limits<int>::max() / 2, in_quotes(compiled_.pattern), text.size());
  if (auto older = with_older_characters(text)) {
    stand_in_ = std::move(*older);
    text_ = stand_in_;
  }
  state_ = std::make_unique<State>(text.size());
}

Regex::Search::~Search() = default;

void Regex::Search::fail(int code) const {
  const std::string pattern = in_quotes(compiled_.pattern);
  if (code == ONIGERR_RETRY_LIMIT_IN_MATCH_OVER || code == ONIGERR_RETRY_LIMIT_IN_SEARCH_OVER)
    throw Error("{}: the pattern {} fails in more than {} ways in a text of {} bytes", compiled_.where,
                pattern, kMaxRetries, text_.size());
  if (code == ONIGERR_MATCH_STACK_LIMIT_OVER)
    throw Error("{}: the pattern {} leaves more than {} alternatives open in a text of {} bytes",
                compiled_.where, pattern, kMaxOpenAlternatives, text_.size());
  throw Error("{}: the pattern {} cannot be applied to a text of {} bytes: {}", compiled_.where, pattern,
              text_.size(), error_text(code, nullptr));
}

std::optional<Regex::Match> Regex::Search::next() {
  const OnigUChar *begin = bytes_of(text_), *end = begin + text_.size();
  while (at_ <= text_.size() && !text_.empty()) {
    if (budget_.is_spent())
      throw Error("{}: the pattern {} takes longer than {:.0f} s on a text of {} bytes", compiled_.where,
                  in_quotes(compiled_.pattern), budget_.seconds(), text_.size());
    const int code = oniguruma()->search(compiled_.regex, begin, end, begin + at_, end, state_->region,
                                         ONIG_OPTION_NONE, state_->limits);
    if (code == ONIG_MISMATCH) break;
    if (code < 0) fail(code);
    const Match match{static_cast<std::size_t>(state_->region->beg[0]),
                      static_cast<std::size_t>(state_->region->end[0])};
    if (match.begin > match.end || match.begin < last_end_.value_or(0))
      throw Error("{}: the pattern {} gives matches that overlap or end before they begin", compiled_.where,
                  in_quotes(compiled_.pattern));
    if (match.begin < match.end || match.end != last_end_) {
      at_ = match.end;
      last_end_ = match.end;
      return match;
    }
    std::size_t length = 1;
    if (at_ < text_.size()) read_valid_utf8(text_, at_, length);
    at_ += length;
  }
  at_ = text_.size() + 1;
  return std::nullopt;
}

std::optional<std::string> with_older_characters(std::string_view text) {
  std::optional<std::string> older;
  std::size_t length = 1;
  for (std::size_t at = 0; at < text.size(); at += length) {
    const auto lead = static_cast<unsigned char>(text[at]);
    length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (!begins_newer(lead)) continue;
    const char32_t c = read_valid_utf8(text, at, length);
    if (c < kFirstNewer) continue;
    const StandIn* after =
        std::upper_bound(std::begin(kStandIns), std::end(kStandIns), c,
                         [](char32_t value, const StandIn& range) { return value < range.first; });
    if (after == std::begin(kStandIns) || c > std::prev(after)->last) continue;
    if (!older) older = text;
    std::string stand_in;
    append_utf8(stand_in, std::prev(after)->older);
    older->replace(at, length, stand_in);
  }
  return older;
}

}  // namespace assay
