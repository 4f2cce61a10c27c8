// PNG: what is drawn, and what a picture costs that cannot be.
#include "assay/report/png.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "assay/base/error.h"
#include "assay/report/files.h"
#include "support/paths.h"
#include "support/result_sets.h"
#include "support/temporary_folder.h"

namespace assay::report {
namespace {

std::string blank_svg(int width, int height) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\"><rect width=\"{0}\" "
      "height=\"{1}\" fill=\"#ffffff\"/></svg>",
      width, height);
}
// Width and height of a PNG: big-endian, behind its signature and the head of its first chunk.
std::pair<int, int> size_of(const std::string& png) {
  const auto number = [&](std::size_t at) {
    int value = 0;
    for (std::size_t i = at; i < at + 4; ++i) value = 256 * value + static_cast<unsigned char>(png.at(i));
    return value;
  };
  return {number(16), number(20)};
}

TEST(Png, HasItsScale) {
  if (why_no_png()) {
    EXPECT_EQ(why_no_png(), "PNG needs librsvg (librsvg2-2 in Debian), which is not installed");
    EXPECT_THROW(png_of_svg(blank_svg(30, 20)), Error);
    GTEST_SKIP() << *why_no_png();
  }
  EXPECT_EQ(png_of_svg(blank_svg(30, 20)).substr(0, 8), "\x89PNG\r\n\x1a\n");
  EXPECT_EQ(size_of(png_of_svg(blank_svg(30, 20))), std::pair(60, 40));
  EXPECT_EQ(size_of(png_of_svg(blank_svg(30, 20), 1)), std::pair(30, 20));
  try {
    png_of_svg("no svg");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "librsvg refuses a plot");
  }
  try {
    png_of_svg(blank_svg(10, 20000));  // cairo draws up to 32767 pixels
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "a plot could not be drawn as PNG");
  }
}

TEST(DrawApart, GivesEachPictureOrItsReason) {
  const DrawnPictures none = draw_apart({});
  EXPECT_TRUE(none.pngs.empty());
  EXPECT_EQ(none.why_not, "");
  if (const auto why = why_no_png()) GTEST_SKIP() << *why;
  // The third is longer than what a pipe holds: 64 KiB.
  std::string noisy = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"400\" height=\"400\">";
  for (int i = 0; i < 4000; ++i)
    noisy += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"3\" fill=\"#{:06x}\"/>", i * 7919 % 400,
                         i * 104729 % 397, i * 4241 % 0xffffff);
  noisy += "</svg>";
  const std::vector<std::string> svgs = {blank_svg(8, 9), "no svg", noisy, blank_svg(8, 10)};
  const DrawnPictures drawn = draw_apart(svgs);
  ASSERT_EQ(drawn.pngs.size(), 4U);
  EXPECT_EQ(drawn.pngs[0], png_of_svg(svgs[0]));
  EXPECT_EQ(drawn.pngs[1], "");
  EXPECT_GT(drawn.pngs[2].size(), 1U << 16);
  EXPECT_EQ(drawn.pngs[2], png_of_svg(noisy));
  EXPECT_EQ(drawn.pngs[3], png_of_svg(svgs[3]));
  EXPECT_EQ(drawn.why_not, "librsvg refuses a plot");
  const DrawnPictures all = draw_apart({svgs[0], svgs[3]});
  EXPECT_EQ(all.why_not, "");
  EXPECT_EQ(all.pngs[1], drawn.pngs[3]);
}

std::size_t open_files() {
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++files;
  return files;
}

TEST(DrawApart, KeepsToItsLimits) {
  if (const auto why = why_no_png()) GTEST_SKIP() << *why;
  const std::vector<std::string> many(200, blank_svg(2000, 2000));
  const std::size_t before = open_files();
  for (const double seconds : {0.001, 0.0}) {
    const DrawnPictures late = draw_apart(many, {.time = {seconds}, .memory = {std::int64_t{1} << 30}});
    ASSERT_EQ(late.pngs.size(), many.size());
    EXPECT_EQ(late.pngs.back(), "");
    EXPECT_EQ(late.why_not, fmt::format("the process that draws them took longer than {:g} s", seconds));
  }
  EXPECT_EQ(open_files(), before) << "a pipe is left open";
  // More than a second, so that it is no overflow of microseconds.
  EXPECT_EQ(draw_apart({blank_svg(8, 8)}, {.time = {2.5}, .memory = {std::int64_t{1} << 30}}).why_not, "");
  if (kIsSanitized) return;  // whose shadow counts as memory, so that there is no limit
  const std::string large = blank_svg(4000, 4000);  // 8000 x 8000 pixels of 4 bytes
  const DrawnPictures poor =
      draw_apart({blank_svg(8, 8), large}, {.time = {30}, .memory = {std::int64_t{64} << 20}});
  EXPECT_EQ(poor.pngs[0], png_of_svg(blank_svg(8, 8)));
  EXPECT_EQ(poor.pngs[1], "");
  EXPECT_NE(poor.why_not, "");
  EXPECT_NE(draw_apart({large}, {.time = {30}, .memory = {std::int64_t{1} << 30}}).pngs[0], "");
}

