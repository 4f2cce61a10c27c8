#include "assay/base/json_bytes.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "assay/base/well_formed.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

template <typename Change>
void for_each_text(OrderedJson& json, const Change& change) {
  if (json.is_string())
    change(json.get_ref<std::string&>());
  else if (json.is_structured())
    for (OrderedJson& part : json) for_each_text(part, change);
}

}  // namespace

void hide_bytes(OrderedJson& json) {
  for_each_text(json, [](std::string& text) {
    if (!text.starts_with('\0') && is_utf8(text)) return;
    std::string hidden(1, '\0');
    for (const char c : text) {
      hidden += kDigits[static_cast<unsigned char>(c) >> 4];
      hidden += kDigits[static_cast<unsigned char>(c) & 15];
    }
    text = std::move(hidden);
  });
}

void restore_bytes(OrderedJson& json) {
  for_each_text(json, [](std::string& text) {
    if (!text.starts_with('\0') || text.size() % 2 == 0) return;
    std::string bytes;
    for (std::size_t i = 1; i < text.size(); i += 2) {
      const std::size_t high = kDigits.find(text[i]), low = kDigits.find(text[i + 1]);
      if (high == std::string_view::npos || low == std::string_view::npos)
        return;  // another program wrote it
      bytes += static_cast<char>(high * 16 + low);
    }
    text = std::move(bytes);
  });
}

}  // namespace assay
