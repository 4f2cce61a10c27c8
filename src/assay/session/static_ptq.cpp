#include "assay/session/static_ptq.h"

#include <filesystem>

#include "assay/base/error.h"
#include "assay/model/model.h"
#include "assay/session/calibrate.h"
#include "assay/session/load_parts.h"

namespace assay {

namespace {

std::string sentence_of(const LoadedModel& loaded, const RunConfig& config) {
  const Backend& backend = loaded.model->backend();
  const CoverageFacts coverage = coverage_of(loaded.model->program().plan());
  return fmt::format(
      "{} runs on {} ({} kernels) in {}: {} matrices have int8 weights with a scale per output, and inputs "
      "in 8-bit "
      "codes with one scale and zero point per matrix multiplication, calibrated by {} on {}{}.",
      loaded.id, backend.device().text(), backend.kernels(), loaded.dtype_label, coverage.quantized,
      name_of(config.calibrator.value_or(Calibrator::percentile)),
      config.calibration ? std::filesystem::path(*config.calibration).filename().string()
                         : "the text that ships",
      config.smooth_quant ? fmt::format(" after SmoothQuant {}", *config.smooth_quant) : "");
}

}  // namespace

StaticPtq run_static_ptq_optimum(const std::string& id, RunConfig config) {
  config.precision = Preset::int8_static;
  StaticPtq result{load_model_and_tokenizer({id}, config), ""};
  result.sentence = sentence_of(result.loaded, config);
  return result;
}

StaticPtq run_static_ptq_optimum(const LoadedModel& model, RunConfig config) {
  config.precision = Preset::int8_static;
  StaticPtq result{
      load_source(model.model->shared_source(), config, {.shared_backend = model.model->shared_backend()}),
      ""};
  result.loaded.id = model.id;
  result.sentence = sentence_of(result.loaded, config);
  return result;
}

}  // namespace assay
