// The CUDA backend: present where the program was built with it.
#pragma once

#include <memory>

#include "assay/backend/backend.h"

namespace assay {
std::shared_ptr<Backend> make_cuda_backend(const Device& device);
}
