#include "assay/session/format_items.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/memory.h"
#include "assay/generate/greedy_step.h"
#include "assay/model/forward.h"
#include "assay/plan/operation_groups.h"
#include "assay/quant/selection.h"
#include "assay/session/load_parts.h"

namespace assay {

namespace {

constexpr const char* kHeadItem = "lm_head";

// The first part of a name that is a number.
std::optional<int> layer_of(const std::string& name) {
  for (std::size_t begin = 0; begin < name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const bool is_number = end > begin && end - begin < 6 &&
                           std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin),
                                       name.begin() + static_cast<std::ptrdiff_t>(end),
                                       [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) return std::stoi(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return std::nullopt;
}

using FormatOfModule = std::map<std::string, WeightFormat>;

// Whether every module that the pattern matches has this format.
bool is_pattern_of(const std::string& pattern, const WeightFormat& format, const FormatOfModule& modules) {
  return std::all_of(modules.begin(), modules.end(), [&](const auto& each) {
    return each.second == format || !matches_pattern(pattern, each.first);
  });
}

// A pattern of one name alone: a plain name would match longer ones too.
std::string pattern_of_one(const std::string& module) {
  std::string pattern;
  for (const char c : module)
    pattern += c == '*' || c == '?' || c == '[' ? fmt::format("[{}]", c) : std::string(1, c);
  return pattern == module ? fmt::format("[{}]{}", module.front(), module.substr(1)) : pattern;
}

WeightFormat most_common(const FormatOfModule& modules) {
  WeightFormat best = formats::kFloat32;
  std::ptrdiff_t most = 0;
  for (const auto& [module, format] : modules) {
    const auto count =
        std::count_if(modules.begin(), modules.end(),
                      [&, &counted = format](const auto& each) { return each.second == counted; });
    if (count > most) {
      most = count;
      best = format;
    }
  }
  return best;
}

}  // namespace

std::vector<FormatItem> format_items(const Plan& plan) {
  std::vector<FormatItem> items;
  for (const Op& op : plan.ops) {
    const auto* product = std::get_if<LinearOp>(&op.kind);
    if (product == nullptr) continue;
    items.push_back({op.name, without_layer(op.name), layer_of(op.name), product->modules, product->weight});
  }
  items.push_back({kHeadItem, kHeadItem, std::nullopt, {}, plan.head.product.weight});
  return items;
}

Recipe recipe_of_items(const std::string& name, std::span<const FormatItem> items,
                       std::span<const WeightFormat> formats) {
  if (items.size() != formats.size()) throw std::logic_error("a recipe needs a format for each item");
  FormatOfModule modules;
  Recipe recipe{.name = name};
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].modules.empty()) recipe.lm_head = formats[i];
    for (const std::string& module : items[i].modules) modules[module] = formats[i];
  }
  recipe.default_format = most_common(modules);
  for (const FormatItem& item : items)
    for (const std::string& module : item.modules) {
      const WeightFormat& own = modules.at(module);
      // The rules that stand already speak of this module alone where they match it, or rightly.
      if (recipe.format_of(module) == own) continue;
      const std::string of_kind = without_layer(module);
      const bool is_shared = of_kind != module && is_pattern_of(of_kind, own, modules);
      const bool is_plain = is_pattern_of(module, own, modules);
      recipe.rules.push_back({is_shared ? of_kind : is_plain ? module : pattern_of_one(module), own});
    }
  for (const auto& [module, format] : modules)
    if (recipe.format_of(module) != format)
      throw std::logic_error("a recipe gives " + module + " another format");
  return recipe;
}

ItemExchange::ItemExchange(LoadedModel base, std::function<bool()> should_stop)
    : base_(std::move(base)), should_stop_(std::move(should_stop)) {
  const Model& model = *base_.model;
  const Precision& precision = model.precision();
  base_format_ = precision.weights;
  if (precision.is_stored || precision.recipe || precision.lm_head != base_format_ ||
      (base_format_ != formats::kFloat32 && base_format_ != formats::kBfloat16))
    throw Error("{}: expected a model in float32 or bfloat16 whose parts change their formats, found {}",
                base_.id, base_.dtype_label);
  LoadOptions options;
  options.shared_backend = model.shared_backend();
  options.needs_tokenizer = false;
  options.should_stop = should_stop_;
  copy_ = load_source(model.shared_source(), base_.config, options);
  source_ = weight_source(model.source());
  items_ = format_items(model.program().plan());
  formats_.assign(items_.size(), base_format_);
  const std::int64_t available = available_memory().value;
  kept_.most = {available == 0 ? kKeptLogits : std::min(kKeptLogits, available / 4)};
}

