// Names a device that models run on.
#pragma once

#include <string>
#include <string_view>

namespace assay {

struct Device {
  enum class Kind { cpu, cuda } kind = Kind::cpu;
  int index = 0;

  bool operator==(const Device&) const = default;
  std::string text() const { return kind == Kind::cpu ? "cpu" : "cuda:" + std::to_string(index); }
};
// "cpu", "cuda", "cuda:1", or "auto", which is the processor. Throws FieldError for another name; whether the
// device is there shows when a backend is made for it.
Device device_from_name(std::string_view text);

}  // namespace assay
