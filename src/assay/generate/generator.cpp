#include "assay/generate/generator.h"

#include <algorithm>
#include <numeric>

#include "assay/backend/backend.h"
#include "assay/base/error.h"
#include "assay/base/format.h"
#include "assay/generate/greedy_step.h"

namespace assay {

void check_request(const Program& program, const std::vector<std::vector<TokenId>>& prompts,
                   const GenerationOptions& options) {
  check_sampling(options.sampling);
  check_processors(options.processors, program.plan().vocab);
  if (prompts.empty()) throw Error("no prompt was given");
  if (options.max_new_tokens < 1)
    throw FieldError("max_new_tokens", "expected a whole number from 1, found {}", options.max_new_tokens);
  if (options.depth && (*options.depth < 0 || !options.uses_cache || options.padding != Padding::none))
    throw FieldError("depth", "expected 0 or more tokens, with a KV cache and without padding, found {}",
                     *options.depth);
  const std::int64_t context = program.plan().context;
  Bytes cache;
  std::size_t longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
  for (const auto& prompt : prompts) {
    if (prompt.empty())
      throw Error("the prompt is empty: a causal model needs at least one token to continue");
    const auto tokens = static_cast<std::int64_t>(prompt.size());
    if (tokens <= options.depth.value_or(0))
      throw FieldError("depth", "expected fewer than the prompt's {}, found {}", counted(tokens, "token"),
                       *options.depth);
    const std::int64_t needed = tokens + options.max_new_tokens - (options.depth ? 1 : 0);
    if (options.max_new_tokens > context || needed > context)
      throw Error("{} of the prompt and {} new ones exceed the model's context of {}",
                  counted(tokens, "token"), options.max_new_tokens, context);
    const bool is_padded = options.padding != Padding::none;
    cache = cache + program.cache_bytes((is_padded ? static_cast<std::int64_t>(longest) : tokens) +
                                        options.max_new_tokens);
  }
  program.require_memory(cache, fmt::format("the keys and values of {} sequences", prompts.size()));
}

namespace {

bool mixes_rows_beside_attention(const Plan& plan) {
  return std::any_of(plan.ops.begin(), plan.ops.end(), [](const Op& op) {
    return !std::holds_alternative<AttentionOp>(op.kind) && mixes_rows(op);
  });
}

class Generation {
 public:
  Generation(Backend& backend, Program& program, const std::vector<std::vector<TokenId>>& prompts,
             const GenerationOptions& options, const OnToken& on_token)
      : backend_(backend),
        program_(program),
        options_(options),
        on_token_(on_token),
        cache_(program.make_cache()),
        switches_(rotary_switches(program.plan())),
        texts_(prompts),
        has_mixed_rows_(mixes_rows_beside_attention(program.plan())) {
    std::size_t longest = 0;
    for (const auto& prompt : prompts) longest = std::max(longest, prompt.size());
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      missing_.push_back(options.padding == Padding::none ? 0 : longest - prompts[i].size());
      numbers_.push_back(cache_->add_sequence());
      prompt_tokens_.push_back(static_cast<std::int64_t>(prompts[i].size()));
      samplers_.emplace_back(options.sampling, i);
      texts_[i].reserve(longest + static_cast<std::size_t>(options.max_new_tokens));
      if (options.padding == Padding::left)
        texts_[i].insert(texts_[i].begin(), missing_[i], options.pad_token);
      trace_.computed_prompt_tokens +=
          static_cast<std::int64_t>(prompts[i].size() + missing_[i]) - options.depth.value_or(0);
    }
    trace_.sequences.resize(prompts.size());
    active_.resize(prompts.size());
    std::iota(active_.begin(), active_.end(), std::size_t{0});
    reserve(longest);
  }

