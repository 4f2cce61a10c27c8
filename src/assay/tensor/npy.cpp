#include "assay/tensor/npy.h"

#include "assay/base/format.h"

namespace assay {

std::string npy_header(std::int64_t rows, std::int64_t columns) {
  std::string dictionary =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  constexpr std::size_t kPreamble = 10, kAlignment = 64;  // the data begins at a multiple of 64
  dictionary.append(kAlignment - (kPreamble + dictionary.size() + 1) % kAlignment, ' ');
  dictionary += '\n';
  const auto size = static_cast<unsigned>(dictionary.size());
  std::string header("\x93NUMPY\x01\x00", 8);
  header += static_cast<char>(size & 0xffU);
  header += static_cast<char>(size >> 8);
  return header + dictionary;
}

}  // namespace assay
