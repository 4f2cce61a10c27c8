#include "assay/report/figures.h"

#include <algorithm>

#include "assay/base/format.h"
#include "assay/report/configuration_figures.h"
#include "assay/report/figure_points.h"
#include "assay/report/text_layout.h"
#include "assay/results/metric.h"

namespace assay::report {

namespace {

std::string named_number(const std::string& number, const char* what) {
  return number + " " + what + (number == "1" ? "" : "s");
}

class ResultFigures {
 public:
  explicit ResultFigures(const ResultSet& results)
      : results_(results), model_(cut_to_width(terminal_text(results.model.id), 40)) {
    for (const Row& row : results.rows)
      if (row.status == RowStatus::ok && subtitle_.empty() && row.find("total_latency_s") != nullptr)
        subtitle_ = fmt::format("{}, {}, {} kernels, {}; whiskers: 95 % intervals", model_,
                                row.parameter("precision"), row.parameter("kernels"),
                                named_number(row.parameter("threads"), "thread"));
  }

  std::vector<std::pair<std::string, Plot>> run() {
    add_lengths();
    add_positions();
    add_bars(Scenario::tradeoff, "resident_weights_bytes", "memory_by_precision",
             "Memory of the weights by precision");
    add_bars(Scenario::tradeoff, "total_latency_s", "latency_by_precision", "Latency by precision");
    add_bars(Scenario::perplexity, "perplexity", "perplexity_by_precision", "Perplexity by precision");
    add_batches();
    for (auto* more : {&frontier_figures, &configuration_figures})
      for (auto& figure : (*more)(results_)) figures_.push_back(std::move(figure));
    return std::move(figures_);
  }

 private:
  PlotSeries series_of(const std::string& name, const std::vector<const Row*>& rows, std::string_view x,
                       std::string_view y) const {
    PlotSeries series{name, {}};
    for (const Row* row : rows)
      if (row->find(x) != nullptr && row->find(y) != nullptr)
        series.points.push_back(point_of(results_, *row, row->find(x)->value, *row->find(y), metric(y)));
    return series;
  }

  void add_lengths() {
    const std::vector<const Row*> rows = rows_with(results_, Scenario::lengths, "total_latency_s");
    if (rows.empty()) return;
    Plot latency{.title = "Latency against prompt length",
                 .subtitle = subtitle_,
                 .x_label = "Prompt length (tokens)",
                 .y_label = "Latency (ms)",
                 .series = {},
                 .categories = {}};
    latency.series = {series_of("Latency", rows, "prompt_tokens", "total_latency_s"),
                      series_of("TTFT", rows, "prompt_tokens", "time_to_first_token_s")};
    figures_.emplace_back("latency_by_length", latency);
    Plot speed{.title = "Throughput against prompt length",
               .subtitle = subtitle_,
               .x_label = "Prompt length (tokens)",
               .y_label = "Throughput (tokens/s)",
               .series = {},
               .categories = {}};
    speed.series = {series_of("decode only", rows, "prompt_tokens", "decode_tokens_per_sec"),
                    series_of("prefill and decode", rows, "prompt_tokens", "tokens_per_sec")};
    figures_.emplace_back("speed_by_length", speed);
  }

  void add_positions() {
    Plot plot{.title = "Decode step time against position, KV cache on and off",
              .subtitle = model_ + "; each point is the median over the runs of one step",
              .x_label = "Position (tokens in the sequence)",
              .y_label = "Decode step (ms)",
              .series = {},
              .categories = {}};
    for (const Row* row : rows_with(results_, Scenario::step_times, "step_latency_ms")) {
      if (row->find("position") == nullptr) continue;
      PlotSeries series{row->label, {}};
      series.has_line = false;
      const std::vector<double>&x = row->find("position")->samples,
            &y = row->find("step_latency_ms")->samples;
      for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i) series.points.push_back({x[i], y[i]});
      plot.series.push_back(std::move(series));
    }
    if (!plot.series.empty()) figures_.emplace_back("step_by_position", plot);
  }

  void add_bars(Scenario scenario, std::string_view tag, const char* file, const char* title) {
    const std::vector<const Row*> rows = rows_with(results_, scenario, tag);
    if (rows.size() < 2) return;
    const Metric& what = metric(tag);
    std::string subtitle = model_ + "; the first bar is the baseline";
    if (std::any_of(rows.begin(), rows.end(),
                    [&](const Row* row) { return row->find(tag)->interval.has_value(); }))
      subtitle += tag == "perplexity"
                      ? "; whiskers: 95 % intervals over texts, wider than those of differences"
                      : "; whiskers: 95 % intervals";
    Plot plot{.title = title,
              .subtitle = subtitle,
              .x_label = what.column_head() + ", lower is better",
              .y_label = "",
              .series = {{}},
              .categories = {}};
    for (const Row* row : rows) {
      plot.categories.push_back(row->label);
      plot.series.front().points.push_back(point_of(results_, *row, 0, *row->find(tag), what));
    }
    figures_.emplace_back(file, plot);
  }

  void add_batches() {
    const std::vector<const Row*> rows = rows_with(results_, Scenario::batches, "tokens_per_sec");
    if (rows.size() < 2) return;
    Plot speed{.title = "Throughput against batch size",
               .subtitle = subtitle_,
               .x_label = "Batch size (sequences)",
               .y_label = "Throughput (tokens/s)",
               .series = {},
               .categories = {}};
    PlotSeries all{"whole batch", {}}, each{"one sequence", {}};
    for (const Row* row : rows) {
      const double size = std::strtod(row->parameter("batch_size").c_str(), nullptr);
      all.points.push_back(
          point_of(results_, *row, size, *row->find("tokens_per_sec"), metric("tokens_per_sec")));
      if (const Value* own = row->find("tokens_per_sec_per_sequence"))
        each.points.push_back(point_of(results_, *row, size, *own, metric("tokens_per_sec_per_sequence")));
    }
    speed.series = {all, each};
    figures_.emplace_back("throughput_by_batch", speed);
  }

  const ResultSet& results_;
  const std::string model_;
  std::string subtitle_;
  std::vector<std::pair<std::string, Plot>> figures_;
};

}  // namespace

std::vector<std::pair<std::string, Plot>> figures_of(const ResultSet& results) {
  return ResultFigures(results).run();
}

}  // namespace assay::report