  GenerationTrace run(const ShouldStop& should_stop) {
    if (options_.depth.value_or(0) > 0) fill_cache(*options_.depth, should_stop);
    backend_.synchronize();
    last_ = backend_.record();
    for (std::int64_t made = 0; made < options_.max_new_tokens && !active_.empty();) {
      if (made > 0 && should_stop && should_stop()) {
        for (const std::size_t i : active_) trace_.sequences[i].stop = StopReason::interrupted;
        break;
      }
      if (const std::int64_t steps = greedy_steps(made); steps > 0) {
        run_greedily(steps);
        made += steps;
      } else {
        step(made == 0, should_stop);
        ++made;
      }
    }
    backend_.synchronize();
    trace_.total = since_start();
    return std::move(trace_);
  }

 private:
  // In parts: a device keeps few points of its time line, and between two that are far apart it counts
  // coarsely.
  Seconds since_start(const Event& now) {
    elapsed_ = elapsed_ + backend_.between(last_, now);
    last_ = now;
    return elapsed_;
  }
  Seconds since_start() { return since_start(backend_.record()); }

  // Before the clock starts.
  void fill_cache(std::int64_t depth, const ShouldStop& should_stop) {
    std::vector<StepItem> items;
    for (std::size_t i = 0; i < texts_.size(); ++i)
      items.push_back({.sequence = numbers_[i],
                       .ids = std::span<const TokenId>(texts_[i]).first(static_cast<std::size_t>(depth)),
                       .wanted = depth - 1,
                       .extent = static_cast<std::int64_t>(texts_[i].size())});
    run_in_steps(
        program_, *cache_, items, [](std::span<const StepPart>) {}, should_stop);
  }

  // The last token of a sequence is not kept.
  void reserve(std::size_t longest) {
    if (!options_.uses_cache) return;
    std::int64_t blocks = 0;
    for (const auto& text : texts_) {
      const auto read = static_cast<std::int64_t>(options_.padding == Padding::right ? longest : text.size());
      const std::int64_t held =
          std::max(read, static_cast<std::int64_t>(text.size()) + options_.max_new_tokens - 1);
      blocks += (held + kKvBlock - 1) / kKvBlock;
    }
    cache_->reserve(blocks);
  }

  bool is_plain_greedy() const {
    return options_.sampling.is_plain_greedy() && options_.processors.is_empty();
  }

  // How many steps the device may make by itself now; 0: none.
  std::int64_t greedy_steps(std::int64_t made) const {
    constexpr std::int64_t kMax = 16;  // tokens are known when all of them are
    constexpr std::int64_t kWatched = 4;
    const bool is_decode =
        made > 0 && options_.uses_cache && static_cast<std::int64_t>(active_.size()) <= program_.max_rows();
    if (!is_decode || !program_.can_run_greedily() || !is_plain_greedy() || options_.on_logits ||
        !switches_.empty())
      return 0;
    // Rows of sequences that have ended must not change those of the others.
    if (!options_.end_tokens.empty() && active_.size() > 1 && has_mixed_rows_) return 0;
    const bool is_watched = on_token_ || !options_.end_tokens.empty();
    return std::min(is_watched ? kWatched : kMax, options_.max_new_tokens - made);
  }

  void run_greedily(std::int64_t steps) {
    Seconds before = since_start();
    Batch batch;
    for (const std::size_t i : active_) {
      const std::int64_t padding =
          options_.padding == Padding::left ? static_cast<std::int64_t>(missing_[i]) : 0;
      batch.sequences.push_back({.sequence = numbers_[i],
                                 .first_row = static_cast<std::int64_t>(batch.ids.size()),
                                 .rows = 1,
                                 .first_key = padding});
      batch.positions.push_back(static_cast<std::int32_t>(cache_->length(numbers_[i]) - padding));
      batch.ids.push_back(texts_[i].back());
    }
    const std::vector<std::size_t> order = active_;
    chosen_.resize(static_cast<std::size_t>(steps) * order.size());
    std::vector<Event> ends;
    program_.run_greedily(batch, *cache_, steps, chosen_, [&] { ends.push_back(backend_.record()); });
    backend_.synchronize();
    for (std::size_t step = 0; step < ends.size(); ++step) {
      const Seconds end = since_start(ends[step]);
      if (active_.empty()) continue;
      trace_.decode.push_back(end - before);
      trace_.step_end.push_back(end);
      before = end;
      next_.clear();
      for (std::size_t row = 0; row < order.size(); ++row) {
        if (std::find(active_.begin(), active_.end(), order[row]) == active_.end()) continue;
        next_.push_back(chosen_[step * order.size() + row]);
        require_finite(program_.plan(), next_.back(), std::ssize(texts_[order[row]]) - 1);
      }
      append();
    }
  }

