// The windows of each protocol over ten tokens, written out: "01→2" is token 2 given 0 and 1.
#include "assay/generate/windows.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "assay/base/error.h"

namespace assay {
namespace {

constexpr TokenId kBos = 10, kPrefix = 11;

std::string letter_of(TokenId id) {
  return id == kBos ? "B" : id == kPrefix ? "P" : std::to_string(id);
}

// The pairs of each window, and between windows a dot.
std::string pairs_of(const std::vector<Window>& windows, const std::vector<TokenId>& ids) {
  std::string all;
  for (const Window& window : windows) {
    const std::vector<TokenId> inputs = window.input_ids(ids);
    EXPECT_EQ(window.inputs(), std::ssize(inputs));
    std::string own;
    for (std::int64_t target = window.first_target; target < window.end; ++target) {
      if (!own.empty()) own += " ";
      const std::int64_t given = target - window.first_predicted() + 1;
      EXPECT_LE(given, std::ssize(inputs));
      for (std::int64_t i = 0; i < given; ++i) own += letter_of(inputs[static_cast<std::size_t>(i)]);
      own += "→" + letter_of(ids[static_cast<std::size_t>(target)]);
    }
    if (!all.empty() && !own.empty()) all += " · ";
    all += own;
  }
  return all;
}

std::vector<TokenId> ten(bool has_bos = false) {
  std::vector<TokenId> ids(10);
  std::iota(ids.begin(), ids.end(), 0);
  if (has_bos) ids.insert(ids.begin(), kBos);
  return ids;
}

std::string pairs_by(const WindowRule& rule, const std::vector<TokenId>& ids) {
  return pairs_of(windows_of(rule, std::ssize(ids)), ids);
}

TEST(Windows, OfTheGuide) {
  EXPECT_EQ(pairs_by({.context = 4, .stride = 2}, ten()),
            "0→1 01→2 012→3 · 23→4 234→5 · 45→6 456→7 · 67→8 678→9");
  EXPECT_EQ(pairs_by({.context = 4, .stride = 4}, ten()), "0→1 01→2 012→3 · 4→5 45→6 456→7 · 8→9");
  EXPECT_EQ(pairs_by({.context = 4}, ten()), pairs_by({.context = 4, .stride = 2}, ten()));
}

TEST(Windows, OfLlamaCpp) {
  WindowRule rule{.protocol = Protocol::llama_cpp, .context = 4};
  EXPECT_EQ(pairs_by(rule, ten()), "012→3 · 456→7");
  rule.bos = BosRule::replace;
  rule.bos_token = kBos;
  EXPECT_EQ(pairs_by(rule, ten(true)), "B01→2 · B45→6");
  rule = {.protocol = Protocol::llama_cpp, .context = 4, .stride = 2};
  EXPECT_EQ(pairs_by(rule, ten()), "01→2 012→3 · 23→4 234→5 · 45→6 456→7");
}

TEST(Windows, OfLmEval) {
  const WindowRule rule{.protocol = Protocol::lm_eval, .context = 4, .bos_token = kPrefix};
  EXPECT_EQ(pairs_by(rule, ten()), "P→0 P0→1 P01→2 P012→3 · 3→4 34→5 345→6 3456→7 · 567→8 5678→9");
  WindowRule bos{.protocol = Protocol::lm_eval, .context = 4, .bos = BosRule::first, .bos_token = kBos};
  EXPECT_EQ(pairs_by(bos, ten(true)), "B→B BB→0 BB0→1 BB01→2 · 2→3 23→4 234→5 2345→6 · 56→7 567→8 5678→9");
  EXPECT_EQ(pairs_by(rule, {0, 1}), "P→0 P0→1") << "a text shorter than a window";
}

TEST(Windows, OfGptq) {
  EXPECT_EQ(pairs_by({.protocol = Protocol::gptq, .context = 4}, ten()), "0→1 01→2 012→3 · 4→5 45→6 456→7");
}

TEST(Windows, PutBosWhereTheRuleSays) {
  WindowRule rule{.context = 4, .stride = 4, .bos = BosRule::each, .bos_token = kBos};
  EXPECT_EQ(pairs_by(rule, ten()), "B→0 B0→1 B01→2 · B→3 B3→4 B34→5 · B→6 B6→7 B67→8 · B→9");
  rule.stride = 2;  // three tokens of text in a window
  EXPECT_EQ(pairs_by(rule, ten()), "B→0 B0→1 B01→2 · B2→3 B23→4 · B4→5 B45→6 · B6→7 B67→8 · B8→9");
  rule.bos = BosRule::replace;
  rule.stride = 4;
  EXPECT_EQ(pairs_by(rule, ten(true)), "B→0 B0→1 B01→2 · B→4 B4→5 B45→6 · B→8 B8→9");
  rule.bos = BosRule::first;
  EXPECT_EQ(pairs_by(rule, ten(true)), "B→0 B0→1 B01→2 · 3→4 34→5 345→6 · 7→8 78→9");
  rule = {.protocol = Protocol::gptq, .context = 4, .bos = BosRule::each, .bos_token = kBos};
  EXPECT_EQ(pairs_by(rule, ten()), "B→0 B0→1 B01→2 · B→3 B3→4 B34→5 · B→6 B6→7 B67→8");
  rule.protocol = Protocol::llama_cpp;
  EXPECT_EQ(pairs_by(rule, ten()), "B01→2 · B34→5 · B67→8");
}

TEST(Windows, SayWhichTheyAre) {
  EXPECT_EQ(text_of({.context = 8, .stride = 4}), "hf context=8 stride=4");
  EXPECT_EQ(text_of({.protocol = Protocol::llama_cpp, .context = 8}), "llama.cpp context=8 bos=none");
  EXPECT_EQ(text_of({.protocol = Protocol::llama_cpp,
                     .context = 8,
                     .stride = 2,
                     .bos = BosRule::replace,
                     .bos_token = 1}),
            "llama.cpp context=8 stride=2 bos=replace:1");
  EXPECT_EQ(text_of({.protocol = Protocol::lm_eval, .context = 8, .bos_token = 3}),
            "lm-eval context=8 prefix=3 bos=none");
  EXPECT_EQ(text_of({.protocol = Protocol::gptq, .context = 8, .bos = BosRule::each, .bos_token = 3}),
            "gptq context=8 bos=each:3");
  for (const char* name : {"hf", "llama.cpp", "lm-eval", "gptq"})
    EXPECT_EQ(name_of(protocol_from_name(name)), name);
  for (const char* name : {"none", "first", "each", "replace"})
    EXPECT_EQ(name_of(bos_rule_from_name(name)), name);
  EXPECT_THROW(protocol_from_name("llamacpp"), FieldError);
  EXPECT_THROW(bos_rule_from_name("always"), FieldError);
}

}  // namespace
}  // namespace assay
