// What programs and devices have of memory.
#pragma once

#include "assay/base/units.h"

namespace assay {

struct MemoryReport {
  Bytes weights;    // elements of the weights in their formats
  Bytes packing;    // padding of the packed layout
  Bytes workspace;  // activations and logits
};

struct PredictedMemory {
  MemoryReport program;
  Bytes kv_cache;
};

// Memory of a device that has its own.
struct DeviceMemory {
  Bytes free, total;      // as its driver tells
  Bytes allocated, peak;  // by this program: now, and at most since reset_peak_memory()
};

}  // namespace assay
