// Each thread has tasks of its own to begin with, and touches what they read before anyone else.
#include "assay/backend/cpu/memory/placement.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "assay/backend/cpu/kernels/select.h"
#include "assay/backend/cpu/run/executor.h"
#include "assay/backend/cpu/run/linear.h"
#include "assay/base/cpu.h"
#include "assay/base/topology.h"
#include "support/fake_system.h"

namespace assay::cpu {
namespace {

TEST(Regions, AreAllTasksOnceAndNearlyEqual) {
  for (const int threads : {1, 2, 3, 64})
    for (const std::int64_t tasks : {0, 1, 2, 5, 63, 64, 1000}) {
      std::int64_t next = 0;
      for (int worker = 0; worker < threads; ++worker) {
        const TaskRegion region = region_of(worker, tasks, threads);
        EXPECT_EQ(region.first, next);
        EXPECT_LE(std::abs(region.count - tasks / threads), 1);
        next += region.count;
      }
      EXPECT_EQ(next, tasks) << threads << " threads";
    }
}

TEST(Regions, EveryTaskIsRunOnceInEveryPhase) {
  ThreadPool pool(3);
  Tasks tasks(pool);
  for (const std::int64_t count : {7, 1, 2, 100, 3, 3, 50}) {
    std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
    tasks.run_in_regions(count, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
    for (const auto& times : seen) EXPECT_EQ(times, 1);
  }
}

TEST(Regions, EachThreadBeginsWithItsOwnThenHelps) {
  constexpr int kThreads = 3, kTasks = 13;
  ThreadPool pool(kThreads);
  Tasks tasks(pool);
  for (int round = 0; round < 50; ++round) {
    std::mutex mutex;
    std::map<int, std::vector<std::int64_t>> of_worker;
    std::atomic<int> begun{0};
    tasks.run_in_regions(kTasks, [&](std::int64_t i) {
      const int worker = ThreadPool::worker();
      const bool is_first = [&] {
        const std::lock_guard lock(mutex);
        of_worker[worker].push_back(i);
        return of_worker[worker].size() == 1;
      }();
      // Until all have begun nobody's region is at its end.
      if (is_first) ++begun;
      while (begun < kThreads) std::this_thread::yield();
    });
    ASSERT_EQ(of_worker.size(), std::size_t{kThreads});
    for (const auto& [worker, taken] : of_worker) {
      const TaskRegion own = region_of(worker, kTasks, kThreads);
      std::int64_t expected = own.first;
      for (const std::int64_t i : taken) {
        if (i != expected) break;
        ++expected;
      }
      EXPECT_GT(expected, own.first) << "worker " << worker << " began with task " << taken.front();
    }
  }
}

// A weight with memory that nobody has touched.
PackedWeight laid_out(WeightFormat format, std::int64_t rows, std::int64_t columns = 192,
                      WeightSpec::Kind kind = WeightSpec::Kind::matrix) {
  std::vector<PackedWeight> all =
      lay_out_weights({{.name = "weight", .rows = rows, .columns = columns, .kind = kind, .format = format}});
  all[0].data = AlignedBuffer(static_cast<std::size_t>(all[0].bytes), "a matrix");
  return std::move(all[0]);
}

TEST(Regions, TasksOfFewRowsLetAllThreadsEndTogether) {
  EXPECT_EQ(panels_of_few_rows(48, 2), 8);  // three tasks of each thread; of 16 panels one would have two
  EXPECT_EQ(panels_of_few_rows(192, 2), 16);
  EXPECT_EQ(panels_of_few_rows(3142, 2), 16);
  EXPECT_EQ(panels_of_few_rows(48, 1), 16);
  for (const int threads : {1, 2, 3, 8, 16, 64})
    for (const std::int64_t panels : {1, 20, 48, 144, 192, 3142}) {
      const std::int64_t size = panels_of_few_rows(panels, threads), tasks = (panels + size - 1) / size,
                         most = std::min((tasks + threads - 1) / threads * size, panels);
      EXPECT_LE(size, kManyRowsPanels);
      const auto even = static_cast<double>(panels) / threads;
      EXPECT_LE(static_cast<double>(most), std::max(1.25 * even, even + 1))
          << panels << " panels, " << threads << " threads, tasks of " << size;
    }
}

TEST(Regions, SharesAreAsManyAsTheirRowsAndThreadsAllow) {
  const auto count = [](std::int64_t each, std::int64_t rows, int threads) {
    return row_shares(rows, threads, each).count;
  };
  EXPECT_EQ(count(256, 383, 4), 1);
  EXPECT_EQ(count(256, 384, 4), 2);
  EXPECT_EQ(count(256, 512, 1), 1);
  EXPECT_EQ(count(512, 512, 4), 1);
  EXPECT_EQ(count(128, 512, 2), 2);
  EXPECT_EQ(count(128, 512, 4), 4);
  EXPECT_EQ(count(128, 300, 4), 2);
}

struct Counting : WeightSource {
  void read_rows(const WeightSpec& weight, std::int64_t first, std::int64_t rows, float* out) const override {
    for (std::int64_t i = 0; i < rows * weight.columns; ++i)
      out[i] = static_cast<float>((first * weight.columns + i) % 251) - 125;
  }
};

// What the kernels were called with, in the order of their calls.
std::mutex g_mutex;
std::vector<std::pair<int, const std::byte*>> g_begun;  // worker, where its panels begin
void note_panels(const LinearArgs& args) noexcept {
  const std::lock_guard lock(g_mutex);
  const std::int64_t panel_bytes = args.k * kPanel * 4;
  g_begun.emplace_back(ThreadPool::worker(),
                       static_cast<const std::byte*>(args.w) + args.first_panel * panel_bytes);
}

// A matrix multiplication of one row, the pages that its threads have touched, and what is fetched for it
// agree.
TEST(Regions, TasksReadWhatWasPlacedAndFetchedForThem) {
  for (const bool is_gated : {false, true})
    for (const int threads : {1, 2, 3, 7}) {
      constexpr std::int64_t kOutputs = 768;
      Plan plan;
      plan.buffers = {{"in", 64}, {"out", kOutputs}, {"gated", kOutputs / 2}};
      const WeightSpec matrix{
          .name = "matrix", .rows = kOutputs, .columns = 64, .kind = WeightSpec::Kind::matrix};
      plan.weights = {matrix, matrix};
      plan.ops = {{"up", OpClass::linear, LinearOp{.weight = 0, .in = 0, .out = 1}}};
      if (is_gated) plan.ops.push_back({"gate", OpClass::linear, GatedOp{.in = 1, .out = 2}});
      plan.head.product.weight = 1;
      plan.hidden = 0;
      plan.vocab = kOutputs;
      plan.context = 1;
      KernelTable table = select_kernels(Isa::scalar);
      table.linear = note_panels;
      ThreadPool pool(threads);
      PackedPlan packed(plan, table);
      packed.weights = pack_weights(packed.specs(), Counting(), pool);
      Tasks tasks(pool);
      Workspace work(packed, threads);
      work.reserve();
      Linear linear(packed, tasks, work);
      const FusedOp& op = packed.ops.front();
      ASSERT_EQ(op.gate != nullptr, is_gated);
      g_begun.clear();
      linear.run(std::get<LinearOp>(op.op->kind), work[0], 1,
                 {.out = work[is_gated ? 2 : 1], .gate = op.gate});
      // The regions together hold each byte once, and every task begins inside the region of a worker, as far
      // from its beginning as whole tasks reach.
      const std::int64_t panels = (is_gated ? kOutputs / 2 : kOutputs) / kPanel,
                         bytes = panels_of_few_rows(panels, threads) * packed.weights[0].panel_bytes();
      std::size_t expected = 0;
      for (int worker = 0; worker < threads; ++worker)
        for (const std::span<std::byte> part : read_by(packed.weights[0], is_gated, worker, threads)) {
          expected += (part.size() + static_cast<std::size_t>(bytes) - 1) / static_cast<std::size_t>(bytes);
          for (std::size_t at = 0; at < part.size(); at += static_cast<std::size_t>(bytes))
            EXPECT_EQ(std::count_if(g_begun.begin(), g_begun.end(),
                                    [&](const auto& begun) { return begun.second == &part[at]; }),
                      1)
                << threads << " threads, worker " << worker << ", byte " << at;
        }
      EXPECT_EQ(g_begun.size(), expected) << threads << " threads";
    }
}

TEST(Placement, ReadersHaveEveryPanelOnce) {
  for (const WeightFormat format : {formats::kFloat32, formats::kBfloat16, formats::kInt8, formats::kNf4})
    for (const bool is_gated : {false, true})
      for (const int workers : {1, 2, 3, 7}) {
        PackedWeight w = laid_out(format, 16 * 42);
        std::vector<int> readers(w.data.size());
        for (int worker = 0; worker < workers; ++worker)
          for (const std::span<std::byte> part : read_by(w, is_gated, worker, workers))
            for (const std::byte& byte : part) ++readers[static_cast<std::size_t>(&byte - w.data.data())];
        const auto codes = static_cast<std::ptrdiff_t>(w.panels * w.panel_bytes());
        EXPECT_EQ(std::count(readers.begin(), readers.begin() + codes, 1), codes);
        const auto scales = static_cast<std::ptrdiff_t>(w.bytes) - codes;
        EXPECT_EQ(std::count(readers.begin() + codes, readers.end(), 1),
                  format == formats::kNf4 ? scales : 0);
      }
}

TEST(Placement, ReadersOfGatedMatricesHaveTheSamePartOfBothHalves) {
  PackedWeight w = laid_out(formats::kFloat32, 16 * 40);  // 20 panels of each half: 10 for each reader
  const auto parts = read_by(w, true, 1, 2);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].data() - w.data.data(), 10 * w.panel_bytes());
  EXPECT_EQ(parts[1].data() - w.data.data(), (20 + 10) * w.panel_bytes());
  EXPECT_EQ(parts[0].size(), static_cast<std::size_t>(10 * w.panel_bytes()));
}

// They have no panels, and end where a panel would.
TEST(Placement, VectorsAndTablesHaveNoReaders) {
  ThreadPool pool(2);
  PackedWeight vector = laid_out(formats::kFloat32, 1, 1024, WeightSpec::Kind::vector),
               table = laid_out(formats::kFloat32, 100, 64, WeightSpec::Kind::table);
  for (PackedWeight* w : {&vector, &table})
    for (const int worker : {0, 1}) EXPECT_TRUE(read_by(*w, false, worker, 2).empty()) << w->spec.name;
  const std::vector<std::byte> ones(vector.data.size(), std::byte{1});
  std::memcpy(vector.data.data(), ones.data(), ones.size());
  touch_by_readers(vector, false, pool);
  EXPECT_EQ(std::memcmp(vector.data.data(), ones.data(), ones.size()), 0);
}

// Where the system says that pages lie; negative: nowhere yet.
std::vector<int> nodes_of(std::span<std::byte> bytes) {
  std::vector<void*> pages;
  for (std::size_t at = 0; at < bytes.size(); at += 4096) pages.push_back(&bytes[at]);
  std::vector<int> nodes(pages.size(), -1);
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0) return {};
  return nodes;
}

