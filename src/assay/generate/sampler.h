// From logits to the next token: greedy or drawn, as Transformers' generate() orders the steps: repetition
// penalty, temperature, top-k, top-p.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "assay/base/error_types.h"
#include "assay/base/random.h"
#include "assay/base/token_id.h"

namespace assay {

struct SamplingOptions {
  double temperature = 0;  // 0 = greedy: the most probable token, the lowest id of equals
  std::int64_t top_k = 0;  // keep the k most probable (and their equals); 0 = all
  double top_p = 1;        // then the smallest set that reaches this probability
  double repetition_penalty =
      1;  // logits of tokens already seen are divided (multiplied where negative) by it
  std::uint64_t seed = 0;

  bool is_plain_greedy() const { return temperature == 0 && repetition_penalty == 1; }
};

// Throws UsageError for a value outside its range.
void check_sampling(const SamplingOptions& options);

// What next() throws for logits that no token can be chosen from; they are as they were.
class LogitsNotFinite : public Error {
 public:
  using Error::Error;
};

// One per sequence: its random stream depends on the seed and its own number alone.
class Sampler {
 public:
  Sampler(const SamplingOptions& options, std::uint64_t sequence);
  // `logits` [vocab] is changed in place; `seen` are the prompt's and the generated ids. Throws
  // LogitsNotFinite where a logit is NaN or infinity, or none is above -infinity.
  // `process` changes the logits after the penalty, and before the temperature.
  using Process = std::function<void(std::span<float> logits)>;
  TokenId next(std::span<float> logits, std::span<const TokenId> seen, const Process& process = {});

 private:
  struct Candidate {
    float logit;
    TokenId id;
  };
  void keep_top_k();
  void keep_top_p();
  TokenId draw();

  SamplingOptions options_;
  Random random_;
  std::vector<Candidate> candidates_;
  std::vector<double> weights_;
  std::vector<bool> is_penalized_;
};

}  // namespace assay