  void step(bool is_prefill, const ShouldStop& should_stop) {
    const Seconds begin = since_start();
    // Right padding is there while the prompt is read: in every step where nothing is kept.
    const bool pads_right = options_.padding == Padding::right && (is_prefill || !options_.uses_cache);
    std::vector<StepItem> items;
    for (const std::size_t i : active_) {
      const bool pads_left = options_.padding == Padding::left;
      const auto padding = static_cast<std::int64_t>(pads_left ? missing_[i] : 0);
      const std::int64_t extent = static_cast<std::int64_t>(texts_[i].size()) - padding;
      if (!is_prefill &&
          (!options_.uses_cache || grows_beyond_a_switch(cache_->length(numbers_[i]) - padding, extent)))
        cache_->truncate(numbers_[i], 0);
      if (pads_right) texts_[i].insert(texts_[i].end(), missing_[i], options_.pad_token);
      const auto known = static_cast<std::size_t>(cache_->length(numbers_[i]));
      const std::size_t last = texts_[i].size() - known - 1 - (pads_right ? missing_[i] : 0);
      items.push_back({.sequence = numbers_[i],
                       .ids = std::span<const TokenId>(texts_[i]).subspan(known),
                       .padding = padding,
                       .wanted = static_cast<std::int64_t>(last),
                       .extent = extent});
    }
    next_.assign(active_.size(), -1);
    sampling_ = {};
    run_in_steps(
        program_, *cache_, items, [&](std::span<const StepPart> parts) { choose(items, parts); },
        is_prefill ? should_stop : ShouldStop{});
    if (pads_right) remove_right_padding();
    backend_.synchronize();
    const Seconds end = since_start(), computing = end - begin - sampling_;
    if (is_prefill)
      trace_.prefill = computing;
    else
      trace_.decode.push_back(computing);
    trace_.sampling = trace_.sampling + sampling_;
    trace_.step_end.push_back(end);
    append();
  }

  // Then the whole sequence is computed again, as Transformers does for Phi 3: once in a generation.
  bool grows_beyond_a_switch(std::int64_t past, std::int64_t extent) const {
    return std::ranges::any_of(switches_,
                               [&](std::int64_t limit) { return past <= limit && extent > limit; });
  }

  // The tokens of sequence `i`, without padding.
  std::span<const TokenId> known_tokens(const StepItem& item, std::size_t i) const {
    const std::size_t before = options_.padding == Padding::left ? missing_[i] : 0,
                      after = item.ids.size() - 1 - static_cast<std::size_t>(*item.wanted);
    return std::span(texts_[i]).subspan(before, texts_[i].size() - before - after);
  }

  TokenId sampled(std::size_t i, std::span<const TokenId> text) try {
    return samplers_[i].next(logits_, text, [&](std::span<float> logits) {
      if (!options_.processors.is_empty())
        apply_processors(options_.processors, {text, prompt_tokens_[i], options_.max_new_tokens}, logits);
    });
  } catch (const LogitsNotFinite&) {
    require_finite(program_.plan(), logits_, std::ssize(text) - 1);
    throw;
  }

