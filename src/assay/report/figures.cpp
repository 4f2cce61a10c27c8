#include "assay/report/figures.h"

#include <algorithm>

#include "assay/base/format.h"

namespace assay {

namespace {

std::string counted(const std::string& number, const char* what) {
  return number + " " + what + (number == "1" ? "" : "s");
}

class Figures {
 public:
  explicit Figures(const ResultSet& results) : results_(results) {
    for (const Row& row : results.rows)
      if (row.status == "ok" && subtitle_.empty() && row.find("total_latency_s") != nullptr)
        subtitle_ =
            fmt::format("{}, {}, {} kernels, {}; whiskers are 95 % intervals where there are six runs",
                        results.model.id, row.parameter("precision"), row.parameter("kernels"),
                        counted(row.parameter("threads"), "thread"));
  }

  std::vector<std::pair<std::string, Plot>> run() {
    add_lengths();
    add_positions();
    add_bars("trade-off", "resident_weights_bytes", 1.0 / (1024 * 1024), "memory_by_precision",
             "Weights in memory by precision", "Weights as they lie in memory (MB of 1024 x 1024 bytes)");
    add_bars("trade-off", "total_latency_s", 1e3, "latency_by_precision", "Latency by precision",
             fmt::format("Latency of one generation (ms)"));
    add_bars("perplexity", "perplexity", 1, "perplexity_by_precision", "Perplexity by precision",
             "Perplexity (lower is better)");
    add_batches();
    return std::move(figures_);
  }

 private:
  std::vector<const Row*> rows_of(std::string_view scenario, std::string_view tag) const {
    std::vector<const Row*> rows;
    for (const Row& row : results_.rows)
      if (row.scenario == scenario && row.status == "ok" && row.find(tag) != nullptr) rows.push_back(&row);
    return rows;
  }

  static PlotPoint point(double x, const Value& value, double scale = 1) {
    PlotPoint p{x, value.value * scale, 0, 0};
    if (value.interval) {
      p.low = value.interval->low * scale;
      p.high = value.interval->high * scale;
    }
    return p;
  }

  static PlotSeries series_of(const std::string& name, const std::vector<const Row*>& rows,
                              std::string_view x, std::string_view y, double scale = 1) {
    PlotSeries series{name, {}};
    for (const Row* row : rows)
      if (row->find(x) != nullptr && row->find(y) != nullptr)
        series.points.push_back(point(row->find(x)->value, *row->find(y), scale));
    return series;
  }

  void add_lengths() {
    const std::vector<const Row*> rows = rows_of("lengths", "total_latency_s");
    if (rows.empty()) return;
    Plot latency{.title = "Latency against prompt length",
                 .subtitle = subtitle_,
                 .x_label = "Prompt (tokens)",
                 .y_label = "Latency (ms)",
                 .series = {},
                 .categories = {}};
    latency.series = {series_of("whole generation", rows, "prompt_tokens", "total_latency_s", 1e3),
                      series_of("first token", rows, "prompt_tokens", "time_to_first_token_s", 1e3)};
    figures_.emplace_back("latency_by_length", latency);
    Plot speed{.title = "Speed against prompt length",
               .subtitle = subtitle_,
               .x_label = "Prompt (tokens)",
               .y_label = "New tokens per second",
               .series = {},
               .categories = {}};
    speed.series = {series_of("decode alone", rows, "prompt_tokens", "decode_tokens_per_sec"),
                    series_of("with prefill", rows, "prompt_tokens", "tokens_per_sec")};
    figures_.emplace_back("speed_by_length", speed);
  }

  void add_positions() {
    Plot plot{.title = "Time of a step against its position, cache on and off",
              .subtitle = subtitle_,
              .x_label = "Position (tokens held)",
              .y_label = "Step (ms)",
              .series = {},
              .categories = {}};
    plot.subtitle = results_.model.id + ": each step's median over the runs";
    for (const Row* row : rows_of("step times", "step_latency_ms")) {
      PlotSeries series{row->label, {}};
      series.has_line = false;
      const std::vector<double>&x = row->find("position")->samples,
            &y = row->find("step_latency_ms")->samples;
      for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) series.points.push_back({x[i], y[i]});
      plot.series.push_back(std::move(series));
    }
    if (!plot.series.empty()) figures_.emplace_back("step_by_position", plot);
  }

  void add_bars(std::string_view scenario, std::string_view tag, double scale, const char* file,
                const char* title, const std::string& label) {
    const std::vector<const Row*> rows = rows_of(scenario, tag);
    if (rows.size() < 2) return;
    Plot plot{
        .title = title,
        .subtitle =
            results_.model.id + ": the first is the baseline; whiskers are 95 % intervals" +
            (tag == "perplexity" ? " over texts like this one, far wider than those of differences" : ""),
        .x_label = label,
        .y_label = "",
        .series = {{}},
        .categories = {}};
    for (const Row* row : rows) {
      plot.categories.push_back(row->label);
      plot.series.front().points.push_back(point(0, *row->find(tag), scale));
    }
    figures_.emplace_back(file, plot);
  }

  void add_batches() {
    const std::vector<const Row*> rows = rows_of("batches", "tokens_per_sec");
    if (rows.size() < 2) return;
    Plot speed{.title = "Throughput against batch size",
               .subtitle = subtitle_,
               .x_label = "Sequences at once",
               .y_label = "Tokens per second",
               .series = {},
               .categories = {}};
    PlotSeries all{"all sequences", {}}, each{"each sequence", {}};
    for (const Row* row : rows) {
      const double size = std::strtod(row->parameter("batch_size").c_str(), nullptr);
      all.points.push_back(point(size, *row->find("tokens_per_sec")));
      if (const Value* own = row->find("tokens_per_sec_per_sequence"))
        each.points.push_back(point(size, *own));
    }
    speed.series = {all, each};
    figures_.emplace_back("throughput_by_batch", speed);
  }

  const ResultSet& results_;
  std::string subtitle_;
  std::vector<std::pair<std::string, Plot>> figures_;
};

}  // namespace

std::vector<std::pair<std::string, Plot>> figures_of(const ResultSet& results) {
  return Figures(results).run();
}

}  // namespace assay
