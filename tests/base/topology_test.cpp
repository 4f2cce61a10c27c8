// Processors that share a core, a kind or a node, as Linux tells it.
#include "assay/base/topology.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>

#include "assay/base/cpu.h"
#include "assay/base/format.h"
#include "assay/base/process.h"
#include "assay/base/thread_pool.h"
#include "support/fake_system.h"

namespace assay {
namespace {

using test::FakeSystem;

std::vector<int> order_of(const FakeSystem& system, const std::vector<int>& processors) {
  return in_order_of_use(read_topology(processors, system.path()));
}

TEST(Topology, ListsAreRead) {
  EXPECT_EQ(processors_of_list("0-2,8"), (std::vector{0, 1, 2, 8}));
  EXPECT_EQ(processors_of_list("5"), std::vector{5});
  for (const char* text : {"", "a", "1-", "-1", "3-1", "1,,2", "1 2", "0-99999999", "0x3", "1-2-3"})
    EXPECT_EQ(processors_of_list(text), std::vector<int>()) << text;
}

TEST(Topology, OneThreadOfEachCoreComesFirst) {
  FakeSystem far, near;
  for (const int cpu : {0, 1, 2, 3}) {
    far.put_siblings(cpu, cpu % 2 == 0 ? "0,2" : "1,3");
    near.put_siblings(cpu, cpu < 2 ? "0-1" : "2-3");
  }
  EXPECT_EQ(order_of(far, {0, 1, 2, 3}), (std::vector{0, 1, 2, 3}));
  EXPECT_EQ(order_of(near, {0, 1, 2, 3}), (std::vector{0, 2, 1, 3}));
  EXPECT_EQ(order_of(near, {3, 1, 0}), (std::vector{0, 3, 1}));
  EXPECT_EQ(count_cores(read_topology({0, 1, 2, 3}, near.path())), 2);
  EXPECT_EQ(count_cores(read_topology({1, 3}, near.path())), 2);
  EXPECT_EQ(count_cores(read_topology({2, 3}, near.path())), 1);
}

TEST(Topology, EfficientCoresComeBeforeSiblings) {
  FakeSystem hybrid;
  for (const int cpu : {0, 1, 2, 3}) hybrid.put_siblings(cpu, cpu < 2 ? "0-1" : "2-3");
  for (const int cpu : {4, 5}) hybrid.put_siblings(cpu, std::to_string(cpu));
  hybrid.put("devices/cpu_core/cpus", "0-3");
  hybrid.put("devices/cpu_atom/cpus", "4-5");
  EXPECT_EQ(order_of(hybrid, {0, 1, 2, 3, 4, 5}), (std::vector{0, 2, 4, 5, 1, 3}));
  EXPECT_EQ(count_cores(read_topology({0, 1, 2, 3, 4, 5}, hybrid.path())), 4);
  EXPECT_TRUE(read_topology({5}, hybrid.path())[0].is_efficient);
  EXPECT_FALSE(read_topology({3}, hybrid.path())[0].is_efficient);
}

TEST(Topology, NodesAreCounted) {
  FakeSystem two;
  two.put_nodes({"0,2", "1,3"});
  const std::vector<Processor> all = read_topology({0, 1, 2, 3}, two.path());
  EXPECT_EQ(all[3], (Processor{.id = 3, .core = 3, .is_efficient = false, .node = 1}));
  EXPECT_EQ(count_nodes(all, {0, 1, 2, 3}), 2);
  EXPECT_EQ(count_nodes(all, {0, 2}), 1);
}

TEST(Topology, WhatIsNotToldIsPlain) {
  FakeSystem system;
  system.put_siblings(0, "1-2");  // not itself
  system.put_siblings(1, "nonsense");
  system.put("devices/system/node/online", "0-99999999");
  for (const Processor& one : read_topology({0, 1, 2}, system.path()))
    EXPECT_EQ(one, (Processor{.id = one.id, .core = one.id, .is_efficient = false, .node = 0}));
  system.put("devices/system/cpu/cpu2/topology/thread_siblings_list", "0,2");  // before Linux 5.3
  EXPECT_EQ(read_topology({2}, system.path())[0].core, 0);
}

TEST(Topology, DefaultThreadsAreCores) {
  const int cores = count_cores(read_topology(allowed_processors()));
  EXPECT_LE(default_thread_count(), cores);
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_EQ(default_thread_count({allowed_processors().front()}), 1);
  EXPECT_EQ(threads_for(8, 0), 8) << "no quota";
  EXPECT_EQ(threads_for(8, 1.9), 1);
  EXPECT_EQ(threads_for(8, 0.5), 1);
  EXPECT_EQ(threads_for(2, 100), 2);
}

// The processors that a thread may run on.
std::vector<int> processors_of_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> all;
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return all;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) all.push_back(cpu);
  return all;
}