TEST(Placement, PagesLieWithTheirReaders) {
  const std::vector<int> order = in_order_of_use(read_topology(allowed_processors()));
  if (order.size() < 2) GTEST_SKIP() << "one processor";
  // As many as reach into every node.
  const int threads = std::clamp(count_cores(read_topology(allowed_processors())), 2, 16);
  ThreadPool pool(threads, {}, true);
  PackedWeight w = laid_out(formats::kNf4, 16 * 160, 768);  // less than a huge page
  if (nodes_of(std::span(w.data.data(), w.data.size())).empty())
    GTEST_SKIP() << "the system does not tell where pages lie";
  for (const int node : nodes_of(std::span(w.data.data(), w.data.size()))) ASSERT_LT(node, 0);
  touch_by_readers(w, false, pool);
  for (int worker = 0; worker < threads; ++worker) {
    const int node = read_topology({order[static_cast<std::size_t>(worker)]})[0].node;
    for (const std::span<std::byte> part : read_by(w, false, worker, threads)) {
      const std::vector<int> nodes = nodes_of(part);
      for (std::size_t i = 1; i + 1 < nodes.size(); ++i)  // pages of two readers belong to either
        EXPECT_EQ(nodes[i], node) << "page " << i << " of worker " << worker;
    }
  }
}

