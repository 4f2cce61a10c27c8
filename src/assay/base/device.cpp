#include "assay/base/device.h"

#include "assay/base/error.h"

namespace assay {

Device device_from_name(std::string_view text) {
  if (text == "cpu") return {};
  if (text == "auto") return {Device::Kind::automatic};
  if (text == "cuda") return {Device::Kind::cuda, 0};
  if (text.substr(0, 5) == "cuda:" && text.size() == 6 && text[5] >= '0' && text[5] <= '9')
    return {Device::Kind::cuda, text[5] - '0'};
  throw FieldError("device", "expected cpu, cuda, cuda:0 to cuda:9 or auto, found '{}'", text);
}

}  // namespace assay
