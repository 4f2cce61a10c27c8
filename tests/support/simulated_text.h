// Divergences of texts whose tokens depend on their neighbours as those that were measured (docs/quality.md).
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "assay/base/random.h"

namespace assay::test {

inline constexpr std::size_t kTextTokens = 2048;  // 8 blocks
inline constexpr double kMedianSize = 0.02, kSpread = 1.0;

// KL as texts have it: lognormal over tokens, where passages of about 20 tokens are harder together.
class SimulatedText {
 public:
  explicit SimulatedText(std::uint64_t seed) : random_(seed) {}
  std::vector<double> next(std::size_t tokens, double spread = kSpread) {
    constexpr double kShare = 0.093,
                     kMemory = 0.9;  // the passage's part of the variance; from token to token
    std::vector<double> kl;
    kl.reserve(tokens);
    double passage = 0;
    for (std::size_t i = 0; i < tokens; ++i) {
      // Two normal deviates at a time (Box and Muller 1958).
      const double size = std::sqrt(-2 * std::log(1 - random_.uniform())), at = 2 * M_PI * random_.uniform();
      passage = kMemory * passage + std::sqrt(1 - kMemory * kMemory) * size * std::cos(at);
      const double own = std::sqrt(1 - kShare) * size * std::sin(at) + std::sqrt(kShare) * passage;
      kl.push_back(kMedianSize * std::exp(spread * own));
    }
    return kl;
  }

 private:
  Random random_;
};

}  // namespace assay::test
