#include "assay/plan/sections.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "assay/plan/liveness.h"

namespace assay {

namespace {

// Where a part ends: before this operation, when this buffer alone holds something.
struct Cut {
  std::size_t op = 0;
  BufferId carried = kNone;
};

std::vector<Cut> cuts_of(const Plan& plan) {
  std::vector<StepUse> steps;
  for (const Op& op : plan.ops) steps.push_back(use_of(plan, op));
  const std::vector<std::vector<BufferId>> live = live_before_each(plan.widths(), steps, {plan.hidden});
  std::vector<Cut> cuts;
  std::optional<Cut> last;  // since the last attention
  bool has_attention = false;
  for (std::size_t i = 1; i < plan.ops.size(); ++i) {
    if (std::holds_alternative<AttentionOp>(plan.ops[i - 1].kind)) {
      has_attention = true;
      last.reset();
    }
    if (has_attention && live[i].size() == 1) last = Cut{i, live[i].front()};
    if (last && std::holds_alternative<AttentionOp>(plan.ops[i].kind)) cuts.push_back(*last);
  }
  cuts.push_back({plan.ops.size(), plan.hidden});
  return cuts;
}

// Copies operations into a plan of their own.
class SectionWriter {
 public:
  SectionWriter(const Plan& whole, BufferId first, BufferId last) : whole_(whole) {
    plan().buffers = whole.buffers;
    plan().hidden = last;
    plan().vocab = first == kNone ? whole.vocab : 1;
    plan().context = whole.context;
    plan().kv_heads = whole.kv_heads;
    plan().head_dim = whole.head_dim;
    plan().kv_format = whole.kv_format;
    if (first == kNone) return;
    section_.states = add("(hidden states)", 1, width(first), WeightSpec::Kind::table);
    plan().ops.push_back({"states", OpClass::embed, EmbedOp{.tokens = section_.states, .out = first}});
  }

  void copy(Op op) {
    std::visit(Cases{[&](EmbedOp& embed) {
                       map(embed.tokens);
                       map(embed.positions);
                     },
                     [&](NormOp& norm) {
                       map(norm.gain);
                       map(norm.bias);
                     },
                     [&](LinearOp& linear) {
                       map(linear.weight);
                       map(linear.bias);
                     },
                     [](RotaryOp&) {}, [&](AttentionOp& attention) { attention.layer = plan().layers++; },
                     [](GatedOp&) {}, [](AddOp&) {}},
               op.kind);
    plan().ops.push_back(std::move(op));
  }

  Section finish() {
    section_.probe = add("(probe)", 1, width(plan().hidden), WeightSpec::Kind::matrix);
    plan().layers = std::max(plan().layers, 1);
    plan().head.product.weight = section_.probe;
    plan().buffers.push_back({"probe", 1});
    plan().ops.push_back({"probe", OpClass::head,
                          LinearOp{.weight = section_.probe,
                                   .in = plan().hidden,
                                   .out = static_cast<BufferId>(plan().buffers.size()) - 1}});
    return std::move(section_);
  }

 private:
  Plan& plan() { return section_.plan; }
  std::int64_t width(BufferId id) const { return whole_.buffers[static_cast<std::size_t>(id)].columns; }

  WeightId add(const char* name, std::int64_t rows, std::int64_t columns, WeightSpec::Kind kind) {
    plan().weights.push_back({.name = name, .rows = rows, .columns = columns, .kind = kind});
    section_.whole.push_back(kNone);
    return static_cast<WeightId>(plan().weights.size()) - 1;
  }

  // From the whole plan's number of a weight to the section's.
  void map(WeightId& id) {
    if (id == kNone) return;
    const auto [at, is_new] = numbers_.try_emplace(id, static_cast<WeightId>(plan().weights.size()));
    if (is_new) {
      plan().weights.push_back(whole_.weight(id));
      section_.whole.push_back(id);
    }
    id = at->second;
  }

  const Plan& whole_;
  Section section_;
  std::map<WeightId, WeightId> numbers_;
};

}  // namespace

std::vector<Section> sections_of(const Plan& plan) {
  std::vector<Section> sections;
  std::size_t next = 0;
  BufferId carried = kNone;
  for (const Cut& cut : cuts_of(plan)) {
    SectionWriter write(plan, carried, cut.carried);
    for (; next < cut.op; ++next) write.copy(plan.ops[next]);
    sections.push_back(write.finish());
    carried = cut.carried;
  }
  return sections;
}

}  // namespace assay
