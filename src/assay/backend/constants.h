// Constants that depend on the processor and change no bit. They belong to a backend, and reach its kernels
// and tasks as arguments: two backends of a process may have different ones.
#pragma once

#include <cstdint>
#include <string>

#include "assay/base/cpu.h"
#include "assay/base/units.h"

namespace assay {

// How weights that a few rows pass once are fetched ahead.
struct WeightFetch {
  std::int64_t distance = 2048;     // bytes ahead in each of four streams; fewer streams go further
  std::int64_t most = 2048;         // the furthest
  bool is_to_second_level = false;  // otherwise to the nearest cache
  bool operator==(const WeightFetch&) const = default;
};

// The rows of a step are cut into shares of about so many, each kept to by some of the threads.
inline constexpr std::int64_t kUsualShareRows = 256, kMinShareRows = 128, kMaxShareRows = 512;

struct KernelConstants {
  WeightFetch fetch = {};
  WeightFetch grouped_fetch = {};  // by GGUF's block types and other codes with stored scales
  std::int64_t share_rows = kUsualShareRows;
  bool operator==(const KernelConstants&) const = default;
};

// Those found best on a processor of the same maker: what nobody has measured here.
KernelConstants usual_constants();

// "1536 bytes ahead into the second-level cache"
std::string text_of(const WeightFetch& fetch);
// "weights 1536 bytes ahead into the second-level cache; GGUF's 4096 bytes ahead into the nearest cache; 256
// rows a share"
std::string text_of(const KernelConstants& constants);

// The outcome of measuring them.
struct Tuning {
  KernelConstants constants = {};
  // The usual ones' time over their own, geometric mean over formats; 1 where they are the usual ones.
  double gain = 1;            // for a single row
  double grouped_gain = 1;    // for a single row by GGUF's block types
  double many_rows_gain = 1;  // for 512 rows
  bool is_measured = false;   // or read from where it was; otherwise memory or time was not to be had
  bool is_disturbed = false;  // measured, but beside others on the same processors: nothing was learned
  Seconds took = {};          // to measure
};

}  // namespace assay
