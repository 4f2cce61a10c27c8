// What must hold of the probes however busy the machine is: no test looks at how fast it was.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

#include "assay/base/aligned.h"
#include "assay/machine/machine_json.h"
#include "assay/machine/machine_rooflines.h"
#include "assay/results/results.h"

namespace assay::test {
namespace {

constexpr Seconds kShort{0.001};

TEST(ReadProbe, ReadsWithEveryNumberOfStreams) {
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    ReadProbe probe({3 << 18}, pool);
    for (const int streams : {1, 2, 4, 8}) {
      const double rate = probe.bytes_per_second(streams, kShort);
      EXPECT_TRUE(std::isfinite(rate));
      EXPECT_GT(rate, 0) << streams << " streams";
    }
  }
}

TEST(ReadProbe, WorkingSetIsWhatWasAsked) {
  ThreadPool pool(2);
  EXPECT_EQ(ReadProbe({1 << 20}, pool).working_set().value, 1 << 20);
  for (const std::int64_t bytes : {1, 5000, 1'000'001}) {
    const std::int64_t held = ReadProbe({bytes}, pool).working_set().value;
    EXPECT_GE(held, bytes);
    EXPECT_LT(held, bytes + 2 * 4097);
  }
}

// For each region whole steps of every thread, and what the buffer adds.
TEST(ReadProbe, ReadsRegionsBesideItsBuffer) {
  ThreadPool pool(2);
  const AlignedBuffer memory(10 * 4096, "a test");
  const MemoryRegions regions{{memory.data(), 4 * 4096 + 4095},
                              {memory.data() + 6 * 4096, 2 * 4096},
                              {memory.data() + 8 * 4096, 2 * 4096 - 1}};
  EXPECT_EQ(ReadProbe::read_of(regions, 2).value, 6 * 4096);
  EXPECT_EQ(ReadProbe::read_of(regions, 1).value, 7 * 4096);
  ReadProbe alone({0}, pool, regions), both({1 << 16}, pool, regions), neither({0}, pool);
  EXPECT_EQ(alone.held().value, 0);
  EXPECT_EQ(alone.working_set().value, 6 * 4096);
  EXPECT_EQ(both.held().value, 1 << 16);
  EXPECT_EQ(both.working_set().value, (1 << 16) + 6 * 4096);
  for (ReadProbe* probe : {&alone, &both, &neither})
    for (const int streams : {1, 4}) EXPECT_GT(probe->bytes_per_second(streams, kShort), 0);
}

TEST(Products, AreMeasuredWhereUsableAndZeroElsewhere) {
  ThreadPool pool(2);
  for (const ProductKind kind : kAllProducts) {
    const double rate = operations_per_second(kind, pool, kShort);
    EXPECT_EQ(rate > 0, !why_not_usable(kind).has_value()) << name_of(kind);
    EXPECT_TRUE(std::isfinite(rate));
  }
}

// Tiles are configured and released within each call: many short calls on changing threads must all work.
TEST(Products, CanBeRunInTurns) {
  for (int turn = 0; turn < 3; ++turn) {
    ThreadPool pool(turn + 1);
    for (const ProductKind kind : kAllProducts) operations_per_second(kind, pool, {1e-5});
  }
}

TEST(Products, ATierThatIsNotUsableGivesItsReason) {
  EXPECT_EQ(why_not_usable(ProductKind::avx2_float32), why_not_usable(Isa::avx2));
  EXPECT_EQ(why_not_usable(ProductKind::amx_int8), why_not_usable(Isa::amx));
}

TEST(Phases, RoundTripTakesTime) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    EXPECT_GT(phase_round_trip(pool).value, 0);
  }
}

TEST(MachineRooflines, WorkingSetsThatWouldFillTheMemoryAreLeftOut) {
  RooflineOptions options;
  options.threads = 2;
  options.each = {1e-4};
  options.working_sets = {{1 << 16}, {1 << 20}};
  options.memory_at_hand = {1 << 20};
  const MachineRooflines peaks = measure_rooflines(options);
  ASSERT_EQ(peaks.skipped.size(), 1U);
  EXPECT_EQ(peaks.skipped[0].value, 1 << 20);
  ASSERT_EQ(peaks.reads.size(), 4U);  // 1 and 2 threads, 1 and 4 streams
  for (const ReadRoofline& read : peaks.reads) EXPECT_EQ(read.working_set.value, 1 << 16);
  EXPECT_EQ(peaks.products.size(), 2 * std::size(kAllProducts));
}

TEST(MachineRooflines, StopsWhenAsked) {
  RooflineOptions options;
  options.should_stop = [] { return true; };
  EXPECT_ANY_THROW(measure_rooflines(options));
}

TEST(Machine, FactsSurviveJson) {
  Machine machine = read_machine();
  machine.caches = {{2, "Unified", {1 << 21}, "0-3"}};
  machine.cgroup_memory_limit = {12345};
  const auto json = to_json(machine);
  EXPECT_EQ(to_json(machine_from_json(json)), json);
}

// Results of the first schema knew less of the machine.
TEST(Machine, EarlierFactsAreRead) {
  auto json = to_json(read_machine());
  for (const char* key : {"instruction_sets", "caches", "numa_nodes", "transparent_huge_pages",
                          "frequency_governor", "memory_available_bytes", "cgroup_memory_limit_bytes"})
    EXPECT_EQ(json.erase(key), 1U) << key;
  const Machine machine = machine_from_json(json);
  EXPECT_EQ(machine.frequency_governor, "unknown");
  EXPECT_EQ(machine.numa_nodes, 0);
  EXPECT_TRUE(machine.caches.empty());
}

}  // namespace
}  // namespace assay::test
