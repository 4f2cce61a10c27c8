// Texts that are no UTF-8, such as names of files, through JSON and back.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace assay {

// Makes every text of the document valid UTF-8: one that is not, or that begins with NUL, becomes NUL and its
// bytes in hexadecimal. For documents between processes and in journals; those for users show U+FFFD.
void hide_bytes(nlohmann::ordered_json& json);
// The texts as they were. Keys are left alone.
void restore_bytes(nlohmann::ordered_json& json);

}  // namespace assay
