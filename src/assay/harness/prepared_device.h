// What a worker makes of a GPU before it loads a model there.
#pragma once

#include <memory>

#include "assay/config/run_config.h"
#include "assay/machine/gpu_sensors.h"

namespace assay {

class Backend;  // backend/backend.h

struct PreparedDevice {
  RunConfig configuration;
  std::shared_ptr<Backend> backend;  // with a context; null on a CPU, and once it is taken
  std::unique_ptr<GpuSensors>
      sensors;  // open as long as this lives, so that opening them again takes no time

  // For this configuration; null where it was prepared for another, or for none.
  std::shared_ptr<Backend> take_backend(const RunConfig& wanted);
};

// Throws as make_backend().
PreparedDevice prepare_device(const RunConfig& configuration);
// Loads the code of kernels, which a device otherwise does at the first launch. Leaves no memory allocated.
void load_kernels(Backend& backend);

}  // namespace assay
