// Which processors share a core, a kind or a node of memory.
#pragma once

#include <string>
#include <vector>

namespace assay {

struct Processor {
  int id = 0;
  int core = 0;               // the lowest processor of its core: itself, or an SMT sibling
  bool is_efficient = false;  // the slower kind of a hybrid machine
  int node = 0;               // the memory (NUMA)
  bool operator==(const Processor&) const = default;
};

// As Linux tells it below `system` ("/sys" but in tests). What it does not tell: a core of its own, of the
// only kind, in node 0.
std::vector<Processor> read_topology(const std::vector<int>& processors, const std::string& system = "/sys");

// In which order threads get them: one of each core first, of fast cores before efficient ones, then the
// siblings. Two threads on one core share its multipliers and its caches.
std::vector<int> in_order_of_use(std::vector<Processor> processors);

int count_cores(const std::vector<Processor>& processors);
// NUMA nodes of some of them.
int count_nodes(const std::vector<Processor>& processors, const std::vector<int>& some);

// The processors of a list as Linux writes it: "0-3,8". Empty where it is none.
std::vector<int> processors_of_list(const std::string& text);

}  // namespace assay
