#include "assay/base/topology.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <set>
#include <tuple>

namespace assay {

namespace {

constexpr int kMaxProcessors = 1 << 16, kMaxNodes = 1024;

std::string line_of(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::vector<int> processors_of_list(const std::string& text) {
  std::vector<int> all;
  const char *at = text.data(), *const end = at + text.size();
  while (at != end) {
    int first = 0;
    std::from_chars_result found = std::from_chars(at, end, first);
    int last = first;
    if (found.ec == std::errc() && found.ptr != end && *found.ptr == '-')
      found = std::from_chars(found.ptr + 1, end, last);
    if (found.ec != std::errc() || first < 0 || last < first || last >= kMaxProcessors) return {};
    for (int i = first; i <= last; ++i) all.push_back(i);
    if (found.ptr != end && *found.ptr != ',') return {};
    at = found.ptr == end ? end : found.ptr + 1;
  }
  return all;
}

std::vector<Processor> read_topology(const std::vector<int>& processors, const std::string& system) {
  const std::string folder = system + "/devices/system/";
  const std::vector<int> slow = processors_of_list(line_of(system + "/devices/cpu_atom/cpus"));
  const std::set<int> efficient(slow.begin(), slow.end());
  std::map<int, int> node_of;
  for (const int node : processors_of_list(line_of(folder + "node/online"))) {
    if (node >= kMaxNodes) break;
    for (const int id : processors_of_list(line_of(folder + "node/node" + std::to_string(node) + "/cpulist")))
      node_of[id] = node;
  }
  std::vector<Processor> all;
  for (const int id : processors) {
    const std::string of_processor = folder + "cpu/cpu" + std::to_string(id) + "/topology/";
    std::vector<int> siblings = processors_of_list(line_of(of_processor + "core_cpus_list"));
    // Its name before Linux 5.3.
    if (siblings.empty()) siblings = processors_of_list(line_of(of_processor + "thread_siblings_list"));
    const bool is_one = std::find(siblings.begin(), siblings.end(), id) != siblings.end();
    all.push_back({.id = id,
                   .core = is_one ? *std::min_element(siblings.begin(), siblings.end()) : id,
                   .is_efficient = efficient.count(id) > 0,
                   .node = node_of.count(id) > 0 ? node_of[id] : 0});
  }
  return all;
}

std::vector<int> in_order_of_use(std::vector<Processor> processors) {
  std::map<int, int> of_core;  // how many of a core came before
  std::vector<std::tuple<int, bool, int>> order;
  std::sort(processors.begin(), processors.end(),
            [](const Processor& a, const Processor& b) { return a.id < b.id; });
  for (const Processor& one : processors) order.emplace_back(of_core[one.core]++, one.is_efficient, one.id);
  std::sort(order.begin(), order.end());
  std::vector<int> ids;
  for (const auto& [sibling, is_efficient, id] : order) ids.push_back(id);
  return ids;
}

int count_nodes(const std::vector<Processor>& processors, const std::vector<int>& some) {
  std::set<int> nodes;
  for (const Processor& one : processors)
    if (std::find(some.begin(), some.end(), one.id) != some.end()) nodes.insert(one.node);
  return static_cast<int>(nodes.size());
}

int count_cores(const std::vector<Processor>& processors) {
  std::set<int> cores;
  for (const Processor& one : processors) cores.insert(one.core);
  return static_cast<int>(cores.size());
}

}  // namespace assay