TEST(Topology, EachThreadHasAProcessorInOrderOfUse) {
  const std::vector<int> order = in_order_of_use(read_topology(allowed_processors())),
                         before = processors_of_thread();
  const auto threads = static_cast<int>(std::min<std::size_t>(order.size(), 4));
  for (const bool pins_caller : {false, true}) {
    std::thread([&] {  // so that this thread stays where it was
      ThreadPool pool(threads, {}, pins_caller);
      std::atomic<int> arrived{0};
      std::vector<std::vector<int>> found(static_cast<std::size_t>(threads));
      pool.run(threads, [&](std::int64_t) {
        ++arrived;
        while (arrived < threads) std::this_thread::yield();
        found[static_cast<std::size_t>(ThreadPool::worker())] = processors_of_thread();
      });
      for (int worker = 1; worker < threads; ++worker)
        EXPECT_EQ(found[static_cast<std::size_t>(worker)],
                  std::vector{order[static_cast<std::size_t>(worker)]});
      EXPECT_EQ(found[0], pins_caller ? std::vector{order[0]} : before);
    })
        .join();
  }
}

// A run measures on every core, though what starts its processes has been pinned to one for a prediction.
TEST(Topology, AProcessThatAPinnedThreadStartsMayUseAllProcessors) {
  if (allowed_processors().size() < 2) GTEST_SKIP() << "one processor";
  std::string all;
  std::vector<int> after;
  std::thread([&] {
    const ThreadPool pool(1, {}, true);
    ChildProcess child({"/bin/sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
    all = child.read_line(Seconds{10}, {}).line;
    after = processors_of_thread();
  }).join();
  const std::string one = fmt::format("Cpus_allowed_list:\t{}", allowed_processors().front());
  EXPECT_TRUE(all.starts_with(one)) << all;
  EXPECT_GT(all.size(), one.size()) << all;
  EXPECT_EQ(after.size(), 1) << "the thread stays where it was pinned";
}

TEST(Topology, ACallerMayRunWhereItMightBeforeItsPool) {
  std::thread([] {
    const std::vector<int> before = processors_of_thread();
    { const ThreadPool pool(1, {}, true); }
    EXPECT_EQ(processors_of_thread(), before);
  }).join();
}

TEST(Topology, PoolsKnowTheNodesOfTheirThreads) {
  const std::vector<int>& allowed = allowed_processors();
  if (allowed.size() < 2) GTEST_SKIP() << "one processor";
  FakeSystem two;
  two.put_nodes({std::to_string(allowed[0]), std::to_string(allowed[1])});
  EXPECT_EQ(ThreadPool(2, {allowed[0], allowed[1]}, false, two.path()).nodes(), 2);
  EXPECT_EQ(ThreadPool(1, {allowed[0], allowed[1]}, false, two.path()).nodes(), 1);
  EXPECT_EQ(ThreadPool(3, {allowed[0], allowed[1]}, false, two.path()).nodes(), 1) << "its threads wander";
}

}  // namespace
}  // namespace assay
