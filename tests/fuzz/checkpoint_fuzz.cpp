// A whole model folder, plain or quantized, read as loading does up to packing: config.json, NUL, the header
// of model.safetensors, NUL, some bytes that its data repeats.
#include <algorithm>
#include <cstring>
#include <vector>

#include <nlohmann/json.hpp>

#include "assay/backend/backend.h"
#include "assay/checkpoint/configuration_file.h"
#include "assay/checkpoint/model_folder.h"
#include "assay/checkpoint/safetensors_checkpoint.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"
#include "assay/model/stored_quantization.h"
#include "assay/plan/weights.h"
#include "fuzz.h"
#include "json_mutator.h"

namespace assay::fuzz {
namespace {

constexpr std::uint64_t kMostData = std::uint64_t{1} << 20;
constexpr std::int64_t kMostHeads = 512;  // layers times heads: a plan of more takes its time

// Where the header says that the data end.
std::uint64_t end_of_data(const std::string& header) {
  const auto json = nlohmann::json::parse(header, nullptr, false);
  std::uint64_t end = 0;
  if (!json.is_object()) return 0;
  for (const auto& entry : json) {
    const auto offsets = entry.is_object() ? entry.find("data_offsets") : entry.end();
    if (offsets == entry.end() || !offsets->is_array() || offsets->size() != 2) continue;
    const auto& last = offsets->back();
    if (last.is_number_unsigned() && last.get<std::uint64_t>() <= kMostData)
      end = std::max(end, last.get<std::uint64_t>());
  }
  return end;
}

std::string safetensors_of(const std::string& header, const std::string& pattern) {
  const std::uint64_t length = header.size(), data = end_of_data(header);
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  for (std::uint64_t i = 0; i < data; ++i)
    file.push_back(pattern.empty() ? '\x3c' : pattern[static_cast<std::size_t>(i % pattern.size())]);
  return file;
}

void read_weights(const Plan& plan, const ModelSource& source) {
  const auto weights = weight_source(source);
  for (const WeightSpec& whole : plan.weights)
    for (const auto& part : tensors_of(whole)) {
      const WeightSpec& w = part.spec;
      if (w.rows <= 0 || w.rows * w.columns > static_cast<std::int64_t>(kMostData)) continue;
      is_accepted([&] {
        if (!w.is_stored_quantized) {
          std::vector<float> values(static_cast<std::size_t>(w.rows * w.columns));
          weights->read_rows(w, 0, w.stored_transposed ? w.columns : w.rows, values.data());
          return;
        }
        std::vector<std::uint8_t> codes(static_cast<std::size_t>(w.rows * w.columns));
        weights->read_codes(w, 0, w.rows, codes.data());
        weights->read_scales(w);
      });
    }
}

void read_folder(const ModelFolder& folder) {
  const ModelSpec spec = spec_from_source(folder);
  if (std::int64_t{spec.layers} * spec.heads > kMostHeads) return;
  const auto stored = stored_precision(folder, spec);
  const Precision precision = stored ? *stored : Precision{};
  tensor_uses(spec, precision, folder);
  is_accepted([&] { check_tensors(spec, precision, folder); });
  const Plan plan = plan_forward(spec, precision);
  is_accepted([&] { stored_calibration(plan, folder); });
  is_accepted([&] { stored_calibration_sha256(folder); });
  check_weights(plan, folder);
  read_weights(plan, folder);
}

}  // namespace
}  // namespace assay::fuzz

ASSAY_FUZZ_FORM((assay::fuzz::sections<2, true>()))

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace assay;
  const auto parts = fuzz::split_sections(fuzz::text_of(data, size), 2, true);
  const std::string file = fuzz::safetensors_of(parts[1].text, parts[2].text);
  fuzz::is_accepted([&] {
    const ModelFolder folder(
        "folder", parse_configuration(parts[0].text, "config.json"), Json::object(),
        SafetensorsCheckpoint::of_file(SafetensorsFile(fuzz::file_of(file, "model.safetensors"))));
    fuzz::read_folder(folder);
  });
  return 0;
}
