// Where tests find their fixtures, and how they load them.
#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "assay/backend/backend.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/checkpoint/safetensors.h"
#include "assay/generate/steps.h"
#include "assay/session/load.h"
#include "support/paths.h"

namespace assay::test {

inline std::filesystem::path fixture(const std::string& name) {
  return std::filesystem::path(source_folder()) / "tests/fixtures" / name;
}
inline std::filesystem::path fixture_model(const std::string& name) {
  return fixture("models") / name;
}
inline std::filesystem::path demo_model() {
  return std::filesystem::path(source_folder()) / "models/demo";
}

// The development corpora, which are not part of the project; tests that need them skip where they are
// absent.
inline std::filesystem::path dev_data(const std::string& name) {
  const char* folder = std::getenv("ASSAY_DEV_DATA");
  return (folder != nullptr ? std::filesystem::path(folder)
                            : std::filesystem::path(source_folder()) / "../shared/data") /
         name;
}

inline std::shared_ptr<Backend> cpu_backend(Isa isa, int threads = 2) {
  BackendOptions options;
  options.threads = threads;
  options.isa = isa;
  options.is_isa_forced = true;
  return make_backend(Device{}, options);
}

inline std::vector<Isa> usable_isas() {
  std::vector<Isa> isas;
  for (const Isa isa : kAllIsas)
    if (is_usable(isa)) isas.push_back(isa);
  return isas;
}

inline std::vector<float> read_floats(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = *file.find(name);
  std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
  file.read_floats(tensor, 0, tensor.elements(), out.data());
  return out;
}

inline std::vector<TokenId> read_ids(const SafetensorsFile& file, const std::string& name) {
  const StoredTensor& tensor = *file.find(name);
  std::vector<std::int64_t> wide(static_cast<std::size_t>(tensor.elements()));
  file.read(tensor, 0, tensor.elements(), std::as_writable_bytes(std::span(wide)));
  return {wide.begin(), wide.end()};
}

// Logits of every position, computed in one sequence.
inline std::vector<float> all_logits(Program& program, const std::vector<TokenId>& ids) {
  const auto vocab = static_cast<std::size_t>(program.plan().vocab);
  std::vector<float> logits(ids.size() * vocab);
  const auto cache = program.make_cache();
  const StepItem item{cache->add_sequence(), ids};
  run_in_steps(program, *cache, std::span(&item, 1), [&](std::span<const StepPart> parts) {
    for (const StepPart& part : parts)
      for (std::int64_t i = 0; i < part.rows; ++i) {
        const std::int64_t row = part.first_row + i;
        program.head(std::span(&row, 1), LogitsSink{std::span(logits).subspan(
                                             static_cast<std::size_t>(part.first + i) * vocab, vocab)});
      }
  });
  return logits;
}

double inline standard_deviation_of(const std::vector<float>& x) {
  double sum = 0, squares = 0;
  for (const float v : x) sum += static_cast<double>(v);
  const double mean = sum / static_cast<double>(x.size());
  for (const float v : x) squares += (static_cast<double>(v) - mean) * (static_cast<double>(v) - mean);
  return std::sqrt(squares / static_cast<double>(x.size()));
}

double inline largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = a.size() == b.size() ? 0 : 1e30;
  for (std::size_t i = 0; i < a.size() && i < b.size(); ++i) {
    const double d = std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    largest = d <= largest ? largest : d;  // NaN counts as a difference
  }
  return largest;
}

inline double rms_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::nan("");  // fails every comparison
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    squares += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

}  // namespace assay::test
