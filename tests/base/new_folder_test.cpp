// Folders that appear complete or not at all.
#include <gtest/gtest.h>

#include "assay/base/error.h"
#include "assay/base/new_folder.h"
#include "support/temporary_folder.h"

namespace assay {
namespace {

namespace fs = std::filesystem;

std::size_t count(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator{}));
}

TEST(NewFolder, IsThereOnlyOnceItIsKept) {
  test::TemporaryFolder parent;
  const fs::path target = parent.path() / "deep/out";
  {
    NewFolder folder(target, false);
    test::write_file(folder.path() / "a", "1");
    EXPECT_FALSE(fs::exists(target));
    folder.keep();
  }
  EXPECT_EQ(test::read_file(target / "a"), "1");
  EXPECT_EQ(count(target.parent_path()), 1U);
}

TEST(NewFolder, LeavesNothingWhenItIsNotKept) {
  test::TemporaryFolder parent;
  {
    const NewFolder folder(parent.path() / "out", false);
    test::write_file(folder.path() / "a", "1");
  }
  EXPECT_TRUE(parent.is_empty());
}

TEST(NewFolder, ReplacesWholeFoldersAndOnlyWhereItMay) {
  test::TemporaryFolder parent;
  const fs::path target = parent.path() / "out";
  fs::create_directory(target);
  test::write_file(target / "old", "1");
  EXPECT_THROW(NewFolder(target, false), Error);
  {
    NewFolder folder(target.string() + "/", true);
    test::write_file(folder.path() / "new", "2");
    EXPECT_TRUE(fs::exists(target / "old"));
    folder.keep();
  }
  EXPECT_FALSE(fs::exists(target / "old"));
  EXPECT_EQ(test::read_file(target / "new"), "2");
  EXPECT_EQ(count(parent.path()), 1U);
  test::write_file(parent.path() / "file", "3");
  EXPECT_THROW(NewFolder(parent.path() / "file", true), Error);
  EXPECT_THROW(NewFolder("", true), Error);
  EXPECT_THROW(NewFolder("/", true), Error);
}

TEST(NewFolder, LeftoversAreNotInTheWay) {
  test::TemporaryFolder parent;
  const NewFolder first(parent.path() / "out", false), second(parent.path() / "out", false);
  EXPECT_NE(first.path(), second.path());
}

TEST(NewFolder, DoesNotReplaceWhatCameMeanwhile) {
  test::TemporaryFolder parent;
  const fs::path target = parent.path() / "out";
  {
    NewFolder folder(target, false);
    fs::create_directory(target);
    test::write_file(target / "theirs", "1");
    EXPECT_THROW(folder.keep(), Error);
  }
  EXPECT_EQ(test::read_file(target / "theirs"), "1");
  EXPECT_EQ(count(parent.path()), 1U);
}

TEST(NewFile, IsWrittenInAnyOrderAndKeptWholeOrNotAtAll) {
  test::TemporaryFolder parent;
  const fs::path path = parent.path() / "file";
  const auto bytes = [](const std::string& text) {
    return std::as_bytes(std::span(text.data(), text.size()));
  };
  const std::string one = "one", two = "two";
  {
    NewFile file(path, 6);
    file.write(0, bytes(one));
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(count(parent.path()), 1U);  // under its temporary name
  }
  EXPECT_TRUE(parent.is_empty());
  NewFile file(path, 6);
  file.write(3, bytes(two));
  file.write(0, bytes(one));
  file.keep();
  EXPECT_EQ(test::read_file(path), "onetwo");
  EXPECT_EQ(count(parent.path()), 1U);
}

// The room is taken before the first byte is written.
TEST(NewFile, ThatDoesNotFitTheDiskIsRefusedAtOnce) {
  test::TemporaryFolder parent;
  EXPECT_THROW(NewFile(parent.path() / "file", std::uint64_t{1} << 60), Error);
  EXPECT_TRUE(parent.is_empty());
}

TEST(NewFolder, MayBeASingleNameInTheCurrentFolder) {
  test::TemporaryFolder parent;
  const fs::path before = fs::current_path();
  fs::current_path(parent.path());
  {
    NewFolder folder("out", false);
    test::write_file(folder.path() / "a", "1");
    folder.keep();
  }
  fs::current_path(before);
  EXPECT_EQ(test::read_file(parent.path() / "out/a"), "1");
}

}  // namespace
}  // namespace assay