const Plan& ItemExchange::plan_in(const WeightFormat& format) {
  const std::string name = recipe_name_of(format);
  if (const auto found = plans_.find(name); found != plans_.end()) return found->second;
  const Recipe uniform{.name = name, .default_format = format, .lm_head = format};
  Precision precision = precision_of(uniform);
  precision.dtype = base_.model->precision().dtype;
  precision.kv_cache = base_.model->precision().kv_cache;
  return plans_.emplace(name, plan_forward(base_.model->spec(), precision)).first->second;
}

std::int64_t ItemExchange::inputs_of(std::size_t item) const {
  return base_.model->program().plan().weight(items_.at(item).weight).columns;
}

bool ItemExchange::takes(std::size_t item, const WeightFormat& format) const {
  return inputs_of(item) % block_inputs(format) == 0;
}

void ItemExchange::set(std::size_t item, const WeightFormat& format) {
  if (formats_.at(item) == format) return;
  try {
    copy_.model->program().exchange(items_[item].weight, plan_in(format), *source_);
  } catch (const Stopped&) {
    throw;
  } catch (const Error& error) {
    throw Error("{} in {}: {}", items_[item].name, recipe_name_of(format), error.what());
  }
  formats_[item] = format;
}

void ItemExchange::set_all(std::span<const WeightFormat> formats) {
  if (formats.size() != items_.size()) throw std::logic_error("an exchange needs a format for each item");
  for (std::size_t i = 0; i < items_.size(); ++i) set(i, formats[i]);
}

void ItemExchange::restore() {
  for (std::size_t i = 0; i < items_.size(); ++i) restore(i);
}

Divergence ItemExchange::measure(std::span<const TokenId> ids, std::optional<std::int64_t> context) {
  Program* const copy = &copy_.model->program();
  Divergence found = measure_divergence(base_.model->program(), std::span(&copy, 1), ids,
                                        {.context = context,
                                         .pool = base_.model->backend().pool(),
                                         .should_stop = should_stop_,
                                         .kept = &kept_});
  if (!found.candidates.front().failure.empty()) throw Error("{}", found.candidates.front().failure);
  return found;
}

ItemExchange::StepTimes ItemExchange::time_steps(std::span<const TokenId> ids, std::int64_t steps) {
  struct Timed {
    Program& program;
    std::unique_ptr<KvCache> cache;
    std::vector<double>* seconds;
    std::vector<TokenId> next{0};
  };
  StepTimes times;
  Timed sides[] = {{base_.model->program(), nullptr, &times.base},
                   {copy_.model->program(), nullptr, &times.copy}};
  for (Timed& side : sides) {
    side.cache = side.program.make_cache();
    const StepItem prompt{.sequence = side.cache->add_sequence(), .ids = ids, .wanted = std::ssize(ids) - 1};
    run_greedy_step(side.program, *side.cache, std::span(&prompt, 1), side.next);
  }
  const std::int64_t room = base_.model->program().plan().context - std::ssize(ids);
  for (std::int64_t i = 0; i < std::min(steps, room); ++i) {
    if (should_stop_ && should_stop_()) throw Stopped("interrupted after {} decode steps", i);
    for (Timed& side : sides) {
      const std::vector<TokenId> one = side.next;
      const StepItem step{.sequence = 0, .ids = one};
      const TimePoint begin = Clock::now();
      run_greedy_step(side.program, *side.cache, std::span(&step, 1), side.next);
      side.seconds->push_back(elapsed(begin, Clock::now()).value);
    }
  }
  return times;
}

Bytes ItemExchange::bytes(std::size_t item, const WeightFormat& format) {
  return stored_bytes(plan_in(format).weight(items_.at(item).weight));
}

Bytes ItemExchange::other_bytes() const {
  const Plan& plan = base_.model->program().plan();
  Bytes all;
  for (std::size_t i = 0; i < plan.weights.size(); ++i) {
    const auto is_it = [&](const FormatItem& item) { return item.weight == static_cast<WeightId>(i); };
    if (std::none_of(items_.begin(), items_.end(), is_it)) all = all + stored_bytes(plan.weights[i]);
  }
  return all;
}

}  // namespace assay
