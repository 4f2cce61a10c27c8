// What a configuration runs as on this machine. It is resolved once; whatever loads, predicts, labels or
// warns takes the result.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/config/run_config.h"
#include "assay/results/warning.h"
#include "assay/session/resolved_dtype.h"

namespace assay {

class ModelSource;  // checkpoint/source.h
struct ModelSpec;   // model/spec.h

struct ResolvedRun {
  RunConfig asked;         // with the device that runs; what rows and keys are made of
  Device device;           // never `automatic`
  BackendOptions backend;  // for that device
  ResolvedDtype dtype;     // with all that the configuration changes of it
  // The preset that runs; none of a recipe, or of a checkpoint that is quantized.
  std::optional<Preset> preset() const;
};
struct ResolveOptions {
  bool pins_caller = false;          // BackendOptions::pins_caller
  const Backend* backend = nullptr;  // one that is there already: its device runs
};
// Without a model: as of one whose weights are plain numbers. A precision that is not set stays open, and
// what changes it unchecked, until the model is known. Throws FieldError for a value out of range, and for
// what does not go together.
ResolvedRun resolve(const RunConfig& config, const ResolveOptions& options = {});
// For `source`, named `candidate` in messages: what it holds, where it is quantized already. Throws Error
// where it is quantized otherwise than was asked for.
ResolvedRun resolve(ResolvedRun run, const ModelSource& source, const ModelSpec& spec,
                    const std::string& candidate);

// What there is to say of how `run` computes on a backend that was made of it.
std::vector<Warning> warnings_of(const ResolvedRun& run, const Backend& backend);

// A configuration runs there: the CPU where the device may be any and asks_for_cpu(); else the first that can
// be used.
Device device_of(const RunConfig& config);

// An instruction set and a CPU mask say nothing of a GPU.
bool asks_for_cpu(const RunConfig& config);
// What a configuration runs as on its device: a CPU computes float16, as precision or dtype, in float32.
RunConfig resolved_for_device(RunConfig config);
// The configuration for a checkpoint that is quantized already, as `stored`: without a precision, without
// what says how to quantize, and without what does not apply to it. Loading refuses all of these.
RunConfig as_stored(RunConfig config, const Precision& stored);
// What everything is compared with on a device: float32 on a CPU, float16 on a GPU.
Preset baseline_preset(const Device& device);

}  // namespace assay
