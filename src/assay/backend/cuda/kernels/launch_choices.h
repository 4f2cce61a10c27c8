// Which choices were measured to be the fastest, by what multiplications look like: a table that a program
// has, and that its launches are given a line of.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "assay/backend/cuda/kernels/kernels.h"

namespace assay::cuda {

// Rows of multiplications that choose alike go up to one of these: those of a launch of few rows, then those
// of a prompt. Fewer than 128 are never a library's.
inline constexpr std::int64_t kRowBuckets[] = {1, 2, 8, 16, 32, 64, 127, 256, 512};
std::int64_t bucket_of(std::int64_t rows);

// What the choice depends on.
struct ProductKey {
  MatrixFormat format = MatrixFormat::float32;
  Arithmetic arithmetic = Arithmetic::float32;
  std::int64_t outputs = 0, inputs = 0, group = 0;
  std::int64_t rows = 1;        // one of kRowBuckets
  bool is_gated = false;        // the epilogue computes a gate
  bool is_normed = false;       // the inputs are normed on the way
  bool chooses_kernel = false;  // CudaGemm::automatic: what multiplies is open too
  auto operator<=>(const ProductKey&) const = default;
};
// "bfloat16 2048 x 5632, 1 row, normed": no two keys have the same.
std::string text_of(const ProductKey& key);

// "weights near ahead, inputs in front"; of a choice that leaves all to the rules: "as usual".
std::string text_of(const LaunchChoice& choice);
// By names: {"loads", "near"}. No pair of what is left to the rules.
std::vector<std::pair<std::string_view, std::string_view>> names_of(const LaunchChoice& choice);
// False where there is no such name or value.
bool set_by_name(LaunchChoice& choice, std::string_view name, std::string_view value);

struct MeasuredChoice {
  LaunchChoice choice = {};
  double gain = 1;          // the rule's time over its own
  bool is_measured = true;  // else the time was over, and the rule stays
  bool operator==(const MeasuredChoice&) const = default;
};

class LaunchChoices {
 public:
  // What a launch takes: as the rules have it where nothing is known.
  LaunchChoice of(const ProductKey& key) const {
    const auto found = choices_.find(key);
    return found == choices_.end() ? LaunchChoice() : found->second.choice;
  }
  bool knows(const ProductKey& key) const { return choices_.contains(key); }
  void put(const ProductKey& key, const MeasuredChoice& choice) { choices_[key] = choice; }
  const std::map<ProductKey, MeasuredChoice>& all() const { return choices_; }
  // "14 launches measured, 2 not as usual: bfloat16 2048 x 2048, 1 row: weights near ahead, 1.08x; ...";
  // empty where none was.
  std::string text() const;

 private:
  std::map<ProductKey, MeasuredChoice> choices_;
};

// What the launch may choose instead of its rule, which is the first; of what comes to the same one. Kernels
// are not among them: args.many_rows says which it is.
std::vector<LaunchChoice> candidates_of(const Runtime& runtime, const LinearArgs& args);
std::vector<LaunchChoice> candidates_of(const Runtime& runtime, const QuantizedLinearArgs& args);

}  // namespace assay::cuda