TEST(Placement, ComesBeforeAnythingIsWrittenAndChangesNothing) {
  std::vector<WeightSpec> specs;
  for (const WeightFormat format : {formats::kFloat32, formats::kInt8, formats::kNf4})
    specs.push_back(
        {.name = "matrix", .rows = 640, .columns = 192, .kind = WeightSpec::Kind::matrix, .format = format});
  ThreadPool pool(2);
  std::size_t placed = 0;
  const auto with = pack_weights(specs, Counting(), pool, [&](std::size_t i, PackedWeight& w) {
    EXPECT_EQ(i, placed++);
    touch_by_readers(w, i == 0, pool);
    EXPECT_TRUE(std::all_of(w.data.data(), w.data.data() + w.data.size(),
                            [](std::byte b) { return b == std::byte{0}; }));
  });
  EXPECT_EQ(placed, specs.size());
  const auto without = pack_weights(specs, Counting(), pool);
  for (std::size_t i = 0; i < specs.size(); ++i)
    EXPECT_EQ(std::memcmp(with[i].data.data(), without[i].data.data(), with[i].data.size()), 0);
}

// A program on two nodes, as the system would tell it.
TEST(Placement, ProgramsOfTwoNodesPlaceTheirWeights) {
  const std::vector<int>& allowed = allowed_processors();
  if (allowed.size() < 2) GTEST_SKIP() << "one processor";
  test::FakeSystem two;
  two.put_nodes({std::to_string(allowed[0]), std::to_string(allowed[1])});
  Plan plan;
  plan.buffers = {{"in", 192}, {"out", 640}, {"gated", 320}};
  const WeightSpec matrix{.name = "matrix", .rows = 640, .columns = 192, .kind = WeightSpec::Kind::matrix};
  plan.weights = {matrix, matrix};
  plan.ops = {{"up", OpClass::linear, LinearOp{.weight = 0, .in = 0, .out = 1}},
              {"gate", OpClass::linear, GatedOp{.in = 1, .out = 2}}};
  plan.head.product.weight = 1;
  plan.hidden = 0;
  plan.vocab = 640;
  plan.context = 1;
  const auto pool = std::make_shared<ThreadPool>(2, std::vector{allowed[0], allowed[1]}, false, two.path());
  const Executor program(plan, Counting(), select_kernels(Isa::scalar), pool, {});
  EXPECT_EQ(program.memory().weights.value, 2 * 640 * 192 * 4);
}

}  // namespace
}  // namespace assay::cpu
