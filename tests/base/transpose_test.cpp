#include "assay/tensor/transpose.h"

#include <gtest/gtest.h>

#include "support/guarded.h"
#include "support/random_floats.h"

namespace assay {
namespace {

TEST(Transpose, PutsEachNumberInItsPlaceAndTouchesNoOther) {
  for (const std::int64_t rows : {1, 15, 16, 17, 40, 96})
    for (const std::int64_t columns : {1, 3, 63, 64, 65, 200}) {
      const std::int64_t from_stride = columns + 5, to_stride = rows + 3;
      auto values = test::random_floats(static_cast<std::size_t>(rows * from_stride), 3);
      values.resize(static_cast<std::size_t>((rows - 1) * from_stride + columns));
      const test::Guarded from(values);
      std::vector<float> to(static_cast<std::size_t>(columns * to_stride), 7.0F);
      transpose(from.data(), from_stride, rows, columns, to.data(), to_stride);
      for (std::int64_t column = 0; column < columns; ++column)
        for (std::int64_t row = 0; row < to_stride; ++row)
          ASSERT_EQ(to[static_cast<std::size_t>(column * to_stride + row)],
                    row < rows ? from.data()[row * from_stride + column] : 7.0F)
              << rows << "x" << columns;
    }
}

}  // namespace
}  // namespace assay
