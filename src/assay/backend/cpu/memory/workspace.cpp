#include "assay/backend/cpu/memory/workspace.h"

#include <algorithm>

#include "assay/base/memory.h"
#include "assay/tensor/half.h"

namespace assay::cpu {

namespace {

constexpr std::int64_t kAlignment = 64;

// Floats from a row to the next: whole cache lines, and no multiple of 4 KB, at which all rows would share a
// few sets of the nearest cache.
std::int64_t row_stride(std::int64_t columns) {
  constexpr std::int64_t kLine = 16, kAlias = 1024;
  const std::int64_t whole = round_up(columns, kLine);
  return whole % kAlias == 0 ? whole + kLine : whole;
}

// What the readers and the writers of a buffer want of it.
struct Wants {
  bool has_floats = false;
  int planes = 0;
  bool has_fine_reader = false;  // one that needs more than bfloat16 or bytes
  bool is_multiplied = false;    // read by a matrix multiplication
  bool is_product = false;       // written by one, not added to
  bool is_unused = false;
};

class WantsOfBuffers {
 public:
  explicit WantsOfBuffers(const PackedPlan& packed) : packed_(packed), wants_(packed.plan.buffers.size()) {
    read_finely(packed.plan.hidden);
    for (const FusedOp& fused : packed.ops) {
      std::visit(Cases{[&](const EmbedOp& op) { read_finely(op.out); },
                       [&](const NormOp& op) {
                         read_finely(op.in);
                         if (packed.norms_parts(op)) of(op.out).has_floats = true;
                       },
                       [&](const LinearOp& op) { add(op, fused.gate); },
                       [&](const RotaryOp& op) { read_finely(op.buffer); },
                       [&](const AttentionOp& op) { add(op, fused.rotary); },
                       [&](const GatedOp& op) {
                         read_finely(op.in);
                         of(op.out).is_product = true;
                       },
                       [&](const AddOp& op) {
                         read_finely(op.in);
                         read_finely(op.out);
                       }},
                 fused.op->kind);
    }
  }
  const std::vector<Wants>& all() const { return wants_; }

 private:
  Wants& of(BufferId id) { return wants_[static_cast<std::size_t>(id)]; }
  void read_finely(BufferId id) { of(id).has_floats = of(id).has_fine_reader = true; }

  void add(const LinearOp& op, const GatedOp* gate) {
    Wants& in = of(op.in);
    in.is_multiplied = true;
    const PackedWeight& w = packed_.weight(op.weight);
    if (!packed_.rounds_inputs(op)) in.has_fine_reader = true;
    if (packed_.multiplies_tiles(w))
      in.planes = std::max(in.planes, planes_for(w));
    else if (in.is_product && packed_.quantizes_tiles(op))
      in.planes = std::max(in.planes, 1);  // half the bytes, which stay near until they are quantized
    else
      in.has_floats = true;
    if (gate != nullptr) of(op.out).is_unused = true;  // its outputs go through the gate at once
    of(gate != nullptr ? gate->out : op.out).is_product = !op.adds_to_output;
    if (op.adds_to_output) read_finely(op.out);
  }

  void add(const AttentionOp& op, const RotaryOp* rotary) {
    // Queries, keys and values go to tile products as they come out of one; normed or turned, they are
    // floats.
    if (packed_.attends_tiles(op) && rotary == nullptr && !of(op.qkv).has_floats)
      of(op.qkv).planes = 1;
    else
      of(op.qkv).has_floats = true;
  }