  // Chooses the next token of every sequence whose last row was in this step.
  void choose(std::span<const StepItem> items, std::span<const StepPart> parts) {
    const NextTokenRows from = next_token_rows(items, parts);
    if (from.rows.empty()) return;
    if (is_plain_greedy() && !options_.on_logits) {
      choose_greedily(program_, from, next_);
      for (const std::size_t item : from.items)
        require_finite(program_.plan(), next_[item],
                       std::ssize(known_tokens(items[item], active_[item])) - 1);
      return;
    }
    const auto vocab = static_cast<std::size_t>(program_.plan().vocab);
    logits_.resize(vocab);
    for (std::size_t j = 0; j < from.rows.size(); ++j) {
      program_.head(std::span(from.rows).subspan(j, 1), LogitsSink{logits_});
      const Event begin = backend_.record();
      const std::size_t i = active_[from.items[j]];
      if (options_.on_logits) options_.on_logits(i, logits_);
      next_[from.items[j]] = sampled(i, known_tokens(items[from.items[j]], i));
      sampling_ = sampling_ + backend_.between(begin, backend_.record());
    }
  }

  void remove_right_padding() {
    for (const std::size_t i : active_) {
      texts_[i].resize(texts_[i].size() - missing_[i]);
      if (missing_[i] > 0) cache_->truncate(numbers_[i], static_cast<std::int64_t>(texts_[i].size()));
    }
  }

  void append() {
    std::vector<std::size_t> still;
    for (std::size_t j = 0; j < active_.size(); ++j) {
      const std::size_t i = active_[j];
      const TokenId id = next_[j];
      trace_.sequences[i].ids.push_back(id);
      texts_[i].push_back(id);
      if (on_token_) on_token_(i, id);
      const bool ends =
          std::find(options_.end_tokens.begin(), options_.end_tokens.end(), id) != options_.end_tokens.end();
      if (ends) {
        trace_.sequences[i].stop = StopReason::end_token;
        cache_->remove_sequence(numbers_[i]);
      } else {
        still.push_back(i);
      }
    }
    active_ = std::move(still);
  }

  Backend& backend_;
  Program& program_;
  const GenerationOptions& options_;
  const OnToken& on_token_;
  std::unique_ptr<KvCache> cache_;
  std::vector<std::int64_t> switches_;
  std::vector<std::vector<TokenId>> texts_;  // prompt and generated ids of each sequence
  std::vector<std::int64_t> prompt_tokens_;
  std::vector<int> numbers_;          // each sequence's in the cache
  std::vector<std::size_t> missing_;  // tokens of padding
  std::vector<Sampler> samplers_;
  std::vector<std::size_t> active_;
  std::vector<TokenId> next_, chosen_;
  std::vector<float> logits_;
  const bool has_mixed_rows_;
  Event last_;
  Seconds elapsed_;
  Seconds sampling_;
  GenerationTrace trace_;
};

}  // namespace

std::string_view name_of(StopReason reason) {
  switch (reason) {
    case StopReason::length:
      return "length";
    case StopReason::end_token:
      return "end_token";
    case StopReason::interrupted:
      return "interrupted";
  }
  return "?";
}

std::string_view name_of(Padding padding) {
  return padding == Padding::none ? "none" : padding == Padding::left ? "left" : "right";
}

Padding padding_from_name(std::string_view text) {
  for (const Padding padding : {Padding::none, Padding::left, Padding::right})
    if (text == name_of(padding)) return padding;
  throw FieldError("padding", "expected left, right or none, found '{}'", text);
}

std::int64_t GenerationTrace::tokens_generated() const {
  std::int64_t sum = 0;
  for (const SequenceTrace& sequence : sequences) sum += static_cast<std::int64_t>(sequence.ids.size());
  return sum;
}

GenerationTrace generate(Backend& backend, Program& program, const std::vector<std::vector<TokenId>>& prompts,
                         const GenerationOptions& options, const OnToken& on_token,
                         const ShouldStop& should_stop) {
  check_request(program, prompts, options);
  return Generation(backend, program, prompts, options, on_token).run(should_stop);
}

}  // namespace assay
