#include "assay/harness/prepared_device.h"

#include <utility>

#include "assay/backend/backend.h"
#include "assay/session/resolve.h"

namespace assay {

std::shared_ptr<Backend> PreparedDevice::take_backend(const RunConfig& wanted) {
  return configuration == wanted ? std::exchange(backend, nullptr) : nullptr;
}

void load_kernels(Backend& backend) {
  backend.measure_rates({1 << 20}, Multiply::float16, Seconds{0});
}

PreparedDevice prepare_device(const RunConfig& configuration) {
  PreparedDevice prepared{.configuration = configuration, .backend = nullptr, .sensors = nullptr};
  const ResolvedRun run = resolve(configuration, {.pins_caller = true});
  if (run.device.kind != Device::Kind::cuda) return prepared;
  prepared.backend = make_backend(run.device, run.backend);
  load_kernels(*prepared.backend);
  std::string why_not;
  prepared.sensors = open_nvml(prepared.backend->bus_id(), why_not);
  return prepared;
}

}  // namespace assay
