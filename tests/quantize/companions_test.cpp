// What goes with a model's weights into a folder that is written.
#include "assay/quantize/companions.h"

#include <gtest/gtest.h>

#include "assay/checkpoint/model_folder.h"
#include "support/fixtures.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

// Longer than the pieces that they are copied in, with no two pieces alike.
TEST(Companions, AreCopiedWhole) {
  const test::TemporaryFolder folder;
  const std::filesystem::path model = folder.path() / "m", out = folder.path() / "out";
  test::copy_model_fixture("base", model);
  std::string content;
  for (int i = 0; i < 400'000; ++i) content += std::to_string(i);
  ASSERT_GT(content.size(), 2U << 20);
  std::filesystem::create_directories(model / "texts");
  test::write_file(model / "texts/long.txt", content);
  const std::vector<std::string> names = copy_companions(ModelFolder(model), out);
  EXPECT_NE(std::find(names.begin(), names.end(), "texts/long.txt"), names.end());
  EXPECT_TRUE(test::read_file(out / "texts/long.txt") == content);
}

}  // namespace
}  // namespace assay
