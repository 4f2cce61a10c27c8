#include "assay/quant/code_values.h"

#include "assay/quant/four_bit.h"

namespace assay {

const std::array<float, 16>& iq4_nl_codebook() {
  static constexpr std::array<float, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};
  return kValues;
}

const std::array<float, 16>& e2m1_codebook() {
  static constexpr std::array<float, 16> kValues = {0, 0.5F,  1,  1.5F,  2,  3,  4,  6,
                                                    0, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  return kValues;
}

std::vector<float> code_values(const WeightFormat& format) {
  const auto all = [](const std::array<float, 16>& table) {
    return std::vector<float>(table.begin(), table.end());
  };
  switch (format.element) {
    case ElementType::nf4:
      return all(codebook_of(FourBit::nf4));
    case ElementType::fp4:
      return all(codebook_of(FourBit::fp4));
    case ElementType::e2m1:
      return all(e2m1_codebook());
    case ElementType::iq4_nl:
      return all(iq4_nl_codebook());
    default:
      break;
  }
  std::vector<float> values(std::size_t{1} << format.bits);
  const int zero = format.element == ElementType::ternary ? 1
                   : format.offset == Offset::none        ? 1 << (format.bits - 1)
                                                          : 0;
  for (std::size_t code = 0; code < values.size(); ++code)
    values[code] = static_cast<float>(static_cast<int>(code) - zero);
  return values;
}

}  // namespace assay
