#include "assay/results/setting.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace assay {

namespace {

constexpr std::string_view kHead = "+head:";

// Zero where the text is none.
template <typename Number>
Number count_in(std::string_view text) {
  Number value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max(value, Number{0});
}

// "nf4+head:int8, KV cache int8", and "nf4, lm_head int8" as earlier versions wrote it.
void read_configuration(std::string_view text, Setting& setting) {
  bool is_first = true;
  while (!text.empty()) {
    const std::size_t comma = text.find(", ");
    const std::string_view part = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 2);
    const auto take = [&](std::string_view name, std::string& value) {
      if (part.starts_with(name)) value = part.substr(name.size());
    };
    const std::size_t head = is_first ? part.find(kHead) : std::string_view::npos;
    if (is_first && part != "as stored") setting.precision = part.substr(0, head);
    if (head != std::string_view::npos) setting.lm_head = part.substr(head + kHead.size());
    is_first = false;
    if (part == "lm_head search int8") continue;
    take("lm_head ", setting.lm_head);
    take("KV cache ", setting.kv_cache);
    take("activations as ", setting.activations);
    if (part == "activations int8") setting.activations = "int8";
  }
}

}  // namespace

Setting setting_of_parameters(std::span<const std::pair<std::string, std::string>> parameters) {
  Setting setting;
  for (const auto& [key, value] : parameters) {
    if (key == "configuration") read_configuration(value, setting);
    if (key == "device") setting.device = value;
    if (key == "kernels") setting.kernels = value;
    if (key == "threads") setting.threads = count_in<int>(value);
    if (key == "cache") setting.cache = value != "off";
    if (key == "batch_size") setting.batch_size = count_in<std::int64_t>(value);
    if (key == "padding") setting.padding = value;
  }
  return setting;
}

}  // namespace assay