// The process whose parent this one is; 0: there is none. "7 (name) S 6 ...": 6 is the parent.
pid_t own_child() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");
    std::string id, name, state;
    pid_t parent = 0;
    if (file >> id >> name >> state >> parent && parent == getpid()) return std::atoi(id.c_str());
  }
  return 0;
}

TEST(DrawApart, SaysWhichSignalEndedIt) {
  if (const auto why = why_no_png()) GTEST_SKIP() << *why;
  if (own_child() != 0) GTEST_SKIP() << "another test has left a process";
  std::thread killer([] {
    pid_t child = 0;
    while (child == 0) child = own_child();
    kill(child, SIGKILL);
  });
  const DrawnPictures drawn = draw_apart(std::vector<std::string>(200, blank_svg(2000, 2000)));
  killer.join();
  EXPECT_EQ(drawn.why_not, "the process that draws them was killed by signal 9");
  EXPECT_EQ(drawn.pngs.back(), "");
}

TEST(DrawApart, SaysWhereNoProcessCanBeStarted) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  const rlimit none{0, files.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const DrawnPictures drawn = draw_apart({blank_svg(8, 8)});
  setrlimit(RLIMIT_NOFILE, &files);
  EXPECT_EQ(drawn.why_not, "no process can be started to draw them: Too many open files");
  EXPECT_EQ(drawn.pngs, std::vector<std::string>{""});
}

using Paths = std::vector<std::filesystem::path>;

Paths names_in(const std::filesystem::path& folder) {
  Paths names;
  if (std::filesystem::exists(folder))
    for (const auto& entry : std::filesystem::directory_iterator(folder))
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

TEST(WrittenReports, AreNamedInTheirOrder) {
  const test::TemporaryFolder folder;
  const WrittenReports written = write_reports(test::full_results(), folder.path() / "out");
  Paths expected;
  for (const char* name :
       {"results.csv", "results_wide.csv", "samples.csv", "tradeoff.csv", "report.md", "report.html",
        "results.json", "plots/memory_by_precision.svg", "plots/latency_by_precision.svg",
        "plots/latency_by_memory.svg", "plots/memory_by_cause.svg", "plots/table.svg"})
    expected.push_back(folder.path() / "out" / name);
  const bool has_png = !why_no_png();
  if (has_png)
    for (const char* name : {"memory_by_precision.png", "latency_by_precision.png", "latency_by_memory.png",
                             "memory_by_cause.png", "table.png"})
      expected.push_back(folder.path() / "out/plots" / name);
  EXPECT_EQ(written.paths, expected);
  EXPECT_EQ(written.note, has_png ? "" : "Plots were written as SVG only: " + *why_no_png());
  EXPECT_EQ(names_in(folder.path() / "out"),
            (Paths{"plots", "report.html", "report.md", "results.csv", "results.json", "results_wide.csv",
                   "samples.csv", "tradeoff.csv"}));
  EXPECT_EQ(names_in(folder.path() / "out/plots").size(), has_png ? 10U : 5U);
  EXPECT_EQ(read_results(folder.path() / "out/results.json").rows.size(), 3U);
  EXPECT_EQ(read_results(folder.path() / "out").rows.size(), 3U);
}

// One row is no table to draw, and without a trade-off there is no file of it.
TEST(WrittenReports, LeaveOutWhatThereIsNot) {
  const test::TemporaryFolder folder;
  ResultSet results;
  results.rows = {test::measured_row(Scenario::baseline, "a", 1)};
  const WrittenReports written = write_reports(results, folder.path());
  EXPECT_EQ(written.paths.size(), 6U);
  EXPECT_EQ(written.note, "");
  EXPECT_EQ(names_in(folder.path()), (Paths{"report.html", "report.md", "results.csv", "results.json",
                                            "results_wide.csv", "samples.csv"}));
  results.rows.push_back(test::measured_row(Scenario::baseline, "b", 1));
  EXPECT_EQ(write_reports(results, folder.path()).paths[6], folder.path() / "plots/table.svg");
}

// A table of 900 rows has more pixels than a picture may have.
TEST(WrittenReports, SayWhichPlotsAreMissing) {
  if (const auto why = why_no_png()) GTEST_SKIP() << *why;
  const test::TemporaryFolder folder;
  ResultSet results;
  for (int i = 0; i < 900; ++i) results.rows.push_back(test::failed_row(Scenario::baseline, "a", "why"));
  EXPECT_EQ(write_reports(results, folder.path()).note,
            "Plots were written as SVG only: a plot could not be drawn as PNG");
  results.rows.push_back(test::measured_row(Scenario::lengths, "a", 1));
  EXPECT_EQ(write_reports(results, folder.path()).note,
            "1 of 3 plots were written as SVG only: a plot could not be drawn as PNG");
}

TEST(WrittenReports, AreCompleteWithoutAnyPlot) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.path() / "plots") << "a file";
  const WrittenReports written = write_reports(test::full_results(), folder.path());
  EXPECT_EQ(written.paths.size(), 7U);
  EXPECT_TRUE(written.note.starts_with("Not every plot was written: ")) << written.note;
  EXPECT_NE(written.note.find((folder.path() / "plots").string()), std::string::npos) << written.note;
}

}  // namespace
}  // namespace assay::report
