#include "assay/machine/machine_json.h"

#include <nlohmann/json.hpp>

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
          {"cores", m.cores},
          {"efficient_cores", m.efficient_cores},
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

Machine machine_from_json(const JsonReader& json) {
  Machine m;
  m.cpu = json.at("cpu").text();
  m.processors_online = json.at("processors_online").whole<int>();
  m.processors_allowed = json.at("processors_allowed").whole<int>();
  m.cgroup_cpu_quota = json.at("cgroup_cpu_quota").number();
  m.cpu_features = json.at("cpu_features").texts();
  m.memory = {json.at("memory_bytes").whole<std::int64_t>()};
  m.system = json.at("system").text();
  m.load_1min = json.at("load_1min").number();
  // Facts that the first results did not hold.
  if (json.has("instruction_sets"))
    for (const JsonReader& set : json.at("instruction_sets").items())
      m.instruction_sets.push_back({set.at("name").text(), set.at("why_not").text()});
  if (json.has("caches"))
    for (const JsonReader& cache : json.at("caches").items())
      m.caches.push_back({cache.at("level").whole<int>(),
                          cache.at("kind").text(),
                          {cache.at("size_bytes").whole<std::int64_t>()},
                          cache.at("processors").text()});
  const auto text_at = [&](const char* key, std::string& text) {
    if (json.has(key)) text = json.at(key).text();
  };
  const auto bytes_at = [&](const char* key, Bytes& bytes) {
    if (json.has(key)) bytes = {json.at(key).whole<std::int64_t>()};
  };
  if (json.has("cores")) m.cores = json.at("cores").whole<int>();
  if (json.has("efficient_cores")) m.efficient_cores = json.at("efficient_cores").whole<int>();
  if (json.has("numa_nodes")) m.numa_nodes = json.at("numa_nodes").whole<int>();
  text_at("transparent_huge_pages", m.transparent_huge_pages);
  text_at("frequency_governor", m.frequency_governor);
  bytes_at("memory_available_bytes", m.memory_available);
  bytes_at("cgroup_memory_limit_bytes", m.cgroup_memory_limit);
  return m;
}

}  // namespace assay
