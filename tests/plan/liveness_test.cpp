// Buffers share memory where nothing is lost by it: random programs over memory that remembers who wrote it.
#include "assay/plan/liveness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "assay/base/random.h"

namespace assay {
namespace {

struct RandomProgram {
  std::vector<std::int64_t> columns;
  std::vector<StepUse> steps;
  std::vector<BufferId> kept;
};

// Reads what has been written as a whole, in any number of parts; changes buffers in place, too.
RandomProgram random_program(std::uint64_t seed) {
  Random random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random.uniform() * static_cast<double>(n)) % n;
  };
  RandomProgram program;
  const std::int64_t count = 3 + below(7);
  std::vector<std::vector<bool>> is_written;
  for (std::int64_t i = 0; i < count; ++i) {
    program.columns.push_back(1 + below(40));
    is_written.emplace_back(program.columns.back(), false);
  }
  const auto is_whole = [&](BufferId id) {
    const auto& of = is_written[static_cast<std::size_t>(id)];
    return std::find(of.begin(), of.end(), false) == of.end();
  };
  for (std::int64_t step = 0, steps = 1 + below(30); step < steps; ++step) {
    StepUse use;
    for (BufferId id = 0; id < count; ++id)
      if (is_whole(id) && random.uniform() < 0.3) use.reads.push_back(id);
    for (std::int64_t i = 0, writes = 1 + below(2); i < writes; ++i) {
      const auto id = static_cast<BufferId>(below(count));
      const auto at = static_cast<std::size_t>(id);
      const bool is_part = random.uniform() < 0.4;
      const std::int64_t first = is_part ? below(program.columns[at]) : 0,
                         end = is_part ? first + 1 + below(program.columns[at] - first) : program.columns[at];
      use.writes.push_back({id, first, end});
      std::fill(is_written[at].begin() + first, is_written[at].begin() + end, true);
    }
    program.steps.push_back(std::move(use));
  }
  for (BufferId id = 0; id < count; ++id)
    if (is_whole(id) && random.uniform() < 0.3) program.kept.push_back(id);
  return program;
}

// Runs a program in memory whose every place remembers its last write; whether all that is read is still
// there.
bool keeps_what_is_read(const RandomProgram& program, const Placement& placement) {
  std::vector<std::int64_t> memory(static_cast<std::size_t>(placement.size), -1);
  std::map<std::pair<BufferId, std::int64_t>, std::int64_t> expected;  // by buffer and column
  std::int64_t writes = 0;
  const auto place_of = [&](BufferId id, std::int64_t column) -> std::int64_t& {
    return memory[static_cast<std::size_t>(placement.offsets[static_cast<std::size_t>(id)] + column)];
  };
  const auto is_intact = [&](BufferId id, std::int64_t first, std::int64_t end) {
    for (std::int64_t column = first; column < end; ++column)
      if (place_of(id, column) != expected[{id, column}]) return false;
    return true;
  };
  const auto is_whole = [&](BufferId id) {
    return is_intact(id, 0, program.columns[static_cast<std::size_t>(id)]);
  };
  for (const StepUse& step : program.steps) {
    if (!std::all_of(step.reads.begin(), step.reads.end(), is_whole)) return false;
    for (const StepUse::Columns& write : step.writes)
      for (std::int64_t column = write.first; column < write.end; ++column)
        place_of(write.buffer, column) = expected[{write.buffer, column}] = writes++;
    // It reads while it writes.
    if (!std::all_of(step.reads.begin(), step.reads.end(), is_whole)) return false;
    for (const StepUse::Columns& write : step.writes)
      if (!is_intact(write.buffer, write.first, write.end)) return false;
  }
  return std::all_of(program.kept.begin(), program.kept.end(), is_whole);
}

TEST(Liveness, NothingThatIsReadIsOverwritten) {
  std::int64_t separate = 0, together = 0, lost = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    const RandomProgram program = random_program(seed);
    const Conflicts conflicts = conflicts_of(program.columns, program.steps, program.kept);
    const Placement placement = place(program.columns, conflicts);
    ASSERT_TRUE(keeps_what_is_read(program, placement)) << "seed " << seed;
    separate += std::accumulate(program.columns.begin(), program.columns.end(), std::int64_t{0});
    together += placement.size;
    // Without the conflicts everything lies at 0, and the memory must notice.
    const Conflicts none(conflicts.size(), std::vector<bool>(conflicts.size()));
    lost += keeps_what_is_read(program, place(program.columns, none)) ? 0 : 1;
  }
  EXPECT_LT(together, separate * 9 / 10);
  EXPECT_GT(lost, 1000);
}

TEST(Liveness, PlacedBuffersThatConflictDoNotOverlap) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    Random random(seed);
    std::vector<std::int64_t> sizes(12);
    for (std::int64_t& size : sizes) size = static_cast<std::int64_t>(random.uniform() * 9);  // 0, too
    Conflicts conflicts(sizes.size(), std::vector<bool>(sizes.size()));
    for (std::size_t a = 0; a < sizes.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) conflicts[a][b] = conflicts[b][a] = random.uniform() < 0.5;
    const Placement placement = place(sizes, conflicts);
    for (std::size_t a = 0; a < sizes.size(); ++a) {
      EXPECT_LE(placement.offsets[a] + sizes[a], placement.size);
      for (std::size_t b = 0; b < a; ++b) {
        if (!conflicts[a][b] || sizes[a] == 0 || sizes[b] == 0) continue;
        EXPECT_TRUE(placement.offsets[a] + sizes[a] <= placement.offsets[b] ||
                    placement.offsets[b] + sizes[b] <= placement.offsets[a])
            << seed;
      }
    }
  }
}

TEST(Liveness, AChainTakesTwoBuffers) {
  const std::vector<std::int64_t> columns(5, 10);
  std::vector<StepUse> steps = {{{}, {{0, 0, 10}}}};
  for (BufferId id = 1; id < 5; ++id) steps.push_back({{id - 1}, {{id, 0, 10}}});
  EXPECT_EQ(place(columns, conflicts_of(columns, steps, {4})).size, 20);
  EXPECT_EQ(place(columns, conflicts_of(columns, steps, {0, 4})).size, 30);  // the first stays
}

// Parts in any order make a whole; what only some columns were written of lived before.
TEST(Liveness, PartsMakeAWhole) {
  const std::vector<std::int64_t> columns = {10, 4};
  const StepUse tail{{}, {{0, 6, 10}}}, head{{}, {{0, 0, 6}}}, reads{{0}, {{1, 0, 4}}};
  EXPECT_EQ(live_before(columns, {tail, head, reads}, {1}), std::vector<BufferId>{});
  EXPECT_EQ(live_before(columns, {tail, reads}, {1}), std::vector<BufferId>{0});
  EXPECT_EQ(live_before(columns, {head}, {1}), std::vector<BufferId>{1});
  const std::vector<std::vector<BufferId>> each{{}, {0}, {0}};
  EXPECT_EQ(live_before_each(columns, {tail, head, reads}, {1}), each);
}

}  // namespace
}  // namespace assay
