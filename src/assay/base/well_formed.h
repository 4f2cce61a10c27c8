// Whether bytes are text.
#pragma once

#include <string_view>

namespace assay {

// Well-formed UTF-8, by table 3-7 of the Unicode Standard.
bool is_utf8(std::string_view text);

}  // namespace assay
