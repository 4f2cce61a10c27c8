// A small seeded generator with the same stream on every platform: xoshiro256** by Blackman and Vigna
// (https://prng.di.unimi.it), seeded through SplitMix64 as its authors advise.
#pragma once

#include <cstdint>

namespace assay {

class Random {
 public:
  // `stream` separates the sequences of a batch, so that a sequence's text does not depend on its neighbours.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0);
  std::uint64_t next();
  // Uniform in [0, 1) with 53 random bits.
  double uniform();

 private:
  std::uint64_t state_[4];
};

}  // namespace assay
