#include "assay/session/text_through_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "assay/backend/common/batch.h"
#include "assay/base/error.h"
#include "assay/generate/steps.h"
#include "assay/model/families/families.h"
#include "assay/model/forward.h"
#include "assay/model/model.h"

namespace assay {

namespace {

// The weights of a section: what the model has, and what the section begins with.
class SectionSource : public WeightSource {
 public:
  SectionSource(const Section& section, const Plan& whole, const WeightSource& model)
      : section_(section), whole_(whole), model_(model) {}
  // Rows of the table that the section begins with: its rows of the model's table, or hidden states.
  std::span<const TokenId> used_tokens;
  std::span<const float> states;

  void read_rows(const WeightSpec& weight, std::int64_t first_row, std::int64_t row_count,
                 float* out) const override {
    const std::int64_t first = first_row * weight.columns, count = row_count * weight.columns;
    if (is(section_.probe, weight)) {
      std::fill_n(out, count, 0.0F);
    } else if (is(section_.states, weight)) {
      std::copy_n(states.data() + first, count, out);
    } else if (const WeightId table = table_of_tokens(section_); is(table, weight)) {
      const WeightSpec& from = whole_.weight(section_.whole[static_cast<std::size_t>(table)]);
      for (std::int64_t i = 0; i < row_count; ++i)
        model_.read_rows(from, used_tokens[static_cast<std::size_t>(first_row + i)], 1,
                         out + i * weight.columns);
    } else {
      model_.read_rows(weight, first_row, row_count, out);
    }
  }

  // kNone in sections behind the first.
  static WeightId table_of_tokens(const Section& section) {
    for (const Op& op : section.plan.ops)
      if (const auto* embed = std::get_if<EmbedOp>(&op.kind);
          embed != nullptr && embed->tokens != kNone && embed->tokens != section.states)
        return embed->tokens;
    return kNone;
  }

 private:
  bool is(WeightId id, const WeightSpec& weight) const {
    return id != kNone && section_.plan.weight(id).name == weight.name;
  }
  const Section& section_;
  const Plan& whole_;
  const WeightSource& model_;
};

}  // namespace

TextThroughModel::TextThroughModel(const ModelSource& source, Backend& backend, std::span<const TokenId> ids,
                                   const std::function<bool()>& should_stop)
    : source_(source),
      backend_(backend),
      ids_(ids),
      should_stop_(should_stop),
      weights_(weight_source(source)) {
  const ModelSpec model = spec_from_source(source_);
  const Precision float32 = precision_from_name("float32");
  check_tensors(model, float32, source_);
  whole_ = plan_forward(model, float32);
}

void TextThroughModel::run(const std::function<void(const Read&)>& on_section) {
  const std::vector<Section> sections = sections_of(whole_);
  for (std::size_t i = 0; i < sections.size(); ++i) {
    done_ = static_cast<double>(i) / static_cast<double>(sections.size());
    run(sections[i], on_section);
  }
}

// Replaces the hidden states that the section begins with by those that it ends with.
void TextThroughModel::run(Section section, const std::function<void(const Read&)>& on_section) {
  SectionSource source(section, whole_, *weights_);
  Plan& plan = section.plan;
  std::vector<TokenId> rows(ids_.size()), used;
  if (const WeightId table = SectionSource::table_of_tokens(section); table != kNone) {
    used.assign(ids_.begin(), ids_.end());
    std::sort(used.begin(), used.end());
    used.erase(std::unique(used.begin(), used.end()), used.end());
    check_token_ids(whole_, std::array{used.front(), used.back()});
    for (std::size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<TokenId>(std::lower_bound(used.begin(), used.end(), ids_[i]) - used.begin());
    WeightSpec& spec = plan.weights[static_cast<std::size_t>(table)];
    spec.kind = WeightSpec::Kind::table;
    spec.rows = plan.vocab = static_cast<std::int64_t>(used.size());
    source.used_tokens = used;
  } else {
    std::iota(rows.begin(), rows.end(), 0);
    plan.weights[static_cast<std::size_t>(section.states)].rows = plan.vocab =
        static_cast<std::int64_t>(rows.size());
    source.states = states_;
  }
  program_ = backend_.prepare(plan, source);
  rows_ = rows;
  section_ = &section;
  states_.resize(rows.size() *
                 static_cast<std::size_t>(plan.buffers[static_cast<std::size_t>(plan.hidden)].columns));
  on_section([this](const InputObserver& observer) { read(observer); });
  program_.reset();
}

void TextThroughModel::read(const InputObserver& observer) {
  float* states = states_.data();
  program_->observe_inputs([&](ObservedInput in) {
    if (in.weight == section_->probe) {
      for (std::int64_t row = 0; row < in.rows; ++row, states += in.columns)
        std::copy_n(in.x + row * in.stride, in.columns, states);
      return;
    }
    in.weight = section_->whole[static_cast<std::size_t>(in.weight)];
    observer(in);
  });
  const auto context = static_cast<std::size_t>(whole_.context);
  for (std::size_t first = 0; first < rows_.size(); first += context) {
    if (should_stop_ && should_stop_())
      throw Error("interrupted: the text was read to {:.0f} %", 100 * done_);
    const auto cache = program_->make_cache();
    const StepItem item{cache->add_sequence(), rows_.subspan(first, std::min(context, rows_.size() - first))};
    run_in_steps(*program_, *cache, std::span(&item, 1), [](std::span<const StepPart>) {});
  }
  program_->observe_inputs({});
}

Importance measure_importance(const ModelSource& source, Backend& backend, std::span<const TokenId> ids,
                              const std::function<bool()>& should_stop) {
  TextThroughModel text(source, backend, ids, should_stop);
  std::map<WeightId, std::vector<double>> sums;
  text.run([&](const TextThroughModel::Read& read) {
    read([&](const ObservedInput& in) {
      std::vector<double>& columns = sums[in.weight];
      columns.resize(static_cast<std::size_t>(in.columns));
      for (std::int64_t row = 0; row < in.rows; ++row) {
        const float* x = in.x + row * in.stride;
        for (std::size_t k = 0; k < columns.size(); ++k)
          columns[k] += static_cast<double>(x[k]) * static_cast<double>(x[k]);
      }
    });
  });
  Importance importance;
  for (const auto& [id, columns] : sums) {
    std::vector<float> means;
    for (const double sum : columns) {
      means.push_back(static_cast<float>(sum / static_cast<double>(ids.size())));
      if (!std::isfinite(means.back()))
        throw Error(
            "{}: importance: expected finite activations at its input, found NaN or infinity: the model's "
            "weights or arithmetic are broken",
            source.find(text.spec(id).name).where());
    }
    for (const TensorPart& part : tensors_of(text.spec(id))) importance[part.spec.name] = means;
  }
  return importance;
}

}  // namespace assay
