// assay machine: its keys, its table and its flags.
#include <nlohmann/json.hpp>

#include "support/program.h"

namespace assay::test {
namespace {

TEST(CliMachine, JsonKeys) {
  const ProgramResult result = run_program({"machine", "--json", "-t", "2", "--largest", "4"});
  expect_success(result);
  EXPECT_EQ(result.err, "");
  const auto json = nlohmann::json::parse(result.out);
  for (const char* key : {"cpu",
                          "system",
                          "processors_online",
                          "processors_allowed",
                          "cgroup_cpu_quota",
                          "cpu_features",
                          "memory_bytes",
                          "memory_available_bytes",
                          "cgroup_memory_limit_bytes",
                          "load_1min",
                          "instruction_sets",
                          "caches",
                          "numa_nodes",
                          "transparent_huge_pages",
                          "frequency_governor",
                          "build",
                          "threads",
                          "read_bandwidth",
                          "skipped_working_sets_bytes",
                          "products",
                          "phase_round_trip_us",
                          "gpus"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json["threads"], 2);
  EXPECT_EQ(json["gpus"].empty(), json.contains("why_no_gpu"));
  EXPECT_FALSE(json["read_bandwidth"].empty());
  for (const auto& row : json["read_bandwidth"]) {
    EXPECT_GT(row["gb_per_s"], 0);
    EXPECT_GT(row["working_set_bytes"], 0);
    EXPECT_TRUE(row["streams"] == 1 || row["streams"] == 4);
    EXPECT_TRUE(row["threads"] == 1 || row["threads"] == 2);
  }
  for (const auto& row : json["products"]) EXPECT_EQ(row["gflops"] > 0, row["why_not"] == "") << row;
  for (const auto& row : json["instruction_sets"]) EXPECT_EQ(row["usable"], row["why_not"] == "") << row;
}

TEST(CliMachine, BadFlags) {
  for (const char* value : {"0", "-1", "two", "1025"})
    expect_failure(run_program({"machine", "-t", value}), 2, {"--threads", value});
  expect_failure(run_program({"machine", "--largest", "0"}), 2, {"--largest", "0"});
  expect_failure(run_program({"machine", "surplus"}), 2, {"surplus"});
}

}  // namespace
}  // namespace assay::test
