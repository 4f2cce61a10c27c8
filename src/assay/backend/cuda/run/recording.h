// A recording of launches that ends whatever happens.
#pragma once

#include <memory>

#include "assay/backend/cuda/runtime.h"

namespace assay::cuda {

class Recording {
 public:
  explicit Recording(Runtime& runtime) : runtime_(runtime) { runtime.begin_capture(); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (has_ended_) return;
    try {
      runtime_.end_capture();
    } catch (...) {  // NOLINT(bugprone-empty-catch): what was thrown before says why
    }
  }
  std::unique_ptr<Graph> end() {
    has_ended_ = true;
    return runtime_.end_capture();
  }

 private:
  Runtime& runtime_;
  bool has_ended_ = false;
};

}  // namespace assay::cuda