  const PackedPlan& packed_;
  std::vector<Wants> wants_;
};

}  // namespace

void Buffer::put_row(std::int64_t row, const float* x) const {
  if (floats != nullptr && floats + row * stride != x) std::copy_n(x, columns, floats + row * stride);
  if (tiles.data == nullptr) return;
  for (std::int64_t i = 0; i < columns; ++i) {
    float rest = x[i];
    for (int plane = 0; plane < tiles.planes; ++plane) {
      const std::uint16_t bits = float_to_bf16(rest);
      tiles.plane(plane)[tiles.offset(row, i)] = bits;
      rest -= bf16_to_float(bits);
    }
  }
}

void Buffer::update_tiles(std::int64_t first_row, std::int64_t rows) const {
  if (tiles.data == nullptr) return;
  for (std::int64_t row = first_row; row < first_row + rows; ++row) put_row(row, floats + row * stride);
}

std::byte* Arena::take(std::int64_t bytes) {
  std::byte* p = memory_.size() == 0 ? nullptr : memory_.data() + used_;
  used_ += round_up(bytes, kAlignment);
  return p;
}

void Arena::reserve() {
  require_memory({used_}, "the activations");
  memory_ = AlignedBuffer(static_cast<std::size_t>(used_), "the activations");
  used_ = 0;
}

Workspace::Workspace(const PackedPlan& packed, int threads) : packed_(packed), threads_(threads) {
  lay_out();
}

void Workspace::reserve() {
  arena_.reserve();
  lay_out();
}

void Workspace::lay_out() {
  make_buffers();
  make_quantized_buffers();
  make_rotary_tables();
}

// The places of the plan's buffers, then of the LM head's inputs and logits.
std::vector<BufferForm> Workspace::forms() const {
  const Plan& plan = packed_.plan;
  const WantsOfBuffers wants(packed_);
  std::vector<BufferForm> forms;
  for (std::size_t i = 0; i < plan.buffers.size(); ++i) {
    const Wants& want = wants.all()[i];
    const bool is_there = !want.is_unused || want.has_floats;
    forms.push_back({plan.buffers[i].columns, is_there ? kMaxRows : 0, want.has_floats, want.planes});
  }
  const int head_planes = packed_.multiplies_tiles(packed_.head()) ? planes_for(packed_.head()) : 0;
  forms.push_back(
      {packed_.width(plan.hidden), kMaxRows, head_planes == 0 || plan.has_candidate_search, head_planes});
  forms.push_back({plan.vocab, kHeadRows, true, 0});
  return forms;
}

// Buffers that are never needed at the same time share memory. Hidden states stay, for any number of calls of
// the LM head.
Placement Workspace::place_buffers(const std::vector<BufferForm>& forms) const {
  const auto hidden = packed_.plan.hidden, of_head = static_cast<BufferId>(packed_.plan.buffers.size()),
             of_logits = of_head + 1;
  std::vector<StepUse> steps = packed_.steps();
  std::vector<std::int64_t> columns, sizes;
  for (const BufferForm& form : forms) {
    columns.push_back(form.columns);
    sizes.push_back(form.bytes());
  }
  const auto whole = [&](BufferId id) {
    return StepUse::Columns{id, 0, columns[static_cast<std::size_t>(id)]};
  };
  steps.push_back({{hidden}, {whole(of_head)}});
  steps.push_back({{of_head}, {whole(of_logits)}});
  Conflicts conflicts = conflicts_of(columns, steps, {hidden, of_logits});
  for (std::size_t a = 0; a < forms.size(); ++a)
    for (std::size_t b = 0; b < forms.size(); ++b)
      if (a != b && (forms[a].has_tile_padding() || forms[b].has_tile_padding())) conflicts[a][b] = true;
  return place(sizes, conflicts);
}

void Workspace::make_buffers() {
  const WantsOfBuffers wants(packed_);
  const std::vector<BufferForm> all = forms();
  const Placement placement = place_buffers(all);
  std::byte* memory = arena_.take(placement.size);
  buffers_.clear();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const BufferForm& form = all[i];
    std::byte* begin = memory == nullptr ? nullptr : memory + placement.offsets[i];
    Buffer buffer{.columns = form.columns, .stride = form.stride()};
    if (form.has_floats) buffer.floats = reinterpret_cast<float*>(begin);
    if (form.planes > 0) buffer.tiles = form.tiles(begin == nullptr ? nullptr : begin + form.float_bytes());
    buffers_.push_back(buffer);
  }
  logits = buffers_.back();
  buffers_.pop_back();
  head_normed = buffers_.back();
  buffers_.pop_back();
  // What matrix multiplications of int8 or bfloat16 alone read, as the activations within an MLP are.
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    buffers_[i].is_rounded = wants.all()[i].is_multiplied && !wants.all()[i].has_fine_reader;
}

std::int64_t BufferForm::stride() const {
  return row_stride(columns);
}

std::int64_t BufferForm::float_bytes() const {
  return has_floats ? round_up(stride() * rows * 4, kAlignment) : 0;
}

Tiles BufferForm::tiles(std::byte* data) const {
  // 16 rows more: tiles may begin at any row, and strips must not lie 4 KB apart.
  return {reinterpret_cast<std::uint16_t*>(data), round_up(rows, kTileRows) + kTileRows,
          round_up(columns, kTileColumns), planes};
}

std::int64_t BufferForm::bytes() const {
  const Tiles as_tiles = tiles(nullptr);
  return float_bytes() + round_up(as_tiles.plane_size() * as_tiles.planes * 2, kAlignment);
}

namespace {

// The places of int8 inputs. Strips of many rows must not lie a multiple of 4 KB apart, those of few lie side
// by side.
std::int64_t coded_capacity(std::int64_t rows) {
  return rows <= kFourBitRows ? rows : round_up(rows, kTileRows) + kTileRows;
}

}  // namespace

