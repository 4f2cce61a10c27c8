// A token's index in a model's vocabulary.
#pragma once

#include <cstdint>

namespace assay {
using TokenId = std::int32_t;
}
