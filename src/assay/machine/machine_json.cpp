// How the facts of a machine are written and read.
#include <nlohmann/json.hpp>

#include "assay/machine/machine.h"

namespace assay {

using OrderedJson = nlohmann::ordered_json;

OrderedJson to_json(const Machine& m) {
  OrderedJson sets = OrderedJson::array(), caches = OrderedJson::array();
  for (const InstructionSet& set : m.instruction_sets)
    sets.push_back(
        OrderedJson{{"name", set.name}, {"usable", set.why_not.empty()}, {"why_not", set.why_not}});
  for (const CpuCache& cache : m.caches)
    caches.push_back(OrderedJson{{"level", cache.level},
                                 {"kind", cache.kind},
                                 {"size_bytes", cache.size.value},
                                 {"processors", cache.processors}});
  return {{"cpu", m.cpu},
          {"processors_online", m.processors_online},
          {"processors_allowed", m.processors_allowed},
          {"cgroup_cpu_quota", m.cgroup_cpu_quota},
          {"cpu_features", m.cpu_features},
          {"memory_bytes", m.memory.value},
          {"system", m.system},
          {"load_1min", m.load_1min},
          {"instruction_sets", sets},
          {"caches", caches},
          {"numa_nodes", m.numa_nodes},
          {"transparent_huge_pages", m.transparent_huge_pages},
          {"frequency_governor", m.frequency_governor},
          {"memory_available_bytes", m.memory_available.value},
          {"cgroup_memory_limit_bytes", m.cgroup_memory_limit.value}};
}

Machine machine_from_json(const OrderedJson& json) {
  Machine m;
  m.cpu = json.at("cpu").get<std::string>();
  m.processors_online = json.at("processors_online").get<int>();
  m.processors_allowed = json.at("processors_allowed").get<int>();
  m.cgroup_cpu_quota = json.at("cgroup_cpu_quota").get<double>();
  m.cpu_features = json.at("cpu_features").get<std::vector<std::string>>();
  m.memory = {json.at("memory_bytes").get<std::int64_t>()};
  m.system = json.at("system").get<std::string>();
  m.load_1min = json.at("load_1min").get<double>();
  // Facts that the first results did not hold.
  for (const OrderedJson& set : json.value("instruction_sets", OrderedJson::array()))
    m.instruction_sets.push_back({set.at("name").get<std::string>(), set.at("why_not").get<std::string>()});
  for (const OrderedJson& cache : json.value("caches", OrderedJson::array()))
    m.caches.push_back({cache.at("level").get<int>(),
                        cache.at("kind").get<std::string>(),
                        {cache.at("size_bytes").get<std::int64_t>()},
                        cache.at("processors").get<std::string>()});
  m.numa_nodes = json.value("numa_nodes", 0);
  m.transparent_huge_pages = json.value("transparent_huge_pages", m.transparent_huge_pages);
  m.frequency_governor = json.value("frequency_governor", m.frequency_governor);
  m.memory_available = {json.value("memory_available_bytes", std::int64_t{0})};
  m.cgroup_memory_limit = {json.value("cgroup_memory_limit_bytes", std::int64_t{0})};
  return m;
}

}  // namespace assay
