#include "assay/plan/liveness.h"

#include <algorithm>
#include <numeric>

namespace assay {

namespace {

// The columns of a buffer whose values will be read.
class LiveColumns {
 public:
  bool any() const { return !ranges_.empty(); }
  void read(std::int64_t columns) { ranges_.assign(1, {0, columns}); }
  void write(std::int64_t first, std::int64_t end) {
    std::vector<Range> left;
    for (const Range& range : ranges_) {
      if (range.first < std::min(range.end, first)) left.push_back({range.first, std::min(range.end, first)});
      if (std::max(range.first, end) < range.end) left.push_back({std::max(range.first, end), range.end});
    }
    ranges_ = std::move(left);
  }

 private:
  struct Range {
    std::int64_t first, end;
  };
  std::vector<Range> ranges_;
};

std::size_t at(BufferId id) {
  return static_cast<std::size_t>(id);
}

}  // namespace

StepUse use_of(const Plan& plan, const Op& op) {
  const auto whole = [&](BufferId id) { return StepUse::Columns{id, 0, plan.buffers[at(id)].columns}; };
  StepUse use{buffers_of(op).reads, {}};
  use.writes.push_back(
      std::visit(Cases{[&](const EmbedOp& embed) { return whole(embed.out); },
                       [&](const NormOp& norm) {
                         const std::int64_t columns = norm.groups * plan.weight(norm.gain).columns;
                         return StepUse::Columns{norm.out, norm.column, norm.column + columns};
                       },
                       [&](const LinearOp& linear) {
                         const std::int64_t columns = plan.weight(linear.weight).rows;
                         return StepUse::Columns{linear.out, linear.out_column, linear.out_column + columns};
                       },
                       [&](const RotaryOp& rotary) { return whole(rotary.buffer); },
                       [&](const AttentionOp& attention) {
                         return StepUse::Columns{attention.out, 0, attention.k_column()};
                       },
                       [&](const GatedOp& gated) { return whole(gated.out); },
                       [&](const AddOp& add) { return whole(add.out); }},
                 op.kind));
  return use;
}

namespace {

// From the last step to the first; visit(what a step holds, as it begins and while it runs).
template <typename Visit>
std::vector<LiveColumns> walk(const std::vector<std::int64_t>& columns, const std::vector<StepUse>& steps,
                              const std::vector<BufferId>& kept, const Visit& visit) {
  std::vector<LiveColumns> live(columns.size());
  for (const BufferId id : kept) live[at(id)].read(columns[at(id)]);
  for (std::size_t i = steps.size(); i-- > 0;) {
    std::vector<bool> is_there;
    for (const LiveColumns& buffer : live) is_there.push_back(buffer.any());
    for (const StepUse::Columns& write : steps[i].writes) {
      is_there[at(write.buffer)] = true;
      live[at(write.buffer)].write(write.first, write.end);
    }
    for (const BufferId id : steps[i].reads) {
      is_there[at(id)] = true;
      live[at(id)].read(columns[at(id)]);
    }
    visit(is_there, live);
  }
  return live;
}

std::vector<BufferId> ids_of(const std::vector<LiveColumns>& live) {
  std::vector<BufferId> ids;
  for (std::size_t id = 0; id < live.size(); ++id)
    if (live[id].any()) ids.push_back(static_cast<BufferId>(id));
  return ids;
}

}  // namespace

Conflicts conflicts_of(const std::vector<std::int64_t>& columns, const std::vector<StepUse>& steps,
                       const std::vector<BufferId>& kept) {
  const std::size_t count = columns.size();
  Conflicts conflicts(count, std::vector<bool>(count));
  walk(columns, steps, kept, [&](const std::vector<bool>& is_there, const auto&) {
    for (std::size_t a = 0; a < count; ++a)
      for (std::size_t b = 0; b < count; ++b)
        if (a != b && is_there[a] && is_there[b]) conflicts[a][b] = true;
  });
  return conflicts;
}

std::vector<BufferId> live_before(const std::vector<std::int64_t>& columns, const std::vector<StepUse>& steps,
                                  const std::vector<BufferId>& kept) {
  return ids_of(walk(columns, steps, kept, [](const auto&, const auto&) {}));
}

std::vector<std::vector<BufferId>> live_before_each(const std::vector<std::int64_t>& columns,
                                                    const std::vector<StepUse>& steps,
                                                    const std::vector<BufferId>& kept) {
  std::vector<std::vector<BufferId>> all;
  walk(columns, steps, kept, [&](const auto&, const auto& live) { all.push_back(ids_of(live)); });
  std::reverse(all.begin(), all.end());
  return all;
}

Placement place(const std::vector<std::int64_t>& sizes, const Conflicts& conflicts) {
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return sizes[a] > sizes[b]; });
  Placement placement{std::vector<std::int64_t>(sizes.size()), 0};
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::size_t id = order[i];
    std::vector<std::size_t> in_the_way;
    for (std::size_t j = 0; j < i; ++j)
      if (conflicts[id][order[j]] && sizes[order[j]] > 0) in_the_way.push_back(order[j]);
    std::sort(in_the_way.begin(), in_the_way.end(),
              [&](auto a, auto b) { return placement.offsets[a] < placement.offsets[b]; });
    std::int64_t& offset = placement.offsets[id];
    for (const std::size_t other : in_the_way)
      if (placement.offsets[other] < offset + sizes[id])
        offset = std::max(offset, placement.offsets[other] + sizes[other]);
    placement.size = std::max(placement.size, offset + sizes[id]);
  }
  return placement;
}

}  // namespace assay
