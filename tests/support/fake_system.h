// A folder that looks like /sys, with what a test puts there.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.h"

namespace assay::test {

class FakeSystem {
 public:
  std::string path() const { return folder_.path().string(); }
  void put(const std::string& file, const std::string& text) {
    const std::filesystem::path whole = folder_.path() / file;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text << '\n';
  }
  // The threads of a processor's core, itself among them.
  void put_siblings(int cpu, const std::string& list) {
    put("devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/core_cpus_list", list);
  }
  // The processors of each NUMA node.
  void put_nodes(const std::vector<std::string>& lists) {
    put("devices/system/node/online", "0-" + std::to_string(lists.size() - 1));
    for (std::size_t node = 0; node < lists.size(); ++node)
      put("devices/system/node/node" + std::to_string(node) + "/cpulist", lists[node]);
  }

 private:
  TemporaryFolder folder_;
};

}  // namespace assay::test
