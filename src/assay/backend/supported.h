#pragma once
// What a plan may ask of a backend, checked when it is loaded and not while it runs.
#include <span>
#include <string_view>

#include "assay/plan/plan.h"

namespace assay {

// Throws Error that names the op and the backend ("CPU", "CUDA") if a head is longer than `largest_head_dim`,
// a norm is wider than its buffers, a rotation goes beyond its head, a soft cap or the scale of the logits is
// no usable number, or slopes of ALiBi are there for some heads alone.
void check_supported(const Plan& plan, std::string_view backend, int largest_head_dim);

// Throws Error that names the weight, its format, and those that the backend has kernels for, where a format
// of the plan is not among them (the type that scales are held in does not matter), and where one with
// offsets is not what a checkpoint holds, or is to be multiplied by int8 activations.
void check_served(const Plan& plan, std::string_view backend, std::span<const WeightFormat> served);

}  // namespace assay
