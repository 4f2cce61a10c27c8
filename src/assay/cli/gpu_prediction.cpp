#include "assay/cli/gpu_prediction.h"

#include <nlohmann/json.hpp>

#include "assay/base/format.h"

namespace assay::cli {

nlohmann::ordered_json gpu_prediction_json(const Plan& plan, const GpuStep& step) {
  const GpuPrediction prediction = predict_gpu_step(plan, step);
  nlohmann::ordered_json kernels = nlohmann::ordered_json::array();
  for (const PredictedKernel& kernel : prediction.kernels)
    kernels.push_back({{"name", kernel.name},
                       {"kind", kernel.kind},
                       {"count", kernel.count},
                       {"launches_each", kernel.launches_each},
                       {"bytes", kernel.bytes},
                       {"flops", kernel.flops},
                       {"seconds", kernel.seconds.value},
                       {"bound", kernel.bound}});
  return {{"gpu", prediction.gpu},
          {"rows", step.rows},
          {"past", step.past},
          {"rates", prediction.source},
          {"kernels", kernels},
          {"nodes", prediction.nodes},
          {"bytes", prediction.bytes},
          {"seconds", prediction.seconds.value},
          {"steps_per_sec", 1 / prediction.seconds.value},
          {"read_gb_per_s", prediction.read_bytes_per_second / 1e9},
          {"is_in_l2", prediction.is_in_l2}};
}

std::string gpu_prediction_text(const nlohmann::ordered_json& p) {
  std::string text =
      fmt::format("\nPredicted for a step of {} token{} after {} on {}, without overlap of kernels\n",
                  p["rows"].get<std::int64_t>(), p["rows"] == 1 ? "" : "s", p["past"].get<std::int64_t>(),
                  p["gpu"].get<std::string>());
  text +=
      fmt::format("  {:<34} {:>5} {:>10} {:>10} {:>9} {:<8}\n", "", "count", "MiB", "MFLOP", "us", "bound");
  const auto number = [](const nlohmann::ordered_json& of, const char* key) { return of[key].get<double>(); };
  for (const auto& k : p["kernels"])
    text += fmt::format("  {:<34} {:>5} {:>10.2f} {:>10.2f} {:>9.1f} {:<8}\n",
                        k["name"].get<std::string>().substr(0, 34), k["count"].get<int>(),
                        number(k, "bytes") / (1024 * 1024), number(k, "flops") / 1e6,
                        number(k, "seconds") * 1e6, k["bound"].get<std::string>());
  text += fmt::format("  {:<34} {:>5} {:>10.2f} {:>10} {:>9.1f} {:.0f}/s\n", "all", "",
                      number(p, "bytes") / (1024 * 1024), "", number(p, "seconds") * 1e6,
                      number(p, "steps_per_sec"));
  return text + fmt::format("  {} kernels are nodes of one graph. The {} at {:.2f} TB/s. Rates: {}.\n",
                            p["nodes"].get<std::int64_t>(),
                            p["is_in_l2"].get<bool>() ? "L2 cache holds what they read, and is read"
                                                      : "memory is read",
                            number(p, "read_gb_per_s") / 1e3, p["rates"].get<std::string>());
}

}  // namespace assay::cli
