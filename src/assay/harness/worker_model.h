// A model that a worker holds, and the requests about token ids, which need no case and no tokenizer
// (worker_protocol.h).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "assay/base/json_reader.h"
#include "assay/harness/roofline.h"
#include "assay/harness/session.h"
#include "assay/machine/gpu_sensors.h"

namespace assay {

class HeldModel {
 public:
  // `held_before`: the anonymous memory of the process before the model was loaded.
  HeldModel(LoadedModel loaded, const ShouldStop& should_stop, Bytes held_before);

  Session& session() { return *session_; }
  // Its GPU, for another model of this process that runs in the same place; null for others, and on a CPU.
  std::shared_ptr<Backend> gpu_for(const RunConfig& configuration) const;
  // What "load" with a model's name answers.
  nlohmann::ordered_json summary() const;
  // Answers prefill, decode, logits, profile and roofline; null where `op` is none of them. Throws Error.
  nlohmann::ordered_json answer(const std::string& op, const JsonReader& request);

 private:
  nlohmann::ordered_json prefill(const JsonReader& request) const;
  nlohmann::ordered_json decode(const JsonReader& request);
  nlohmann::ordered_json logits(const JsonReader& request) const;
  nlohmann::ordered_json profile(const JsonReader& request) const;
  nlohmann::ordered_json roofline(const JsonReader& request);
  GpuSensors* sensors();  // null where no driver tells

  LoadedModel loaded_;
  ShouldStop should_stop_;
  std::unique_ptr<Session> session_;
  // Made when they are first asked for.
  bool has_asked_sensors_ = false;
  std::unique_ptr<GpuSensors> sensors_;
  std::optional<Roofline> roofline_;
};

// Throws Error for a key that is not known: a misspelt one must not quietly mean its default.
void require_known_keys(const JsonReader& request, std::vector<std::string_view> known);

// More than any limit or working set.
inline constexpr std::int64_t kMaxRequestBytes = std::int64_t{1} << 50;

}  // namespace assay
