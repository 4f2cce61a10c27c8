#include "assay/generate/windows.h"

#include <algorithm>

namespace assay {

std::vector<Window> windows_of(std::int64_t tokens, std::int64_t context, std::int64_t stride) {
  std::vector<Window> windows;
  std::int64_t scored_to = 0;
  for (std::int64_t begin = 0;; begin += stride) {
    const std::int64_t end = std::min(begin + context, tokens);
    windows.push_back({begin, end, std::max(scored_to, begin + 1)});
    scored_to = end;
    if (end == tokens) return windows;
  }
}

}  // namespace assay
