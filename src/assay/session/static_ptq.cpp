#include "assay/session/static_ptq.h"

#include "assay/session/calibrate.h"

namespace assay {

namespace {

std::string sentence_of(const LoadedModel& loaded, const StaticPtqOptions& options) {
  const Backend& backend = loaded.model->backend();
  const CoverageFacts coverage = coverage_of(loaded.model->program().plan());
  return fmt::format(
      "{} runs on {} ({} kernels) in {}: {} matrices have int8 weights with a scale per output, and inputs "
      "in 8-bit "
      "codes with one scale and zero point per product, calibrated by {} on {}{}.",
      loaded.id, backend.device().text(), backend.kernels(), loaded.dtype_label, coverage.quantized,
      name_of(options.calibrator),
      options.calibration.empty() ? "the text that ships" : options.calibration.filename().string(),
      options.smoothing >= 0 ? fmt::format(" after SmoothQuant {}", options.smoothing) : "");
}

LoadOptions load_options(const StaticPtqOptions& options) {
  LoadOptions load;
  load.calibration = options.calibration.string();
  load.calibrator = name_of(options.calibrator);
  load.smoothing = options.smoothing;
  load.remainder = options.remainder;
  load.quantized_head = options.quantized_head;
  return load;
}

}  // namespace

StaticPtq run_static_ptq_optimum(const std::string& id, const StaticPtqOptions& options,
                                 const BackendOptions& backend) {
  LoadOptions load = load_options(options);
  load.backend = backend;
  StaticPtq result{load_model_and_tokenizer({id}, "int8-static", Device{}, load), ""};
  result.sentence = sentence_of(result.loaded, options);
  return result;
}

StaticPtq run_static_ptq_optimum(const LoadedModel& model, const StaticPtqOptions& options) {
  LoadOptions load = load_options(options);
  load.shared_backend = model.model->shared_backend();
  StaticPtq result{load_model_and_tokenizer({model.model->folder().path().string()}, "int8-static",
                                            model.model->backend().device(), load),
                   ""};
  result.loaded.id = model.id;
  result.sentence = sentence_of(result.loaded, options);
  return result;
}

}  // namespace assay
