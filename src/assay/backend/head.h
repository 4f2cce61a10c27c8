// What the LM head of a program gives, and where it goes.
#pragma once

#include <cstdint>
#include <span>
#include <variant>

#include "assay/base/token_id.h"

namespace assay {

// Where the LM head's outputs go. Full logits of many rows are large: only what is asked for is kept.
struct ArgmaxSink {
  std::span<TokenId> ids;  // the lowest of equals; -1 where a logit is NaN or the highest infinite
};
struct LogitsSink {
  std::span<float> logits;  // [rows, vocab]
};
struct LogProbabilitySink {
  std::span<const TokenId> targets;
  std::span<double> log_probabilities;  // natural logarithm
};
using HeadSink = std::variant<ArgmaxSink, LogitsSink, LogProbabilitySink>;

// Logits [first, first + count) of the vocabulary, of many rows: their memory does not grow with the
// vocabulary, and the weights are read once for all rows.
inline constexpr std::int64_t kHeadSlice = 2048;
struct LogitSlice {
  std::int64_t first = 0, count = 0;  // `first` is a multiple of kHeadSlice, `count` at most that
  float* logits = nullptr;            // [rows][stride]
  std::int64_t stride = 0;
};

// Sums over a slice of the logits of one position. exp() is taken in float32 and summed in double, in an
// order that depends on the number of logits and the instruction set alone.
struct SliceSums {
  float max = 0;
  bool is_finite = false;  // all of them
  double sum = 0;          // the sum of exp(logit - max)
};
struct LogitReducer {
  // powers[i] becomes exp(x[i] - max). n >= 1.
  SliceSums (*sum)(const float* x, std::int64_t n, float* powers) noexcept;
  // The sum of powers[i] * (x[i] - y[i]); exactly 0 for equal x and y.
  double (*weigh)(const float* powers, const float* x, const float* y, std::int64_t n) noexcept;
};

// All that a divergence takes from a slice of the logits of one position, whichever device reduces it.
inline constexpr int kTopTokens = 5;
struct RowSlice {
  SliceSums sums;
  // Beside a baseline: the sum of exp(base - the highest of its slice) * (base - logit), exactly 0 for equal
  // logits.
  double weighed = 0;
  float top_logits[kTopTokens] = {};  // the highest, ties by the lowest id
  TokenId top[kTopTokens] = {};
  std::int32_t tops = 0;    // how many there are: a slice may have fewer
  float target_logit = 0;   // the true token's
  bool has_target = false;  // it is one of these ids
};

}  // namespace assay
