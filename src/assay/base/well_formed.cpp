#include "assay/base/well_formed.h"

namespace assay {

bool is_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = byte(i);
    const std::size_t more = first < 0x80   ? 0
                             : first < 0xC2 ? text.size()
                             : first < 0xE0 ? 1
                             : first < 0xF0 ? 2
                             : first < 0xF5 ? 3
                                            : text.size();
    if (more >= text.size() - i) return false;
    for (std::size_t j = 1; j <= more; ++j) {
      const unsigned low = j > 1           ? 0x80
                           : first == 0xE0 ? 0xA0
                           : first == 0xF0 ? 0x90
                                           : 0x80,
                     high = j > 1           ? 0xBF
                            : first == 0xED ? 0x9F
                            : first == 0xF4 ? 0x8F
                                            : 0xBF;
      if (byte(i + j) < low || byte(i + j) > high) return false;
    }
    i += more + 1;
  }
  return true;
}

}  // namespace assay