void Workspace::make_quantized_buffers() {
  std::int64_t widest_int8 = 0, widest_four_bit = 0;
  expanded_bytes_ = 0;
  for (const PackedWeight& w : packed_.weights) {
    if (w.packing == Packing::int8) widest_int8 = std::max(widest_int8, w.k_padded());
    if (w.packing != Packing::four_bit && w.packing != Packing::grouped) continue;
    if (w.packing == Packing::four_bit)
      widest_four_bit = std::max(widest_four_bit, round_up(w.k_padded(), kInt8Columns));
    expanded_bytes_ = std::max(
        expanded_bytes_, kExpandedPanels * w.k_padded() * kPanel * (packed_.multiplies_tiles(w) ? 2 : 4));
  }
  if (widest_int8 > 0) {
    const std::int64_t capacity = kMaxRows + kTileRows;
    int8.codes = {reinterpret_cast<std::uint16_t*>(arena_.take(capacity * widest_int8)), capacity,
                  widest_int8 / 2, 1};
    int8.absmax = reinterpret_cast<float*>(arena_.take(capacity * 4));
    int8.zero_points = reinterpret_cast<std::int32_t*>(arena_.take(capacity * 4));
  }
  bool codes_all = packed_.plan.head.product.has_int8_activations;
  for (const FusedOp& fused : packed_.ops)
    if (const auto* linear = std::get_if<LinearOp>(&fused.op->kind))
      codes_all = codes_all || linear->has_int8_activations;
  const std::int64_t coded_rows = codes_all ? coded_capacity(kMaxRows) : kFourBitRows;
  if (codes_all) expanded_bytes_ = std::max(expanded_bytes_, coded_scratch_bytes(kMaxRows));
  if (expanded_bytes_ > 0) expanded_ = arena_.take(expanded_bytes_ * threads_);
  if (widest_four_bit > 0) {
    const std::int64_t inputs = widest_four_bit * coded_rows, groups = inputs / kMinCodedGroup;
    coded_.codes = reinterpret_cast<std::int8_t*>(arena_.take(inputs));
    coded_.scales = reinterpret_cast<float*>(arena_.take(groups * 4));
    coded_.starts = reinterpret_cast<std::int32_t*>(arena_.take(groups * 4));
  }
  make_grouped_rows();
  const auto has_gate = [](const FusedOp& fused) { return fused.gate != nullptr; };
  if (std::any_of(packed_.ops.begin(), packed_.ops.end(), has_gate))
    gate_outputs_ = reinterpret_cast<float*>(arena_.take(threads_ * kMaxRows * kGateColumns * 4));
}

void Workspace::make_grouped_rows() {
  std::int64_t widest = 0;
  const auto look_at = [&](const LinearOp& op) {
    const PackedWeight& w = packed_.weight(op.weight);
    if (op.has_int8_activations && w.packing == Packing::grouped) widest = std::max(widest, w.k_padded());
  };
  for (const FusedOp& fused : packed_.ops)
    if (const auto* linear = std::get_if<LinearOp>(&fused.op->kind)) look_at(*linear);
  look_at(packed_.plan.head.product);
  if (widest == 0) return;
  const std::int64_t inputs = widest * coded_capacity(kMaxRows), groups = inputs / kMinCodedGroup;
  grouped_.codes = reinterpret_cast<std::int8_t*>(arena_.take(inputs));
  for (float** floats : {&grouped_.scales, &grouped_.sums})
    *floats = reinterpret_cast<float*>(arena_.take(groups * 4));
  for (std::int32_t** starts : {&grouped_.starts, &grouped_.own_starts})
    *starts = reinterpret_cast<std::int32_t*>(arena_.take(groups * 4));
}

GroupedRows Workspace::grouped_rows(std::int64_t rows) const {
  GroupedRows coded = grouped_;
  coded.capacity = coded_capacity(rows);
  return coded;
}

CodedRows Workspace::coded_rows(std::int64_t rows) const {
  CodedRows coded = coded_;
  coded.capacity = coded_capacity(rows);
  return coded;
}

void Workspace::make_rotary_tables() {
  rotary_tables.clear();
  for (const Op& op : packed_.plan.ops) {
    const auto* rotary = std::get_if<RotaryOp>(&op.kind);
    if (rotary == nullptr) continue;
    const auto is_alike = [&](const RotaryTable& table) { return table.op->rotates_like(*rotary); };
    if (std::any_of(rotary_tables.begin(), rotary_tables.end(), is_alike)) continue;
    const auto pairs = static_cast<std::int64_t>(rotary->frequencies.size());
    rotary_tables.push_back({.op = rotary,
                             .pairs = pairs,
                             .cosines = reinterpret_cast<float*>(arena_.take(kMaxRows * pairs * 4)),
                             .sines = reinterpret_cast<float*>(arena_.take(kMaxRows * pairs * 4))});
  }
}

const RotaryTable& Workspace::table_of(const RotaryOp& op) const {
  return *std::find_if(rotary_tables.begin(), rotary_tables.end(),
                       [&](const RotaryTable& table) { return table.op->rotates_like(op); });
}

}  // namespace assay::cpu
